"""Text that repeats and is no loop: logs, tables, searches, tests, refrains, forms. One generator a kind.

Each gives a thought of at least `size` characters, with prose around the structure as models write it. What must not
come in: the detector, and anything that a person would call a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from benchmarks.loops import negatives_code, negatives_form, negatives_maths, negatives_search
from benchmarks.loops.prose import Half, Source

Negative = Callable[[Random, int], str]
Body = Callable[[Source, int], str]

BODIES: dict[str, Body] = {
    "prose": Source.prose,
    **negatives_maths.BODIES,
    **negatives_search.BODIES,
    **negatives_code.BODIES,
    **negatives_form.BODIES,
}


def negatives(half: Half = Half.REPORT) -> dict[str, Negative]:
    """All kinds by name; each takes a source of chance and a length in characters."""
    return {name: partial(_framed, body, half) for name, body in BODIES.items()}


def _framed(body: Body, half: Half, chance: Random, size: int) -> str:
    rng = Source(chance.getrandbits(64), half)
    before, after = rng.prose(rng.randrange(100, 2_500)), rng.prose(rng.randrange(100, 1_500))
    return before + body(rng, max(size - len(before) - len(after), size // 2)) + "\n\n" + after
