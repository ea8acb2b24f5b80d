"""Finding runaway text while it streams: exact loops, floods, and text that says nothing new. Pure; no I/O.

    detector = LoopDetector(Channel.REASONING, asked_for_repetition=asks_for_repetition(prompt))
    if detector.feed(piece) is LoopState.LOOP:
        finding = detector.finding      # where it began, up to where to keep, and why

One detector watches one channel of one choice. A new one is made where the channel or the leg changes.
"""

from budgets.loops.asked import asks_for_repetition
from budgets.loops.detector import LoopDetector, Signals
from budgets.loops.finding import Channel, Finding, Kind, LoopState

__all__ = ["Channel", "Finding", "Kind", "LoopDetector", "LoopState", "Signals", "asks_for_repetition"]
