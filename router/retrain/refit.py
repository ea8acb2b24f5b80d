"""From a log to a new head: calibration, knob tables, output layer. The encoder stays as it is.

Every new head must hold its ground on the guard set, hand-written prompts that ship with the router: one that falls
by more than a point is refused. Heads are files named by their digest; nothing is overwritten.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from router.classifier import Classifier, Models
from router.figures import verdicts
from router.head import Head
from router.loading import ASSETS
from router.retrain.fitting import fit_logistic, fit_platt, folds, logistic
from router.retrain.log import LogRow, read_log

LEAST_CALIBRATE: Final = 100
"""Labelled rows below which a calibration would be noise."""
LEAST_REFIT: Final = 500
GUARD_FALL: Final = 0.01
"""Accuracy that a new head may lose on the guard set."""
_RIDGE: Final = 3.0
_RIDGE_WHOLE: Final = 30.0
"""The same for a foreign encoder, whose thousand columns start from nothing."""

Floats = NDArray[np.float64]


class Refused(RuntimeError):
    """A new head was not made, and the message says why."""


def guard_rows() -> list[LogRow]:
    return read_log(ASSETS / "guard.jsonl")


def calibrate(models: Models, rows: Sequence[LogRow]) -> Head:
    """Platt's two numbers and both knob tables, from the labelled rows. Raises Refused under a hundred of them."""
    labelled, labels = _labelled(rows, LEAST_CALIBRATE)
    logits = _logits(models, labelled)
    slope, offset = fit_platt(logits, labels)
    return tabulate(replace(models.head, platt=np.array([slope, offset], dtype=np.float32)), logits, labels)


def refit(models: Models, rows: Sequence[LogRow]) -> Head:
    """A new output layer over the hidden units, held near the old one, calibrated by cross-validation.

    Where the head does not fit the encoder (one of the operator's own), a new linear head over its encodings instead.
    Raises Refused under five hundred labelled rows, or when the guard set falls.
    """
    labelled, labels = _labelled(rows, LEAST_REFIT)
    if models.head.hidden.shape[0] == _width(models):
        units = _units(models, labelled)
        weights, logits = _cross_fitted(units, labels, _RIDGE, models.head.output.astype(np.float64))
        head = replace(models.head, output=weights.astype(np.float32))
    else:
        inputs = _inputs(models, labelled)
        weights, logits = _cross_fitted(inputs, labels, _RIDGE_WHOLE, None)
        head = _linear(models.head, weights)
    slope, offset = fit_platt(logits, labels)
    head = tabulate(replace(head, platt=np.array([slope, offset], dtype=np.float32)), logits, labels)
    if models.head.hidden.shape[0] == _width(models):
        check_guard(models, head)
    return head


def check_guard(models: Models, new_one: Head | Models) -> tuple[float, float]:
    """Accuracy of the old models and the new (or of a new head) on the guard set.

    Raises Refused when it falls by more than a point.
    """
    rows = guard_rows()
    candidate = replace(models, head=new_one) if isinstance(new_one, Head) else new_one
    old, new = (evaluate(one, rows)["accuracy"] for one in (models, candidate))
    if new < old - GUARD_FALL:
        raise Refused(f"the guard set falls from {old:.3f} to {new:.3f}: the log is one-sided, or its labels are wrong")
    return old, new


def evaluate(models: Models, rows: Sequence[LogRow], threshold: float = 0.5) -> dict[str, float]:
    """Figures of the encoder's head on the labelled rows."""
    labelled, labels = _labelled(rows, 1)
    return verdicts(probabilities(models, labelled), labels.astype(np.int64), threshold)


def probabilities(models: Models, rows: Sequence[LogRow]) -> Floats:
    """Calibrated p of each row, without rules, cheap tier or policy."""
    classifier = Classifier(models, cache_size=0)
    return np.array([classifier.full_score(row.ask, classifier.work(row.ask)).p_reasoning for row in rows])


def write_version(head: Head, folder: Path, notes: dict[str, Any]) -> Path:
    """Write the head with `notes` in its card, under a name that is its digest; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "head.part.npz"
    replace(head, card={**head.card, "retrained": notes}).write(part)
    path = folder / f"head-{hashlib.sha256(part.read_bytes()).hexdigest()[:12]}.npz"
    part.replace(path)
    return path


def tabulate(head: Head, logits: Floats, labels: Floats) -> Head:
    """The head with knob tables from these rows."""
    p = logistic(float(head.platt[0]) * logits + float(head.platt[1]))
    grid = np.linspace(0, 1, 101)
    hard = p[labels > 0.5]
    return replace(
        head,
        missed=np.quantile(hard, grid).astype(np.float32) if len(hard) else head.missed,
        shares=np.quantile(p, grid).astype(np.float32),
    )


def _labelled(rows: Sequence[LogRow], least: int) -> tuple[list[LogRow], Floats]:
    labelled = [row for row in rows if row.label is not None]
    labels = np.array([row.label for row in labelled], dtype=np.float64)
    if len(labelled) < least:
        raise Refused(f"{least} labelled rows are needed, the log has {len(labelled)}")
    if least > 1 and (labels.all() or not labels.any()):
        raise Refused("the log has rows of one label only")
    return labelled, labels


def _width(models: Models) -> int:
    return 3 * models.encoder.sentence + len(models.head.centre)


def _units(models: Models, rows: Sequence[LogRow]) -> Floats:
    return models.head.units(_inputs(models, rows).astype(np.float32)).astype(np.float64)


def _logits(models: Models, rows: Sequence[LogRow]) -> Floats:
    return _units(models, rows) @ models.head.output[:-1].astype(np.float64) + float(models.head.output[-1])


def _inputs(models: Models, rows: Sequence[LogRow]) -> Floats:
    classifier = Classifier(models, cache_size=0)
    return np.stack([classifier.inputs(row.ask, classifier.work(row.ask)) for row in rows]).astype(np.float64)


def _cross_fitted(inputs: Floats, labels: Floats, ridge: float, prior: Floats | None) -> tuple[Floats, Floats]:
    """Weights fitted on all rows, and each row's logit by weights that have not seen it."""
    part = folds(len(labels))
    logits = np.zeros(len(labels))
    for fold in range(5):
        left_out = part == fold
        weights = fit_logistic(inputs[~left_out], labels[~left_out], ridge=ridge, prior=prior)
        logits[left_out] = inputs[left_out] @ weights[:-1] + weights[-1]
    return fit_logistic(inputs, labels, ridge=ridge, prior=prior), logits


def _linear(head: Head, weights: Floats) -> Head:
    """A linear logit in the head's form: two rectified units, the one the negative of the other; no residual."""
    column = weights[:-1].astype(np.float32)
    return replace(
        head,
        hidden=np.stack((column, -column), axis=1),
        hidden_bias=np.zeros(2, dtype=np.float32),
        output=np.array([1.0, -1.0, weights[-1]], dtype=np.float32),
        residual=np.zeros(len(column) + 3, dtype=np.float32),
    )
