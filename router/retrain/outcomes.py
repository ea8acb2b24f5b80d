"""With the outcomes of two models: P(the strong one wins), and what routing by it would save.

A verdict of reasoning or simple does not say which of two grade-school problems a weak model fails; outcomes do. The
curve is printed beside prompt length and chance, since length alone beats many published routers.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from router.classifier import Classifier, Models
from router.figures import routing_curve
from router.retrain.fitting import fit_logistic, folds, logistic
from router.retrain.log import LogRow
from router.retrain.refit import Refused

LEAST: Final = 300
"""Rows with both outcomes below which no curve means anything."""
_RIDGE: Final = 20.0

Floats = NDArray[np.float64]


def curves(models: Models, rows: Sequence[LogRow]) -> dict[str, dict[str, float]]:
    """APGR, CPT50 and CPT80 of five routers over the rows with outcomes, each row scored by a fit without it.

    Raises Refused when too few rows have outcomes, ValueError when the strong model is no better.
    """
    known = [row for row in rows if row.weak is not None and row.strong is not None]
    if len(known) < LEAST:
        raise Refused(f"{LEAST} rows with both outcomes are needed, the log has {len(known)}")
    weak = np.array([(row.weak or 0) >= 0.5 for row in known])
    strong = np.array([(row.strong or 0) >= 0.5 for row in known])
    words, units, graded = _features(models, known)
    lengths = np.array([float(len(row.ask.text)) for row in known])
    scores = {
        "random": np.random.default_rng(20).random(len(known)),
        "length": lengths,
        "complexity": graded,
        "words, own labels": cross_scored(words, weak, strong),
        "words and encoder, own labels": cross_scored(np.concatenate((words, units), axis=1), weak, strong),
    }
    return {name: routing_curve(score, weak, strong) for name, score in scores.items()}


def cross_scored(inputs: Floats, weak: NDArray[np.bool_], strong: NDArray[np.bool_]) -> Floats:
    """P(strong right, weak wrong) minus P(weak right, strong wrong) of each row, by fits that have not seen it."""
    spread = inputs.std(axis=0) + 1e-6
    scaled = (inputs - inputs.mean(axis=0)) / spread
    part = folds(len(weak))
    found = np.zeros(len(weak))
    for wins, sign in ((strong & ~weak, 1.0), (weak & ~strong, -1.0)):
        for fold in range(5):
            left_out = part == fold
            weights = fit_logistic(scaled[~left_out], wins[~left_out].astype(np.float64), ridge=_RIDGE)
            found[left_out] += sign * logistic(scaled[left_out] @ weights[:-1] + weights[-1])
    return found


def _features(models: Models, rows: Sequence[LogRow]) -> tuple[Floats, Floats, Floats]:
    """Lexical features with length, the head's hidden units, complexity."""
    classifier = Classifier(models, cache_size=0)
    words: list[Floats] = []
    units: list[Floats] = []
    graded: list[float] = []
    for row in rows:
        working = classifier.work(row.ask)
        inputs = classifier.inputs(row.ask, working)
        words.append(np.append(working.scaled, np.log1p(len(row.ask.text))).astype(np.float64))
        units.append(models.head.units(inputs).astype(np.float64))
        graded.append(models.head.score(inputs).complexity)
    return np.stack(words), np.stack(units), np.array(graded)
