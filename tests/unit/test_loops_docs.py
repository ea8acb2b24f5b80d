"""docs/loops.md shows what the tool shows, and names every kind and every limit as it is."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest

from benchmarks.loops.picture import with_picture
from budgets.loops import Kind, limits
from budgets.loops.copies import WINDOW
from budgets.loops.rope import DECORATIVE

PAGE = (Path(__file__).parents[2] / "docs" / "loops.md").read_text(encoding="utf-8")


@pytest.mark.skipif("ng" in zlib.ZLIB_RUNTIME_VERSION, reason="zlib-ng compresses differently at this level")
def test_the_picture_is_what_the_tool_draws() -> None:
    assert with_picture(PAGE) == PAGE, "write it anew: python -m benchmarks.loops.picture docs/loops.md"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="picture"):
        with_picture("no marks")


def test_every_kind_has_its_row() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE.split("## What is watched")[1].split("**Ropes")[0], re.M) == [
        *(kind.value for kind in Kind)
    ]


@pytest.mark.parametrize(
    "told",
    [
        f"| {limits.FLOOD}; ornament {limits.FLOOD * DECORATIVE:,.0f} |",
        f"| {limits.BLANKS} blanks, or {limits.LINE_ENDS} line ends among them |",
        f"| {limits.FIRST_FLOOD} |",
        f"and {limits.LEAST_WORDS} words at least",
        f"below {limits.SMALL_ANY:.1%}".replace("%", " %"),
    ],
)
def test_a_limit_is_told_as_it_is(told: str) -> None:
    assert told in PAGE


def test_the_limits_of_exact_copies_are_told_as_they_are() -> None:
    assert "7 more copies of a phrase; 560 characters after the second copy of a paragraph; the third copy" in PAGE
    assert limits.exact_run(60, packed=False) == 7 * 60
    assert limits.exact_run(400, packed=False) == 400 + 560
    assert limits.exact_run(5_000, packed=False) == 2 * 5_000
    assert WINDOW >= 32_000
