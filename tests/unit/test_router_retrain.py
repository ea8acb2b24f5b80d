"""Retraining on a log: calibration, refit, guard, versions, outcomes; and the commands that do it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from router import Models
from router.__main__ import main
from router.loading import ASSETS, load_models, read_head
from router.retrain.fitting import fit_logistic, fit_platt, logistic
from router.retrain.log import LogRow, read_log, read_rows
from router.retrain.outcomes import curves
from router.retrain.refit import Refused, calibrate, check_guard, evaluate, guard_rows, refit, write_version

GUARD = ASSETS / "guard.jsonl"


@pytest.fixture(scope="module")
def models() -> Models:
    return load_models()


@pytest.fixture(scope="module")
def rows() -> list[LogRow]:
    return guard_rows()


def test_logistic_finds_what_made_the_labels() -> None:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(4000, 3))
    labels = (rng.random(4000) < logistic(inputs @ np.array([2.0, -1.0, 0.0]) + 0.5)).astype(float)
    assert fit_logistic(inputs, labels, ridge=0.1) == pytest.approx([2.0, -1.0, 0.0, 0.5], abs=0.2)


def test_platt_undoes_an_overconfident_logit() -> None:
    rng = np.random.default_rng(2)
    true = rng.normal(size=4000)
    labels = (rng.random(4000) < logistic(true)).astype(float)
    slope, offset = fit_platt(true * 3 + 1, labels)
    assert slope == pytest.approx(1 / 3, abs=0.05)
    assert offset == pytest.approx(-1 / 3, abs=0.1)


def test_platt_survives_separable_labels() -> None:
    assert np.isfinite(fit_platt(np.array([-5.0, -4.0, 4.0, 5.0]), np.array([0.0, 0.0, 1.0, 1.0]))).all()


def test_calibration_keeps_the_order_and_fills_the_knob(models: Models, rows: list[LogRow]) -> None:
    head = calibrate(models, rows)
    assert float(head.platt[0]) > 0
    assert np.all(np.diff(head.missed) >= 0)
    assert evaluate(replace(models, head=head), rows)["auroc"] == evaluate(models, rows)["auroc"]


def test_too_few_rows_are_refused(models: Models, rows: list[LogRow]) -> None:
    with pytest.raises(Refused, match="100 labelled rows"):
        calibrate(models, rows[:50])
    with pytest.raises(Refused, match="500 labelled rows"):
        refit(models, rows)
    with pytest.raises(Refused, match="one label"):
        calibrate(models, [row for row in rows if row.label] * 2)


def test_refit_learns_and_keeps_its_guard(models: Models, rows: list[LogRow]) -> None:
    head = refit(models, rows * 2)
    old, new = check_guard(models, head)
    assert new >= old - 0.01


def test_a_log_turned_upside_down_is_refused(models: Models, rows: list[LogRow]) -> None:
    turned = [replace(row, label=1 - (row.label or 0)) for row in rows] * 4
    with pytest.raises(Refused, match="guard set falls"):
        refit(models, turned)


def test_versions_are_named_by_their_digest(models: Models, tmp_path: Path) -> None:
    first = write_version(models.head, tmp_path, {"by": "test"})
    assert write_version(models.head, tmp_path, {"by": "test"}) == first
    assert write_version(models.head, tmp_path, {"by": "another"}) != first
    assert read_head(first).card["retrained"] == {"by": "test"}


def test_outcomes_beside_length_and_chance(models: Models, rows: list[LogRow]) -> None:
    """A strong model that wins just where reasoning is needed: our own fit must see it, chance must not."""
    graded = [replace(row, weak=float(not row.label), strong=1.0) for row in rows] * 2
    found = curves(models, graded[:400])
    assert found["words and encoder, own labels"]["apgr"] > 0.65
    assert found["random"]["apgr"] < 0.6
    with pytest.raises(Refused, match="300 rows"):
        curves(models, rows)


def test_log_lines(tmp_path: Path) -> None:
    lines = ['{"text": "hi", "label": "simple"}', "", '{"messages": [{"role": "user", "content": "x"}], "weak": true}']
    first, second = read_rows(lines)
    assert (first.ask.text, first.label, second.ask.text, second.label, second.weak) == ("hi", 0, "x", None, 1.0)
    with pytest.raises(ValueError, match="line 2"):
        list(read_rows(["{}", "{"]))


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--log", str(GUARD), "--out", str(tmp_path)]) == 0
    path = json.loads(capsys.readouterr().out)["head"]
    assert main(["eval", "--log", str(GUARD), "--head", path]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.7
    assert main(["diff", str(ASSETS / "head.npz"), path, "--log", str(GUARD)]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["rows"] == len(read_log(GUARD))
    assert main(["refit", "--log", str(GUARD), "--out", str(tmp_path)]) == 1
    assert "500 labelled rows" in capsys.readouterr().err
    assert main(["eval", "--log", str(tmp_path / "absent")]) == 1


def test_explain_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "Prove that 2 is prime. Thanks!"]) == 0
    assert json.loads(capsys.readouterr().out)["route"] in ("reasoning", "standard")
