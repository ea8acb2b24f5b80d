"""The vocabulary of the room: what a detector says of a text, and what it found.

What must not come in: measuring, thresholds, and the text itself. A finding can be logged: it quotes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

CHARACTERS_A_TOKEN = 4.0
"""Characters of Latin text a token, for figures that people compare with token counts."""


class Channel(StrEnum):
    """Which text is watched. Answers get twice the rope of thoughts: people ask for repetition."""

    REASONING = "reasoning"
    ANSWER = "answer"


class LoopState(IntEnum):
    """What is known of the text so far. LOOP is final; SUSPECT is a hint that comes and goes, and ends nothing."""

    OK = 0
    SUSPECT = 1
    LOOP = 2


class Kind(StrEnum):
    """What sort of loop was found."""

    EXACT = "exact"
    """The same text again and again, letter by letter."""
    CHARACTER_FLOOD = "character_flood"
    """One character without end."""
    WHITESPACE_FLOOD = "whitespace_flood"
    """Blanks and line ends without end: mostly a grammar that masks every way out."""
    FIRST_TOKEN_FLOOD = "first_token_flood"  # noqa: S105 - not a password
    """One character from the very first token on: a sick worker (NaN logits, a bad kernel), not a loop of the model."""
    LOW_INFORMATION = "low_information"
    """Text that says next to nothing new, though no two stretches need be equal: counters, dithering, word salad."""
    NEAR_COPIES = "near_copies"
    """The same passage again and again with some words changed: a derivation that is done anew each time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A loop. All places are counted in characters of what was fed, from 0.

    `onset`: where the first copy begins; for LOW_INFORMATION, where the text ceased to say anything new. `keep`: up to
    where the text holds one copy, `onset <= keep <= at`: what a continuation should start from. `at`: how much had
    been fed when it was found. `period`: characters from one copy to the next, 0 where there is none. `copies`: how
    many there are, the first included, 0 where nothing is copied. `confidence`: 0..1; near 1 for
    exact copies and floods, one minus the compressed share for LOW_INFORMATION, half of one plus the copied share for
    NEAR_COPIES.
    `fingerprint`: 12 hex digits that are the same for the same unit, whatever the place it starts at; no text.
    """

    kind: Kind
    channel: Channel
    onset: int
    keep: int
    at: int
    period: int
    copies: float
    confidence: float
    fingerprint: str
    reason: str

    @property
    def period_tokens(self) -> int:
        """The period in tokens, as an estimate for Latin text."""
        return round(self.period / CHARACTERS_A_TOKEN)
