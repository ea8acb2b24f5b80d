"""Every public issue on disaggregated clusters that we know of has a test with its number in its name, or stands here
with the reason why it has none.

In part only, and why: 6 (nonsense is found where it is one character; there is no other answer to compare with), 16 (no
limit of pairs in bootstrap: legs that are given up are told off, and full workers left alone), 42 (no counter of such
answers), 51 (no client can pin a worker; each role is chosen by itself).
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.doubles.pair.cluster import HANDOFFS
from tests.service.pair_contract import checks_for

_NUMBERS = (
    "1 2 3 4 6 7 8 9 11 12 13 14 16 17 18 19 21 22 23 24 26 27 28 29 31 32 33 34 36 37 38 39 41 42 43 44 46 47 48 49 "
    "51 52 53"
)
ROWS = frozenset(map(int, _NUMBERS.split()))
"""Their numbers; those between were doubles of others."""

NOT_HERE = {4: "the token-in endpoint `/inference/v1/generate` is not offered"}

TESTS = Path(__file__).parents[1]


def covered() -> set[int]:
    """By the names of tests, and of the cases of a front door's checks."""
    sources = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    names = [name for source in sources for name in re.findall(r"def (test_\w*epd\d\w*)", source)]
    named = {int(row) for name in names for row in re.findall(r"epd(\d+)", name)}
    return named | {
        int(row) for handoff in HANDOFFS for check in checks_for(handoff) for row in re.findall(r"epd(\d+)", str(check))
    }


def test_every_row_is_tested_or_says_why_not() -> None:
    found = covered()
    assert found - ROWS == set()
    assert NOT_HERE.keys() & found == set()
    assert found | NOT_HERE.keys() == ROWS


def test_the_checks_say_which_rows_they_are_for() -> None:
    named = {check.name: check.rows for handoff in HANDOFFS for check in checks_for(handoff)}
    assert named["answers_with_the_proof"] == (2, 3, 43)
    assert named["keeps_many_apart"] == (1,)
    assert named["answers_unary_requests"] == ()
    assert [str(check) for check in checks_for("nixl") if check.name == "keeps_many_apart"] == ["keeps_many_apart-epd1"]
