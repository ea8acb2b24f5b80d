"""No kind of healthy text that repeats is taken for a loop."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.loops.negatives import negatives
from benchmarks.loops.prose import Half
from benchmarks.loops.scoring import find

NEGATIVES = {half: negatives(half) for half in Half}


def test_there_are_enough_kinds() -> None:
    assert len(NEGATIVES[Half.REPORT]) >= 21


@pytest.mark.parametrize("half", list(Half))
@pytest.mark.parametrize("kind", NEGATIVES[Half.REPORT])
def test_no_false_alarm(kind: str, half: Half) -> None:
    for seed, size in ((1, 8_000), (2, 20_000)):
        assert find(NEGATIVES[half][kind](Random(seed), size)) is None
