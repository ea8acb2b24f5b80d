"""Stop strings, matched on the answer alone.

Engines match them in thoughts too, and end a thought that only mentions one (vLLM #52393, SGLang #40529); hosted APIs
do not. So where a model thinks, the gateway takes them over. A stop cannot span thought and answer. Pure text.
"""

from __future__ import annotations


class StopMatcher:
    """One choice's answer. Holds back only what may still become a stop; any split of the text gives the same."""

    __slots__ = ("_held", "_stops")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """(what may be shown, the stop that ends it). Of two stops the one that is complete first counts, as it would
        for an engine that reads token by token; of two that are complete at once the one that begins first."""
        text = self._held + text
        found = [(place + len(stop), place, stop) for stop in self._stops if (place := text.find(stop)) >= 0]
        if found:
            _, place, stop = min(found)
            self._held = ""
            return text[:place], stop
        kept = len(text) - max(_overlap(text, stop) for stop in self._stops)
        self._held = text[kept:]
        return text[:kept], None

    def flush(self) -> str:
        """What was held back, when nothing more of the answer comes."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` with which `stop` begins."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
