"""The trained files: their size and card, the knob in plain units, a complexity that only rises."""

from pathlib import Path

import numpy as np
import pytest

from router import Head
from router.cheap import Cheap
from router.head import Grading
from router.loading import ASSETS


@pytest.fixture(scope="module")
def head() -> Head:
    return Head.read(ASSETS / "head.npz")


def test_files_are_small(head: Head) -> None:
    sizes = {path.name: path.stat().st_size for path in ASSETS.iterdir()}
    assert sizes["encoder.onnx"] <= 25_000_000
    assert sizes["head.npz"] < 300_000
    assert sum(sizes.values()) < 40_000_000


def test_the_card_says_what_was_done(head: Head) -> None:
    assert set(head.card) >= {"start", "trained_with", "figures", "data_sha256", "rows", "seed", "sha256", "features"}
    assert head.card["figures"]["hard_open"]["encoder"]["accuracy"] > 0.85


def test_head_and_cheap_tier_survive_writing(head: Head, tmp_path: Path) -> None:
    head.write(tmp_path / "head.npz")
    again = Head.read(tmp_path / "head.npz")
    assert again.card == head.card
    assert np.array_equal(again.hidden, head.hidden)
    cheap = Cheap.read(ASSETS / "cheap.npz")
    cheap.write(tmp_path / "cheap.npz")
    assert np.array_equal(Cheap.read(tmp_path / "cheap.npz").hidden, cheap.hidden)


def test_the_knob_is_a_share(head: Head) -> None:
    strict, loose = head.threshold_for_missed(0.02), head.threshold_for_missed(0.2)
    assert 0 <= strict <= loose <= 1
    few, many = head.threshold_for_target(0.1), head.threshold_for_target(0.9)
    assert 0 <= many <= few <= 1
    with pytest.raises(ValueError, match="share"):
        head.threshold_for_missed(1.5)


def test_complexity_rises_with_residual_and_p(head: Head) -> None:
    grading = Grading(head.classes, head.knots)
    for p in (0.0, 0.3, 0.7, 1.0):
        graded = [grading.complexity(p, residual) for residual in np.linspace(-4, 4, 30)]
        assert graded == sorted(graded)
        assert all(0 <= one <= 1 for one in graded)
    assert grading.complexity(0.02, 0.0) < grading.complexity(0.98, 0.0)


@pytest.mark.parametrize("length", [1, 2, 3, 17, 84])
def test_cheap_tier_takes_any_length(length: int) -> None:
    cheap = Cheap.read(ASSETS / "cheap.npz")
    scaled = np.zeros(len(Head.read(ASSETS / "head.npz").centre), dtype=np.float32)
    score = cheap.score(list(range(length)), [], scaled)
    assert 0 <= score.p_reasoning <= 1
    assert 0 <= score.complexity <= 1
