"""Where to break a thought that is cut: at the end of a sentence or a line, a little before the cut itself."""

from __future__ import annotations

WINDOW = 0.1
"""Share of the thought that may be given up for a clean break (as NVIDIA NIM's budget control extends by)."""

_ENDS = ("\n", ". ", "! ", "? ", "。", "！", "？")


def trim_thought(thought: str) -> str:
    """The thought up to its last sentence or line end in the final tenth, else up to the last space, else whole.

    Only the engine's copy is trimmed: what a client has seen is never taken back.
    """
    floor = len(thought) - max(1, int(len(thought) * WINDOW))
    best = -1
    for end in _ENDS:
        place = thought.rfind(end, floor)
        if place >= 0:
            best = max(best, place + len(end.rstrip(" ")))
    if best < 0:
        best = thought.rfind(" ", floor)
    return (thought[:best] if best > 0 else thought).rstrip()
