"""Hard negatives of form: refrains, forms, boards, rules, tables of words, phrase books."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from benchmarks.loops.lines import lines_of
from benchmarks.loops.prose import Source


def _song(rng: Source, size: int) -> str:
    """Verse, chorus, verse, chorus: the chorus word for word, twice in a row now and then."""
    told = ""
    while len(told) < size:
        chorus = "\n".join(rng.text(20, 50).rstrip(".") for _ in range(4))
        for number in range(1, rng.randrange(4, 8)):
            verse = "\n".join(rng.text(20, 50).rstrip(".") for _ in range(rng.randrange(4, 9)))
            told += f"[Verse {number}]\n{verse}\n\n[Chorus]\n{chorus}\n" + (
                f"{chorus}\n\n" if rng.random() < 0.2 else "\n"
            )
    return told


def _cumulative(rng: Source, size: int) -> str:
    """A song of the kind of "The Twelve Days": each verse tells all before it again."""
    told = ""
    while len(told) < size:
        gifts = [f"{number} {rng.word()} {rng.word()}" for number in range(2, 13)]
        for day in range(1, 12):
            told += (
                f"On day {day} of {rng.word()}, my true love gave to me:\n"
                + ",\n".join(reversed(gifts[:day]))
                + ",\nand a partridge in a pear tree.\n\n"
            )
        told += rng.paragraph() + "\n\n"
    return told


def _contents(rng: Source, size: int) -> str:
    return lines_of(
        (
            f"{n}. {(rng.word() + ' ' + rng.word()).capitalize():.<{rng.choice([50, 62])}} {n * 7 + rng.randrange(6)}"
            for n in count(1)
        ),
        size,
    )


def _forms(rng: Source, size: int) -> str:
    def lines() -> Iterator[str]:
        while True:
            yield f"{rng.word().capitalize()} {rng.word()}: {'_' * rng.randrange(20, 60)}"
            if rng.random() < 0.1:
                yield from ["_" * 72] * rng.randrange(3, 8)
            if rng.random() < 0.05:
                yield from ["|" + "    |" * 7] * rng.randrange(5, 12)
            if rng.random() < 0.05:
                yield rng.text(60, 200)

    return lines_of(lines(), size)


def _boxes(rng: Source, size: int) -> str:
    def lines() -> Iterator[str]:
        while True:
            yield "┌" + ("─" * 18 + "┬") * 3 + "─" * 18 + "┐"
            for _ in range(rng.randrange(3, 10)):
                yield "│" + "│".join(f" {rng.word()[:16]:<17}" for _ in range(4)) + "│"
                yield "├" + ("─" * 18 + "┼") * 3 + "─" * 18 + "┤"
            yield "└" + ("─" * 18 + "┴") * 3 + "─" * 18 + "┘"
            yield rng.text(100, 400)

    return lines_of(lines(), size)


def _separators(rng: Source, size: int) -> str:
    rule = rng.choice(["-", "=", "*", "~", "─", "#"]) * rng.choice([40, 79, 120])
    return lines_of((f"{rule}\n{rng.text(60, 200)}\n{rule}\n" for _ in count()), size)


def _boards(rng: Source, size: int) -> str:
    """A game board drawn after each move."""
    side = rng.randrange(6, 9)

    def boards() -> Iterator[str]:
        cells = [["."] * side for _ in range(side)]
        for move in count(1):
            if move % (side * side // 2) == 0:
                cells = [["."] * side for _ in range(side)]
            row, column = rng.randrange(side), rng.randrange(side)
            cells[row][column] = "XO"[move % 2]
            yield f"Move {move}: {'XO'[move % 2]} plays row {row + 1}, column {column + 1}. {rng.text(20, 90)}"
            yield "\n".join(" ".join(line) for line in cells) + "\n"

    return lines_of(boards(), size)


def _markdown_table(rng: Source, size: int) -> str:
    kinds = [rng.word() for _ in range(4)]
    head = iter(["| name | kind | count | note |", "|---|---|---|---|"])
    rows = (f"| {rng.word()} | {rng.choice(kinds)} | {rng.randrange(500)} | {rng.text(12, 40)} |" for _ in count())
    return lines_of(head, 60) + lines_of(rows, size)


def _conjugation(rng: Source, size: int) -> str:
    def lines() -> Iterator[str]:
        while True:
            stem = rng.word()
            for tense, ends in (
                ("present", "o as a amos an"),
                ("past", "é aste ó amos aron"),
                ("future", "aré arás ará aremos arán"),
            ):
                yield f"{stem}, {tense}: " + ", ".join(
                    f"{who} {stem}{end}"
                    for who, end in zip(("yo", "tú", "ella", "nosotros", "ellos"), ends.split(), strict=True)
                )

    return lines_of(lines(), size)


def _phrase_book(rng: Source, size: int) -> str:
    return lines_of(
        (f'- How do I say "{rng.word()} {rng.word()}"? You say "{rng.word()} {rng.word()}".' for _ in count()),
        size,
    )


def _schedule(rng: Source, size: int) -> str:
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    routine = [f"{hour:02}:00 - {rng.word()} and {rng.word()}" for hour in (7, 9, 12, 15, 18, 21)]

    def lines() -> Iterator[str]:
        for number in count():
            yield f"\n{days[number % 7]}, week {number // 7 + 1}:"
            yield from (line if rng.random() < 0.5 else f"{line[:8]}{rng.text(15, 50)}" for line in routine)

    return lines_of(lines(), size)


def _headings(rng: Source, size: int) -> str:
    """Sections in one form: heading, the same three labels, other text."""
    labels = ("Definition", "Example", "Why it matters")
    sections = (
        f"## {n}. {rng.word().capitalize()} {rng.word()}\n\n"
        + "".join(f"**{label}:** {rng.text(40, 120)}\n\n" for label in labels)
        for n in count(1)
    )
    return lines_of(sections, size)


def _nested_thoughts(rng: Source, size: int) -> str:
    """A thought full of doubt that still gets on: hedge after hedge, each with a new point."""
    hedges = (
        "Wait, let me reconsider.",
        "Hmm, that doesn't seem right.",
        "But wait, what if I am wrong?",
        "Let me re-read the question.",
        "Actually, let me double-check that.",
        "Hold on.",
    )
    return lines_of((f"{rng.choice(hedges)} {rng.text(60, 260)}" for _ in count()), size)


BODIES: dict[str, Callable[[Source, int], str]] = {
    "song with a refrain": _song,
    "cumulative song": _cumulative,
    "dot leaders": _contents,
    "blank forms": _forms,
    "box tables": _boxes,
    "separators": _separators,
    "game boards": _boards,
    "word table": _markdown_table,
    "conjugations": _conjugation,
    "phrase book": _phrase_book,
    "schedule": _schedule,
    "sections of one form": _headings,
    "hedging thought": _nested_thoughts,
}
