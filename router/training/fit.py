"""What is fitted once the encoder stands: calibration, grading, the lexical logit. Numpy only; seeded by its inputs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from router.figures import rank_correlation, verdicts
from router.training.data import Row

Floats = NDArray[np.float64]
KNOTS = 16
RIDGE = 10_000.0
LIGHT_RIDGE = 500.0
"""For the lexical features: counts of numbers and clauses say more of steps than any direction of an encoding."""
FOLLOW_RIDGE = 100.0
LEAST_GRADED = 40
GRADE_WEIGHTS = {"gsm8k": 6.0, "cmath_zh": 8.0}
"""Counted steps are a finer grade than an author's four levels, and there are fewer of them."""


def labels_of(rows: Sequence[Row]) -> Floats:
    return np.array([row.label for row in rows], dtype=np.float64)


def classes_of(rows: Sequence[Row]) -> NDArray[np.float32]:
    """Mean and spread of the complexity of each class."""
    found: list[tuple[float, float]] = []
    for label in (0, 1):
        grades = [row.complexity for row in rows if row.label == label]
        found.append((float(np.mean(grades)), float(np.std(grades))))
    return np.array(found, dtype=np.float32)


def fit_residual(
    features: Floats, rows: Sequence[Row], begun: NDArray[np.float32], light: slice
) -> NDArray[np.float32]:
    """Ridge regression on the grades, each in standard deviations within its source and label, near `begun`.

    `begun` is what fine-tuning left: a weight for each column of the features, and a constant. `light`: the columns of
    lexical features. Grades and features are
    centred within their source and label: a regression over all rows together orders sources, and nothing inside them.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault((row.source, row.label), []).append(index)
    targets, counted = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
    offsets = features @ begun[:-1].astype(np.float64)
    centred = np.zeros_like(features)
    for picked in groups.values():
        grades = np.array([rows[index].complexity for index in picked])
        if len(picked) < LEAST_GRADED or grades.std() < 0.01:
            continue
        targets[picked] = (grades - grades.mean()) / grades.std() - (offsets[picked] - offsets[picked].mean())
        centred[picked] = features[picked] - features[picked].mean(axis=0)
        counted[picked] = True
    spread = np.maximum(centred[counted].std(axis=0), 1e-6)
    scaled = centred[counted] / spread
    weights = np.array([GRADE_WEIGHTS.get(row.source, 1.0) for row in rows])[counted]
    weighed = scaled * weights[:, None]
    ridge = np.full(scaled.shape[1], RIDGE)
    ridge[light] = LIGHT_RIDGE
    moved = np.linalg.solve(weighed.T @ scaled + np.diag(ridge), weighed.T @ targets[counted]) / spread
    found = np.append(begun[:-1] + moved, 0.0)
    reasoning = counted & np.array([row.label == 1 for row in rows])
    found[-1] = -float((features[reasoning] @ found[:-1]).mean())
    return found.astype(np.float32)


def follow(features: Floats, wanted: Floats, begun: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights near `begun`, and a constant, that give what is wanted: ridge regression."""
    mean, spread = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-6)
    scaled = (features - mean) / spread
    left = wanted - features @ begun[:-1].astype(np.float64)
    gram = scaled.T @ scaled + np.eye(scaled.shape[1]) * FOLLOW_RIDGE
    moved = np.linalg.solve(gram, scaled.T @ (left - left.mean())) / spread
    weights = begun[:-1] + moved
    return np.append(weights, wanted.mean() - mean @ weights).astype(np.float32)


def knots_of(sums: Floats, grades: Floats) -> NDArray[np.float32]:
    """A rising map from the sums to the grades: pooled adjacent violators, thinned to a few knots."""
    order = np.argsort(sums, kind="stable")
    level, weight = [], []
    for value in grades[order].tolist():
        level.append(value)
        weight.append(1.0)
        while len(level) > 1 and level[-2] >= level[-1]:
            total = weight[-2] + weight[-1]
            level[-2] = (level[-2] * weight[-2] + level[-1] * weight[-1]) / total
            weight[-2] = total
            level.pop()
            weight.pop()
    rising = np.repeat(level, np.array(weight, dtype=int))
    picks = np.linspace(0, len(rising) - 1, KNOTS).astype(int)
    x, y = sums[order][picks], rising[picks]
    x = np.maximum.accumulate(x + np.arange(KNOTS) * 1e-6)
    # Plateaus would tie asks that the residual tells apart: a small slope keeps the order.
    y = np.clip(0.9 * y + 0.1 * np.clip(x, 0, 1), 0, 1)
    return np.stack((np.append(x, [2.5]), np.append(y, [1.0]))).astype(np.float32)


def sums_of(p: Floats, residual: Floats, classes: NDArray[np.float32]) -> Floats:
    """What the knots map: class priors mixed by p, each with its residual."""
    bounded = np.clip(residual, -2.5, 2.5)
    simple = classes[0, 0] + classes[0, 1] * bounded
    hard = classes[1, 0] + classes[1, 1] * bounded
    return (1 - p) * simple + p * hard


def figures(p: Floats, rows: Sequence[Row]) -> dict[str, float]:
    return verdicts(p, labels_of(rows).astype(np.int64))


def grouped(p: Floats, rows: Sequence[Row], by: str) -> dict[str, dict[str, float]]:
    """Figures of each value of a row's field (`source`, `lang`, `sub`), largest groups first."""
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(str(getattr(row, by)), []).append(index)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: figures(p[index], [rows[i] for i in index]) for name, index in ordered}


def within_source(complexity: Floats, rows: Sequence[Row]) -> float:
    return round(rank_correlation(complexity, np.array([row.complexity for row in rows])), 3)
