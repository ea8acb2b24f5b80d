"""What a head is worth: accuracy, AUROC, calibration error, order of complexity, parity of the two encoders."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from router.training.data import Row

Floats = NDArray[np.float32]
BINS = 10


def verdicts(p: Floats, rows: Sequence[Row]) -> dict[str, float]:
    """Figures of one set at threshold 0.5; AUROC only where both labels occur."""
    labels = np.array([row.label for row in rows])
    figures = {"n": len(rows), "accuracy": float(((p >= 0.5) == labels).mean()), "ece": calibration_error(p, labels)}
    if 0 < labels.sum() < len(labels):
        figures["auroc"] = float(roc_auc_score(labels, p))
    return {name: round(value, 3) for name, value in figures.items()}


def by_source(p: Floats, rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    names = sorted({row.source for row in rows})
    picks = {name: [i for i, row in enumerate(rows) if row.source == name] for name in names}
    return {name: verdicts(p[pick], [rows[i] for i in pick]) for name, pick in picks.items()}


def calibration_error(p: Floats, labels: NDArray[np.int64]) -> float:
    """Expected error of the confidence in the chosen label, over ten equal bins of 0.5..1."""
    confidence = np.maximum(p, 1 - p)
    right = (p >= 0.5) == labels
    bins = np.clip(((confidence - 0.5) * 2 * BINS).astype(int), 0, BINS - 1)
    error = 0.0
    for index in range(BINS):
        inside = bins == index
        if inside.any():
            error += float(inside.mean() * abs(right[inside].mean() - confidence[inside].mean()))
    return error


def rank_correlation(left: Floats, right: Floats) -> float:
    """Spearman's, ties sharing their mean rank."""
    return round(float(np.corrcoef(_ranks(left), _ranks(right))[0, 1]), 3)


def parity(torch_vectors: Floats, onnx_vectors: Floats, torch_p: Floats, onnx_p: Floats) -> dict[str, float]:
    """How far the int8 encoder is from the one the head was trained on: cosines of encodings, agreement of routes."""
    width = onnx_vectors.shape[1] // 2
    whole = np.sum(torch_vectors[:, :width] * onnx_vectors[:, :width], axis=1)
    return {
        "cosine_mean": round(float(whole.mean()), 4),
        "cosine_min": round(float(whole.min()), 4),
        "same_route": round(float(((torch_p >= 0.5) == (onnx_p >= 0.5)).mean()), 4),
    }


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
