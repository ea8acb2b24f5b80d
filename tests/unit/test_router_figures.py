"""Figures: small cases worked by hand."""

import numpy as np
import pytest

from router.figures import auroc, calibration_error, rank_correlation, routing_curve, verdicts, wasted_at

P = np.array([0.9, 0.8, 0.4, 0.3])
LABELS = np.array([1, 0, 1, 0])


def test_verdicts() -> None:
    found = verdicts(P, LABELS)
    assert found == {"n": 4, "accuracy": 0.5, "ece": 0.45, "missed": 0.5, "wasted": 0.5, "auroc": 0.75}


def test_one_label_alone_has_no_auroc() -> None:
    assert set(verdicts(P, np.ones(4, dtype=np.int64))) == {"n", "accuracy", "ece", "missed"}


def test_ties_count_half() -> None:
    assert auroc(np.full(4, 0.5), LABELS) == 0.5


def test_sure_and_right_is_calibrated() -> None:
    assert calibration_error(np.array([1.0, 0.0]), np.array([1, 0])) == 0.0
    assert calibration_error(np.array([1.0, 0.0]), np.array([0, 1])) == 1.0


def test_rank_correlation() -> None:
    assert rank_correlation(P, P**3) == pytest.approx(1.0)
    assert rank_correlation(P, -P) == pytest.approx(-1.0)
    assert rank_correlation(P, np.ones(4)) == 0.0


def test_wasted_at_a_share_of_missed() -> None:
    assert wasted_at(P, LABELS, 0.0) == 0.5
    assert wasted_at(P, LABELS, 0.5) == 0.0


def test_routing_curve_of_an_oracle_and_of_its_opposite() -> None:
    weak = np.array([True, False, True, False] * 25)
    strong = np.ones(100, dtype=bool)
    oracle = routing_curve((~weak).astype(float), weak, strong)
    assert oracle["apgr"] == pytest.approx(0.75, abs=0.01)
    assert oracle["cpt50"] == 25.0
    assert routing_curve(weak.astype(float), weak, strong)["apgr"] == pytest.approx(0.25, abs=0.01)
    with pytest.raises(ValueError, match="no better"):
        routing_curve(P, np.ones(4, dtype=bool), np.ones(4, dtype=bool))
