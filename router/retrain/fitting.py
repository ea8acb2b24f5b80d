"""Logistic regression in numpy: Newton's method with a ridge around a prior. Deterministic; no state, no I/O."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_STEPS: Final = 40
_TOLERANCE: Final = 1e-7
_LEAST_SHARE: Final = 1e-6


def fit_logistic(inputs: Floats, labels: Floats, *, ridge: float, prior: Floats | None = None) -> Floats:
    """Weights of the columns, then the constant, which the ridge leaves alone.

    `ridge`: strength of the pull to `prior` (zeros when None), in units of one row's information. `labels` 0..1, soft
    ones allowed.
    """
    design = np.concatenate((inputs, np.ones((len(inputs), 1))), axis=1)
    centre = np.zeros(design.shape[1]) if prior is None else prior.astype(np.float64)
    pull = np.full(design.shape[1], ridge)
    pull[-1] = 1e-6

    def cost(weights: Floats) -> float:
        logits = design @ weights
        losses = np.logaddexp(0.0, logits) - labels * logits
        return float(losses.sum() + 0.5 * (pull * (weights - centre) ** 2).sum())

    weights = centre.copy()
    for _ in range(_STEPS):
        p = logistic(design @ weights)
        gradient = design.T @ (p - labels) + pull * (weights - centre)
        hessian = (design * (p * (1 - p))[:, None]).T @ design + np.diag(pull)
        step = np.linalg.solve(hessian, gradient)
        share, before = 1.0, cost(weights)
        while cost(weights - share * step) > before and share > _LEAST_SHARE:
            share /= 2  # Newton's step leaps too far where the logits begin large
        weights = weights - share * step
        if share * float(np.abs(step).max()) < _TOLERANCE:
            break
    return weights


def fit_platt(logits: Floats, labels: Floats) -> tuple[float, float]:
    """Slope and offset that make a logit a calibrated one. Labels are drawn in a little, as Platt did, so that a
    separable set still has a finite answer."""
    positives, negatives = float(labels.sum()), float((1 - labels).sum())
    soft = np.where(labels > 0.5, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    slope, offset = fit_logistic(logits[:, None], soft, ridge=1e-3, prior=np.array([1.0, 0.0])).tolist()
    return slope, offset


def logistic(values: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-np.clip(values, -30, 30)))


def folds(count: int, parts: int = 5) -> NDArray[np.int64]:
    """A part for each row, even and drawn with a fixed seed."""
    return np.random.default_rng(20).permutation(np.arange(count) % parts)
