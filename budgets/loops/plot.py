"""A trace as a picture in text: what the detector saw along it, where it fired, and why. For people.

What must not come in: detection, and files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from budgets.loops.asked import asks_for_repetition
from budgets.loops.detector import BLOCK, LoopDetector, Signals
from budgets.loops.finding import Channel, Finding, LoopState

COLUMNS: Final = 72
_BARS: Final = " ▁▂▃▄▅▆▇█"
_MARGIN: Final = 12

_ROWS: tuple[tuple[str, Callable[[Signals], float | None]], ...] = (
    ("exact", lambda signals: signals.exact),
    ("flood", lambda signals: signals.flood),
    ("copied", lambda signals: signals.copied),
    ("fresh", lambda signals: signals.fresh),
    ("compressed", lambda signals: signals.compressed),
)

LEGEND: Final = (
    "exact, flood: share of the limit used up · copied: passages that stood before · fresh: new words\n"
    "compressed: size of the last 4 KiB when compressed; '.' where the text was too fresh to look. Bars from 0 to 1"
)


def watch(text: str, channel: Channel, prompt: str) -> tuple[LoopDetector, list[tuple[Signals, LoopState]]]:
    """Feed a text block by block until a loop is found or it ends: the detector, and what it saw after each block."""
    detector = LoopDetector(channel, asked_for_repetition=asks_for_repetition(prompt))
    seen: list[tuple[Signals, LoopState]] = []
    for start in range(0, len(text) - BLOCK + 1, BLOCK):
        state = detector.feed(text[start : start + BLOCK])
        seen.append((detector.signals, state))
        if state is LoopState.LOOP:
            break
    return detector, seen


def draw(seen: list[tuple[Signals, LoopState]], finding: Finding | None) -> str:
    """Rows of bars, one column for the same number of blocks each, and a row of marks below."""
    if not seen:
        return f"shorter than {BLOCK} characters: nothing was looked at"
    width = -(-len(seen) // COLUMNS)
    groups = [seen[at : at + width] for at in range(0, len(seen), width)]
    lines = [f"one column is {width * BLOCK} characters"]
    for name, read in _ROWS:
        lines.append(f"{name:<{_MARGIN}}" + "".join(_bar([read(signals) for signals, _ in group]) for group in groups))
    states = "".join(
        "LOOP"[0] if _worst(group) is LoopState.LOOP else "s" if _worst(group) else "-" for group in groups
    )
    lines.append(f"{'state':<{_MARGIN}}{states}")
    if finding is not None:
        lines.append(" " * (_MARGIN + finding.onset // (width * BLOCK)) + "^ onset")
    return "\n".join(lines)


def tell(finding: Finding | None, seen: int) -> str:
    """The finding in words."""
    if finding is None:
        return f"no loop in {seen} characters"
    return (
        f"{finding.kind} found at character {finding.at}: {finding.reason}\n"
        f"onset {finding.onset}, one copy ends at {finding.keep}, period {finding.period} characters (about"
        f" {finding.period_tokens} tokens), confidence {finding.confidence:.2f}, fingerprint {finding.fingerprint}"
    )


def _worst(group: list[tuple[Signals, LoopState]]) -> LoopState:
    return max(state for _, state in group)


def _bar(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "."
    return _BARS[round(min(1.0, max(known)) * (len(_BARS) - 1))]
