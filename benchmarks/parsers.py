"""Speed of the parsers: characters a second and microseconds a chunk, and where the time of a chunk goes.

    python -m benchmarks.parsers

Chunks of four characters are what engines stream (one token an event); whole outputs are what a unary answer costs.
Best of several rounds, in one thread. The floor is what any parser of this shape pays: a call that keeps the text and
returns a list with one piece. What stands above it is the search: for a chunk without a character that could begin a
marker one look at each character, for others (every chunk with a newline, inside a thought) a scan.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from parsers import ChoiceParser, Field, Machine, Piece, Start, lookup, machine_for
from parsers.pieces import make_piece

CHARS = 400_000
ROUNDS = 5
CHUNK = 4

PROSE = "So the sum of 17 and 25 is 42, since 17 < 25 and 20 + 22 are 42 as well.\n\nWait, let me check that again. "


def prose(size: int) -> str:
    return (PROSE * (size // len(PROSE) + 1))[:size]


def chunked(text: str, size: int = CHUNK) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


THINK = prose(CHARS // 2) + "</think>\n\n" + prose(CHARS // 2)
HARMONY = (
    f"<|channel|>analysis<|message|>{prose(CHARS // 2)}<|end|><|start|>assistant<|channel|>final<|message|>"
    f"{prose(CHARS // 2)}<|return|>"
)


CONTENT = Field.CONTENT


class Floor:
    """The least a parser can do."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: list[str] = []

    def feed(self, text: str) -> list[Piece]:
        self._taken.append(text)
        return [make_piece((CONTENT, text))]


def feed(make: Callable[[], Callable[[str], object]], chunks: list[str]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        take = make()
        began = time.perf_counter()
        for chunk in chunks:
            take(chunk)
        best = min(best, time.perf_counter() - began)
    return best


def choice(splits: bool, field: str) -> Callable[[], Callable[[str], object]]:
    def make() -> Callable[[str], object]:
        parser = ChoiceParser(lookup("qwen3"), Start.OPEN, engine_splits=splits)
        if field == "reasoning":
            return lambda text: parser.feed(reasoning=text)
        return lambda text: parser.feed(content=text)

    return make


def main() -> None:
    think, harmony = chunked(THINK), chunked(HARMONY)
    plain = chunked(prose(CHARS).replace("<", "=").replace("\n", " "))
    rows = (
        ("floor: one call, one list, one piece", lambda: Floor().feed, think),
        ("think, reasoning without markers or newlines", lambda: Machine(lookup("qwen3"), Start.OPEN).feed, plain),
        ("think, with tools", lambda: Machine(lookup("qwen3"), Start.OPEN, tools=True).feed, think),
        (
            "deepseek_v4 (reopens, five more markers)",
            lambda: Machine(lookup("deepseek_v4"), Start.OPEN, tools=True).feed,
            think,
        ),
        ("harmony", lambda: machine_for(lookup("harmony"), Start.CLOSED).feed, harmony),
        ("normaliser, engine splits: reasoning", choice(splits=True, field="reasoning"), think),
        ("normaliser, engine does not split: content", choice(splits=False, field="content"), think),
        ("think, whole", lambda: Machine(lookup("qwen3"), Start.OPEN).feed, [THINK]),
        ("harmony, whole", lambda: machine_for(lookup("harmony"), Start.CLOSED).feed, [HARMONY]),
    )
    floor = 0.0
    for name, make, chunks in rows:
        seconds = feed(make, chunks)
        chars = sum(map(len, chunks))
        each = seconds / len(chunks) * 1e6
        floor = floor or each
        times = f"{each / floor:6.2f} x floor" if len(chunks) > 1 else ""
        print(f"{name:46} {chars / seconds / 1e6:8.1f} Mchar/s {each:10.3f} µs a chunk {times}")


if __name__ == "__main__":
    main()
