"""Who is told how hand-offs went; for metrics."""

from __future__ import annotations

from typing import Protocol


class Witness(Protocol):
    """Times in seconds."""

    def handed(self, pool: str, seconds: float, tokens: int) -> None:
        """A cache has arrived: the decode worker has generated from it, so long after the prefill worker had answered,
        or after both had begun."""
        ...

    def not_handed(self, pool: str) -> None:
        """A prefill worker has answered, and offered nothing."""
        ...

    def orphaned(self, pool: str, seconds: float) -> None:
        """A prompt was prefilled for so long, and nobody has generated from it."""
        ...
