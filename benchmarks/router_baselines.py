"""Two baselines any router must beat: prompt length, and TF-IDF with logistic regression. Numpy; no claim to speed.

Hashed words, word pairs and character trigrams; fitted by adaptive steps over the rows in a fixed order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from router.clip import clip_text
from router.retrain.fitting import fit_logistic, logistic
from router.retrain.log import LogRow

SIZE = 1 << 16
EPOCHS = 4
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Length:
    weights: Any

    def score(self, rows: Sequence[LogRow]) -> Any:
        lengths = np.array([[np.log1p(len(row.ask.text))] for row in rows])
        return logistic(lengths @ self.weights[:-1] + self.weights[-1])


def fit_length(rows: Sequence[LogRow]) -> Length:
    lengths = np.array([[np.log1p(len(row.ask.text))] for row in rows])
    return Length(fit_logistic(lengths, np.array([float(row.label or 0) for row in rows]), ridge=1.0))


@dataclass(frozen=True)
class Tfidf:
    idf: Any
    weights: Any

    @classmethod
    def fit(cls, rows: Sequence[LogRow]) -> Tfidf:
        counts = [_terms(row) for row in rows]
        seen = np.zeros(SIZE)
        for terms, _ in counts:
            seen[terms] += 1
        idf = np.log((1 + len(rows)) / (1 + seen)) + 1
        weights, squares, bias = np.zeros(SIZE), np.full(SIZE, 1e-8), 0.0
        order = np.random.default_rng(20)
        for _ in range(EPOCHS):
            for index in order.permutation(len(rows)).tolist():
                terms, values = _weigh(counts[index], idf)
                error = float(logistic(np.array(values @ weights[terms] + bias))) - float(rows[index].label or 0)
                gradient = error * values
                squares[terms] += gradient**2
                weights[terms] -= 0.3 * gradient / np.sqrt(squares[terms])
                bias -= 0.02 * error
        return cls(idf, np.append(weights, bias))

    def score(self, rows: Sequence[LogRow]) -> Any:
        logits: list[float] = []
        for row in rows:
            terms, values = _weigh(_terms(row), self.idf)
            logits.append(float(values @ self.weights[terms] + self.weights[-1]))
        return logistic(np.array(logits))


def _terms(row: LogRow) -> tuple[Any, Any]:
    text = clip_text(row.ask.text).lower()
    words = _WORD.findall(text)
    found = [*words, *(f"{a} {b}" for a, b in pairwise(words))]
    found += [f"#{text[at : at + 3]}" for at in range(max(len(text) - 2, 0))]
    hashed = np.array([crc32(term.encode("utf-8", "replace")) % SIZE for term in found] or [0])
    return np.unique(hashed, return_counts=True)


def _weigh(counted: tuple[Any, Any], idf: Any) -> tuple[Any, Any]:
    terms, counts = counted
    values = (1 + np.log(counts)) * idf[terms]
    return terms, values / np.linalg.norm(values)
