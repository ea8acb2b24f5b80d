"""What a classifier is worth, in numpy: accuracy, AUROC, calibration error, order of complexity, routing curves.

Used by training, by retraining on one's own log and by the benchmark, so that all three mean the same by a figure.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BINS: Final = 10


def verdicts(p: Floats, labels: NDArray[np.int64], threshold: float = 0.5) -> dict[str, float]:
    """Figures of one set; AUROC, missed and wasted only where their labels occur. Shares 0..1, three digits."""
    right = (p >= threshold) == labels
    hard, simple = labels == 1, labels == 0
    found = {"n": float(len(labels)), "accuracy": float(right.mean()), "ece": calibration_error(p, labels)}
    if hard.any():
        found["missed"] = float((~right[hard]).mean())
    if simple.any():
        found["wasted"] = float((~right[simple]).mean())
    if hard.any() and simple.any():
        found["auroc"] = auroc(p, labels)
    return {name: round(value, 3) for name, value in found.items()}


def auroc(p: Floats, labels: NDArray[np.int64]) -> float:
    """Chance that a reasoning ask scores above a simple one, ties counting half."""
    order = ranks(p)
    hard = labels == 1
    positives, negatives = int(hard.sum()), int((~hard).sum())
    return float((order[hard].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def calibration_error(p: Floats, labels: NDArray[np.int64]) -> float:
    """Expected error of the confidence in the likelier label, over ten equal bins of 0.5..1."""
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
    """Spearman's, -1..1, ties sharing their mean rank; 0 where one side is constant."""
    first, second = ranks(left), ranks(right)
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def wasted_at(p: Floats, labels: NDArray[np.int64], missed: float) -> float:
    """Share of simple asks sent to reasoning when at most `missed` of the reasoning asks are missed."""
    hard = np.sort(p[labels == 1])
    threshold = hard[int(np.floor(missed * len(hard)))]
    return float((p[labels == 0] >= threshold).mean())


def routing_curve(score: Floats, weak: NDArray[np.bool_], strong: NDArray[np.bool_]) -> dict[str, float]:
    """APGR and CPT of a router that sends the highest scores to the strong model, as RouteLLM defines them.

    APGR: mean share of the quality gap recovered over all shares of strong calls (0.5 is random). CPT50, CPT80: share
    of strong calls, in per cent, that recovers 50 or 80 % of the gap; 100 where it never does.
    """
    order = np.argsort(-score, kind="stable")
    gain = np.concatenate(([0.0], np.cumsum(strong[order].astype(float) - weak[order].astype(float))))
    gap = gain[-1]
    if gap <= 0:
        raise ValueError("the strong model is no better than the weak one on these rows")
    recovered = gain / gap
    found = {"apgr": float(np.trapezoid(recovered, dx=1 / (len(recovered) - 1)))}
    for percent in (50, 80):
        reached = np.flatnonzero(recovered >= percent / 100)
        found[f"cpt{percent}"] = 100.0 * float(reached[0]) / (len(recovered) - 1) if len(reached) else 100.0
    return {name: round(value, 3) for name, value in found.items()}


def ranks(values: Floats) -> Floats:
    """From 1, ties sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
