"""The cheap tier: lexical features and a small convolution over a token table, in numpy, without the encoder.

It decides alone where it is sure, and answers for the encoder when there is no time. The table is int8; a prompt
costs one look-up, one matrix product and a few maxima. Nothing is trained or decided here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from router.head import Grading, Score, product, sigmoid

Floats = NDArray[np.float32]

SPAN = 3
"""Tokens a filter sees."""
EDGE = 16
"""Windows at the head and at the tail that are also pooled alone: where an ask tends to stand."""

_BLOCK: Final = 8


@dataclass(frozen=True, slots=True)
class Cheap:
    """Weights of the tier; shapes as in `forward`."""

    table: NDArray[np.int8]
    """(pieces, width)"""
    table_scale: Floats
    """(pieces, 1): what an int8 step is worth."""
    filters: Floats
    """(SPAN * width, filters)"""
    filter_bias: Floats
    hidden: Floats
    """(3 * filters + 2 * width + features, units)"""
    hidden_bias: Floats
    output: Floats
    """(units, 2)"""
    output_bias: Floats
    platt: Floats
    classes: Floats
    knots: Floats

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises OSError, EOFError, KeyError, ValueError or BadZipFile on a file that is none."""
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays: dict[str, Any] = {
                name: np.asarray(stored[name], dtype=np.int8 if name == "table" else np.float32) for name in ARRAYS
            }
        return cls(**arrays)

    def write(self, path: Path) -> None:
        arrays: dict[str, Any] = {name: getattr(self, name) for name in ARRAYS}
        for name in ("table_scale", "filters", "hidden"):
            arrays[name] = arrays[name].astype(np.float16)
        np.savez_compressed(path, allow_pickle=False, **arrays)

    def score(self, ids: list[int], earlier: list[int], scaled: Floats) -> Score:
        """`ids` and `earlier`: token ids as the encoder gets them; `earlier` empty when there is no earlier turn."""
        logit, residual = self.forward(ids, earlier, scaled)
        p = sigmoid(float(self.platt[0]) * logit + float(self.platt[1]))
        return Score(sigmoid(logit), p, Grading(self.classes, self.knots).complexity(p, residual))

    def forward(self, ids: list[int], earlier: list[int], scaled: Floats) -> tuple[float, float]:
        """The raw logit and the residual."""
        rows = self._rows(ids)
        found = np.maximum(self._product(_windows(rows)) + self.filter_bias, 0.0)
        inputs = (
            found.max(axis=0),
            found[:EDGE].max(axis=0),
            found[-EDGE:].max(axis=0),
            rows.mean(axis=0),
            self._rows(earlier).mean(axis=0) if earlier else np.zeros(rows.shape[1], dtype=np.float32),
            scaled,
        )
        units = np.maximum(product(np.concatenate(inputs), self.hidden) + self.hidden_bias, 0.0)
        logit, residual = (units @ self.output + self.output_bias).tolist()
        return logit, residual

    def _product(self, windows: Floats) -> Floats:
        """With the filters, a block at a time: a larger product would wake BLAS's threads, who spin for each other."""
        blocks = [windows[start : start + _BLOCK] @ self.filters for start in range(0, len(windows), _BLOCK)]
        return np.concatenate(blocks)

    def _rows(self, ids: list[int]) -> Floats:
        places = np.array(ids, dtype=np.intp)
        return self.table.take(places, axis=0) * self.table_scale.take(places, axis=0)


def _windows(rows: Floats) -> Floats:
    """Each token beside its two neighbours, `SPAN` rows in one; beyond either end stands a row of zeros."""
    count, width = rows.shape
    found = np.zeros((count, SPAN * width), dtype=np.float32)
    found[1:, :width] = rows[:-1]
    found[:, width : 2 * width] = rows
    found[:-1, 2 * width :] = rows[1:]
    return found


ARRAYS = (
    "table",
    "table_scale",
    "filters",
    "filter_bias",
    "hidden",
    "hidden_bias",
    "output",
    "output_bias",
    "platt",
    "classes",
    "knots",
)
