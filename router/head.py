"""The trained head: from an embedding and lexical features to probabilities, in numpy.

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


@dataclass(frozen=True, slots=True)
class Score:
    """What a head says of one ask; both values 0..1, p calibrated."""

    p_reasoning: float
    complexity: float


@dataclass(frozen=True, slots=True)
class Head:
    """Two heads over one scaling: the full one (a hidden layer) and the lexical one (linear)."""

    centre: Floats
    """Mean of each lexical feature over the training rows."""
    spread: Floats
    """Its standard deviation, never 0."""
    hidden: Floats
    """(inputs, units): the last turn's encoding, the earlier turn's sentence embedding, scaled lexical features."""
    hidden_bias: Floats
    output: Floats
    """(units,)"""
    complexity: Floats
    """(inputs + units + 1,): the inputs, the hidden units and a constant."""
    lexical: Floats
    """(features + 1,): the lexical logit."""
    lexical_complexity: Floats
    platt: Floats
    """Slope and offset from raw to calibrated logit: full head, then lexical head."""
    card: Mapping[str, Any]
    """Figures, hashes and versions, as JSON values."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises OSError, EOFError, KeyError, ValueError or BadZipFile on a file that is no head."""
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name], dtype=np.float32) for name in _ARRAYS}
            card = cast("Mapping[str, Any]", json.loads(bytes(stored["card"]).decode("utf-8")))
        return cls(**arrays, card=card)

    def write(self, path: Path) -> None:
        """Large weights as float16: a tenth of a percent of a decision, half of the file."""
        arrays: dict[str, Any] = {name: getattr(self, name) for name in _ARRAYS}
        arrays["hidden"] = self.hidden.astype(np.float16)
        card = np.frombuffer(json.dumps(self.card, sort_keys=True).encode("utf-8"), dtype=np.uint8)
        np.savez_compressed(path, allow_pickle=False, card=card, **arrays)

    def scale(self, features: Floats) -> Floats:
        """Lexical features in standard deviations, clipped."""
        return np.clip((features - self.centre) / self.spread, -_CLIP, _CLIP)

    def apply(self, text: Floats, earlier: Floats, scaled: Floats) -> Score:
        """The full verdict; `earlier` is all zeros when there is no earlier turn."""
        inputs = np.concatenate((text, earlier, scaled))
        units = np.maximum(inputs @ self.hidden + self.hidden_bias, 0.0)
        hardness = float(np.concatenate((inputs, units)) @ self.complexity[:-1] + self.complexity[-1])
        return Score(self._calibrate(0, float(units @ self.output)), _sigmoid(hardness))

    def apply_lexical(self, scaled: Floats) -> Score:
        """The verdict on words alone."""
        logit = float(scaled @ self.lexical[:-1] + self.lexical[-1])
        hardness = float(scaled @ self.lexical_complexity[:-1] + self.lexical_complexity[-1])
        return Score(self._calibrate(1, logit), _sigmoid(hardness))

    def pull(self, scaled: Floats) -> Floats:
        """What each lexical feature adds to the lexical logit; positive speaks for reasoning."""
        return scaled * self.lexical[:-1]

    def _calibrate(self, row: int, logit: float) -> float:
        return _sigmoid(float(self.platt[row, 0]) * logit + float(self.platt[row, 1]))


_ARRAYS = (
    "centre",
    "spread",
    "hidden",
    "hidden_bias",
    "output",
    "complexity",
    "lexical",
    "lexical_complexity",
    "platt",
)


def _sigmoid(logit: float) -> float:
    bounded = min(max(logit, -30.0), 30.0)
    return 1.0 / (1.0 + math.exp(-bounded))
