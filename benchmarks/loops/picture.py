"""The picture in docs/loops.md: a trace that begins healthy and then derives the same thing anew, as the tool draws it.

    python -m benchmarks.loops.picture docs/loops.md     writes it anew

The trace is made of the licence beside this code, so it is the same everywhere. A test holds the page to it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

from budgets.loops import Channel
from budgets.loops.plot import draw, tell, watch

LICENCE = Path(__file__).parents[2] / "LICENSE"
BEGIN, END = "<!-- picture -->\n", "<!-- /picture -->\n"


def trace() -> str:
    """5,000 characters of prose, then one paragraph of it again and again with one word in ten changed."""
    chance = Random(1)
    words = LICENCE.read_text(encoding="utf-8").split()
    healthy, passage, others = " ".join(words)[:5_000], words[800:1_020], words[:400]
    copies = (" ".join(chance.choice(others) if chance.random() < 0.1 else word for word in passage) for _ in range(8))
    return healthy + "\n\n" + "\n\n".join(copies)


def picture() -> str:
    detector, seen = watch(trace(), Channel.REASONING, "")
    return f"```text\n{draw(seen, detector.finding)}\n\n{tell(detector.finding, detector.seen)}\n```\n"


def with_picture(page: str) -> str:
    """The page with the picture as it is now. Raises ValueError where its marks are missing."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the page has no {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + picture() + END + after


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_picture(file.read_text(encoding="utf-8")), encoding="utf-8")
