"""The trained head: from an encoding and lexical features to probabilities, in numpy.

One small file holds the weights and a card: the figures they reached and the sha256 of the encoder and data they were
fitted on. Nothing is trained, embedded or decided here.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_CLIP = 4.0
"""Standard deviations beyond which a lexical feature counts no further."""
_MOST_RESIDUAL = 2.5
"""Standard deviations within a class beyond which an ask is no harder."""


@dataclass(frozen=True, slots=True)
class Score:
    """What a model says of one ask. All 0..1."""

    p_raw: float
    """As the model gives it."""
    p_reasoning: float
    """Calibrated on crossed prompts."""
    complexity: float


@dataclass(frozen=True, slots=True)
class Grading:
    """From p and a residual to a complexity: the class's prior, the residual within it, a monotone map."""

    classes: Floats
    """(2, 2): mean and spread of the complexity of simple asks, then of reasoning ones."""
    knots: Floats
    """(2, k): rising sums, and the complexity each stands for, rising too."""

    def complexity(self, p_reasoning: float, residual: float) -> float:
        """0..1. Rises with the residual at any p: spreads and knots are never negative."""
        bounded = min(max(residual, -_MOST_RESIDUAL), _MOST_RESIDUAL)
        levels: list[float] = (self.classes[:, 0] + self.classes[:, 1] * bounded).tolist()
        simple, hard = levels
        sums: Floats = self.knots[0]
        grades: Floats = self.knots[1]
        return float(np.interp((1 - p_reasoning) * simple + p_reasoning * hard, sums, grades))


@dataclass(frozen=True, slots=True)
class Head:
    """A hidden layer over the last turn's encoding, the earlier turn's, and lexical features; two heads over it."""

    centre: Floats
    """Mean of each lexical feature over the training rows."""
    spread: Floats
    """Its standard deviation, never 0."""
    hidden: Floats
    """(inputs, units): the last turn's encoding, the earlier turn's sentence embedding, scaled lexical features."""
    hidden_bias: Floats
    output: Floats
    """(units + 1,): the logit of reasoning, its constant last."""
    residual: Floats
    """(inputs + units + 1,): the residual difficulty within the class, its constant last."""
    platt: Floats
    """Slope and offset from raw to calibrated logit."""
    classes: Floats
    knots: Floats
    lexical: Floats
    """(features + 1,): a linear logit over the lexical features alone, for explanations."""
    missed: Floats
    """Calibrated p under which a share of the reasoning asks of the calibration set lies: 0 %, 1 %, … 100 %."""
    shares: Floats
    """Calibrated p under which a share of all its asks lies: 0 %, 1 %, … 100 %."""
    card: Mapping[str, Any]
    """Figures, hashes and versions, as JSON values."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises OSError, EOFError, KeyError, ValueError or BadZipFile on a file that is no head."""
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name], dtype=np.float32) for name in ARRAYS}
            card = cast("Mapping[str, Any]", json.loads(bytes(stored["card"]).decode("utf-8")))
        return cls(**arrays, card=card)

    def write(self, path: Path) -> None:
        """Large weights as float16: a tenth of a percent of a decision, half of the file."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in ARRAYS}
        arrays["hidden"] = self.hidden.astype(np.float16)
        card = np.frombuffer(json.dumps(self.card, sort_keys=True).encode("utf-8"), dtype=np.uint8)
        np.savez_compressed(path, allow_pickle=False, card=card, **arrays)

    def scale(self, features: Floats) -> Floats:
        """Lexical features in standard deviations, clipped."""
        return np.clip((features - self.centre) / self.spread, -_CLIP, _CLIP)

    def units(self, inputs: Floats) -> Floats:
        """The hidden layer over (text, earlier, scaled features); `earlier` is all zeros where there is none."""
        return np.maximum(product(inputs, self.hidden) + self.hidden_bias, 0.0)

    def score(self, inputs: Floats) -> Score:
        units = self.units(inputs)
        logit = float(units @ self.output[:-1] + self.output[-1])
        residual = float(np.concatenate((inputs, units)) @ self.residual[:-1] + self.residual[-1])
        p = sigmoid(float(self.platt[0]) * logit + float(self.platt[1]))
        return Score(sigmoid(logit), p, Grading(self.classes, self.knots).complexity(p, residual))

    def lexical_score(self, scaled: Floats) -> Score:
        """By the lexical features alone, whose logit was fitted as a probability of its own."""
        p = sigmoid(float(self.pull(scaled).sum()) + float(self.lexical[-1]))
        return Score(p, p, Grading(self.classes, self.knots).complexity(p, 0.0))

    def pull(self, scaled: Floats) -> Floats:
        """What each lexical feature adds to the lexical logit; positive speaks for reasoning."""
        return scaled * self.lexical[:-1]

    def threshold_for_missed(self, share: float) -> float:
        """The p at which `share` (0..1) of the reasoning asks of the calibration set would be missed."""
        return _quantile(self.missed, share)

    def threshold_for_target(self, share: float) -> float:
        """The p at which `share` (0..1) of all asks of the calibration set goes to reasoning."""
        return _quantile(self.shares, 1.0 - share)


ARRAYS = (
    "centre",
    "spread",
    "hidden",
    "hidden_bias",
    "output",
    "residual",
    "platt",
    "classes",
    "knots",
    "lexical",
    "missed",
    "shares",
)


def product(vector: Floats, matrix: Floats) -> Floats:
    """vector (or rows of them) @ matrix, without BLAS.

    Its threads would be woken for it: on a busy machine the caller then spins until a helper gets its turn, and half a
    second was seen on the event loop. This way it takes 0.02 ms, always.
    """
    return cast("Floats", np.einsum("...i,ij->...j", vector, matrix))


def sigmoid(logit: float) -> float:
    bounded = min(max(logit, -30.0), 30.0)
    return 1.0 / (1.0 + math.exp(-bounded))


def _quantile(table: Floats, share: float) -> float:
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share must lie in 0..1, not {share}")
    return float(np.interp(share * (len(table) - 1), np.arange(len(table)), table))
