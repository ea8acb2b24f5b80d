"""Loops to be found: one generator a shape, as public reports of runaway thinking show them.

    for name, make in shapes().items():
        sample = make(Random(7), 8_000)     # a healthy thought, then 8,000 characters of loop

For the benchmark and for tests that replay a loop through a whole gateway. What must not come in: the detector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from benchmarks.loops.prose import Half, Source


@dataclass(frozen=True, slots=True)
class LoopSample:
    """`prefix` is a healthy thought, `loop` what follows. `unit`: characters of a copy, 0 where none are equal."""

    shape: str
    prefix: str
    loop: str
    unit: int

    @property
    def text(self) -> str:
        return self.prefix + self.loop

    @property
    def onset(self) -> int:
        """Where the loop begins, in characters of the text."""
        return len(self.prefix)


FIRST = "first token flood"
"""The one shape without a healthy thought before it."""

Shape = Callable[[Random, int], LoopSample]
Unit = Callable[[Source], str]
Copies = Callable[[Source, int], str]


def shapes(half: Half = Half.REPORT) -> dict[str, Shape]:
    """All shapes by name; each takes a source of chance and the length of its loop in characters."""
    exact = {name: partial(_exact, name, unit, half) for name, unit in EXACT.items()}
    loose = {name: partial(_loose, name, copies, half) for name, copies in LOOSE.items()}
    return {**exact, **loose}


def _exact(name: str, make: Unit, half: Half, chance: Random, size: int) -> LoopSample:
    rng = Source(chance.getrandbits(64), half)
    prefix = "" if name == FIRST else _prefix(rng)
    unit = make(rng)
    size = max(size, 3 * len(unit) + 1_024)  # three copies of a long block are the least that anyone can call a loop
    return LoopSample(name, prefix, (unit * (size // len(unit) + 2))[:size], len(unit))


def _loose(name: str, make: Copies, half: Half, chance: Random, size: int) -> LoopSample:
    rng = Source(chance.getrandbits(64), half)
    return LoopSample(name, _prefix(rng), make(rng, size)[:size], 0)


def _prefix(rng: Source) -> str:
    return rng.prose(rng.randrange(300, 6_000))


# --- exact: the same text again and again ---------------------------------------------------------------------------


def _stutter(rng: Source) -> str:
    return rng.words(1)[0] + rng.choice([" ", ", ", "\n", "; "])


def _dither(rng: Source) -> str:
    one, two = rng.randrange(10, 99), rng.randrange(10, 99)
    return f"So the answer is {one}. Wait, actually {two}. No, wait, let me go with {one}. Hmm, but {two}?\n"


def _code_block(rng: Source) -> str:
    names = rng.words(12)
    lines = [
        f"    {one}.{two}({rng.randrange(100)}, {three!r})"
        for one, two, three in zip(names[::3], names[1::3], names[2::3], strict=True)
    ]
    return f"```python\ndef {names[0]}({names[1]}):\n" + "\n".join(lines) + f"\n    return {names[1]}\n```\n\n"


def _table_row(rng: Source) -> str:
    one, two, three = rng.words(3)
    return f"| {one} | {two} {three} | {rng.randrange(1000)} |\n"


CHINESE = (
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里"
    "所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从"
)


def _chinese(rng: Source) -> str:
    return "".join(
        "".join(rng.choices(CHINESE, k=rng.randrange(6, 20))) + rng.choice("，。？")
        for _ in range(rng.randrange(4, 12))
    )


EXACT: dict[str, Unit] = {
    FIRST: lambda _: "!",
    "character flood": lambda rng: rng.choice("!aS0b?é好😀"),
    "whitespace flood": lambda rng: rng.choice([" ", "\n", " \n", "\t", "\n\n    "]),
    "punctuation cycle": lambda rng: rng.choice(["?!", "! ", "),(", "?)."]),
    "stuttered word": _stutter,
    "alternating words": lambda rng: "+".join(rng.words(2)) + rng.choice(" -/"),
    "short sentence": lambda rng: rng.text(24, 60) + " ",
    "dithered answer": _dither,
    "list cycle": lambda rng: ", ".join(rng.words(rng.randrange(3, 9))) + ", ",
    "tag loop": lambda rng: f"</think>\n\n{rng.text(20, 90)}\n<think>\n",
    "table row": _table_row,
    "paragraph": lambda rng: rng.text(250, 900) + "\n\n",
    "code block": _code_block,
    "Chinese paragraph": _chinese,
    "long block": lambda rng: rng.prose(rng.randrange(1_000, 2_200)),
    "huge block": lambda rng: rng.prose(rng.randrange(5_000, 9_000)),
}  # fmt: skip


CHANGED = 0.12
"""The share of words that a re-derivation has otherwise."""


# --- loose: no two stretches need be equal --------------------------------------------------------------------------


def _counter(rng: Source, size: int) -> str:
    text, number = rng.text(40, 160).rstrip("."), rng.randrange(1, 500)
    frame = rng.choice(["{}. {}.\n", "Step {}: {}.\n\n", "Let me try option {}: {}. "])
    lines = [frame.format(number + count, text) for count in range(size // len(text) + 1)]
    return "".join(lines)


def _slots(rng: Source, size: int) -> str:
    text, pool = rng.text(30, 90).rstrip("."), rng.words(rng.randrange(12, 40))
    return "".join(f"{text} with {rng.choice(pool)}. " for _ in range(size // len(text) + 1))


def _shuffled(rng: Source, size: int) -> str:
    pool = [rng.text(30, 110) for _ in range(rng.randrange(4, 9))]
    return "".join(rng.choice(pool) + rng.choice([" ", "\n\n"]) for _ in range(size // 30 + 1))


def _dithered(rng: Source, size: int) -> str:
    """Between two numbers, in a few sentences, in any order."""
    one, two = rng.randrange(10, 99), rng.randrange(10, 99)
    pool = [
        f"So the answer is {one}.", f"Wait, actually {two}.", f"No, wait, let me go with {one}.", f"Hmm, but {two}?",
        f"Actually, I think that {one}.{two} is right.", f"But the question says {two}.", f"OK, final answer: {one}.",
    ]  # fmt: skip
    pool = rng.sample(pool, rng.randrange(4, 7))
    return "".join(rng.choice(pool) + " " for _ in range(size // 12))


def _one_adverb(rng: Source, size: int) -> str:
    text = rng.paragraph(3)
    words = ["Perfect!", "Great!", "Excellent!", "Good.", "All done.", "Wonderful!", "Right.", "Now it works!"]
    return "".join(f"{rng.choice(words)} {text}\n\n" for _ in range(size // len(text) + 1))


def _small_salad(rng: Source, size: int) -> str:
    pool = [*rng.words(rng.randrange(4, 9)), "the", "and", ",", "."]
    return " ".join(rng.choice(pool) for _ in range(size // 3))


def _listing(rng: Source, size: int) -> str:
    stem, pool = (
        rng.words(1)[0].capitalize(),
        [word.capitalize() for word in rng.words(rng.randrange(8, 24))],
    )
    return "".join(f"#{stem}{rng.choice(pool)} " for _ in range(size // len(stem) + 1))


def _changed(text: str, rng: Source) -> str:
    return " ".join(rng.word() if rng.random() < CHANGED else word for word in text.split(" "))


def _rederived(rng: Source, size: int) -> str:
    """The passage is done anew each time, and about one word in eight is another one."""
    text = "\n".join(_with_numbers(rng) for _ in range(rng.randrange(6, 22)))
    return _repeat(size, lambda: _changed(text, rng) + "\n\n")


def _rederived_synonyms(rng: Source, size: int) -> str:
    """As before, but each word has its own two or three ways to be said, and sentences may be left out."""
    sentences = [_with_numbers(rng) for _ in range(rng.randrange(6, 22))]
    ways = {word: rng.words(2) for told in sentences for word in told.split(" ")}

    def once() -> str:
        kept = [told for told in sentences if rng.random() > 0.1]
        words = (
            rng.choice(ways[word]) if rng.random() < CHANGED else word for told in kept for word in told.split(" ")
        )
        return (
            rng.choice(["Wait, let me redo this. ", "Hmm, let me re-read. ", "Let me start over. "])
            + " ".join(words)
            + "\n\n"
        )

    return _repeat(size, once)


def _rederived_sums(rng: Source, size: int) -> str:
    """A calculation done anew each time: one word or number in eight is another one."""
    text = " ".join(_calculated(rng) for _ in range(rng.randrange(10, 22)))

    def once() -> str:
        words = text.split(" ")
        others = (str(rng.randrange(2, 90)) if word[0].isdigit() else rng.word() for word in words)
        return " ".join(o if rng.random() < CHANGED else w for w, o in zip(words, others, strict=True)) + "\n\n"

    return _repeat(size, once)


def _calculated(rng: Source) -> str:
    one, two = rng.randrange(2, 90), rng.randrange(2, 90)
    return rng.choice(
        [
            f"So {one} + {two} = {one + two}, and then we have {one + two} * 3 = {3 * (one + two)}.",
            f"Since {one} is less than {one + two}, the {rng.word()} must be {two}.",
            f"Therefore {rng.word()} = {one}, {rng.word()} = {two} and their product is {one * two}.",
            rng.sentence(),
        ]
    )


def _with_numbers(rng: Source) -> str:
    """A sentence, with a sum in two of five."""
    told = rng.sentence()
    if rng.random() > 0.4:
        return told
    return told[:-1] + f", so {rng.randrange(2, 400)} + {rng.randrange(2, 400)} = {rng.randrange(2, 800)}."


def _repeat(size: int, once: Callable[[], str]) -> str:
    told: list[str] = []
    length = 0
    while length < size:
        told.append(once())
        length += len(told[-1])
    return "".join(told)


LOOSE: dict[str, Copies] = {
    "counter": _counter,
    "slots filled from a pool": _slots,
    "sentences in random order": _shuffled,
    "dithered in any order": _dithered,
    "one adverb changes": _one_adverb,
    "salad of few words": _small_salad,
    "list growth": _listing,
    "re-derivation, 12 % changed": _rederived,
    "re-derivation, synonyms": _rederived_synonyms,
    "re-derivation, sums": _rederived_sums,
}
