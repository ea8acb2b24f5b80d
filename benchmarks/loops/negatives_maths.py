"""Hard negatives that calculate: every line looks like the last, and every line is a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from benchmarks.loops.lines import lines_of
from benchmarks.loops.prose import Source


def _collatz(rng: Source, size: int) -> str:
    def steps() -> Iterator[str]:
        while True:
            number = rng.randrange(1_000, 90_000)
            yield f"\nStart with n = {number}."
            while number != 1:
                following = number // 2 if number % 2 == 0 else 3 * number + 1
                yield f"{number} is {'even, so we halve it' if number % 2 == 0 else 'odd, so 3n + 1'}: {following}"
                number = following

    return lines_of(steps(), size)


def _brute_force(rng: Source, size: int) -> str:
    modulus, shift = rng.choice([7, 11, 13, 17]), rng.randrange(2, 90)
    return lines_of(
        (
            f"n = {n}: n^2 + {shift} = {n * n + shift}, {n * n + shift} mod {modulus} = {(n * n + shift) % modulus}"
            f"{', works!' if (n * n + shift) % modulus == 0 else ', no.'}"
            for n in count(rng.randrange(1, 60))
        ),
        size,
    )


def _dp_table(rng: Source, size: int) -> str:
    def rows() -> Iterator[str]:
        while True:
            width = rng.randrange(8, 16)
            yield f"\nCapacity {width - 1}:"
            yield "| i | " + " | ".join(map(str, range(width))) + " |"
            row = [0] * width
            for i in range(1, rng.randrange(8, 40)):
                weight, value = rng.randrange(1, width), rng.randrange(1, 20 * i)
                row = [max(row[j], row[j - weight] + value if j >= weight else 0) for j in range(width)]
                yield f"| {i} | " + " | ".join(map(str, row)) + " |"

    return lines_of(rows(), size)


def _dp_steps(rng: Source, size: int) -> str:
    one, other = ("".join(rng.choices("abcd", k=40)) for _ in range(2))
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]

    def steps() -> Iterator[str]:
        for i, a in enumerate(one, 1):
            for j, b in enumerate(other, 1):
                if a == b:
                    table[i][j] = table[i - 1][j - 1] + 1
                    yield f"dp[{i}][{j}]: {a} == {b}, so dp[{i - 1}][{j - 1}] + 1 = {table[i][j]}"
                else:
                    table[i][j] = max(table[i - 1][j], table[i][j - 1])
                    yield f"dp[{i}][{j}]: {a} != {b}, so max({table[i - 1][j]}, {table[i][j - 1]}) = {table[i][j]}"

    return lines_of(steps(), size)


def _long_division(rng: Source, size: int) -> str:
    """Digit by digit, until a remainder comes again."""

    def steps() -> Iterator[str]:
        while True:
            divisor, rest, seen = rng.randrange(7, 97), rng.randrange(1, 90), set[int]()
            yield f"\nDivide {rest} by {divisor}:"
            while rest and rest not in seen:
                seen.add(rest)
                digit, left = divmod(rest * 10, divisor)
                product = digit * divisor
                yield f"bring down 0: {rest * 10}; {divisor} goes {digit} times, that is {product}, remainder {left}"
                rest = left

    return lines_of(steps(), size)


def _verify_twice(rng: Source, size: int) -> str:
    """A derivation, and the same once more word for word to be sure; then the next."""
    told = ""
    while len(told) < size:
        work = "\n".join(rng.paragraph(2) for _ in range(rng.randrange(2, 7)))
        told += f"{work}\n\nLet me verify this by going through it once more.\n\n{work}\n\nGood, that agrees.\n\n"
    return told


def _reverify(rng: Source, size: int) -> str:
    """One answer checked by several methods, and named each time."""
    answer = rng.randrange(10, 999)
    ends = (f"So the answer is {answer}.", f"That gives {answer} again.", f"So it is {answer}, as before.")
    told = ""
    while len(told) < size:
        told += f"Another way to check: {rng.paragraph(3)} {rng.choice(ends)}\n\n"
    return told


def _options(rng: Source, size: int) -> str:
    """Options A to E of question after question, each weighed in the same form."""
    told = ""
    for number in count(1):
        told += f"Question {number}. {rng.sentence()}\n"
        for letter in "ABCDE":
            told += (
                f"Option {letter}: {rng.text(30, 80)} Let me consider whether option {letter} is consistent with"
                f" the statement. {rng.sentence()} So option {letter} is"
                f" {rng.choice(['not correct', 'possible', 'wrong'])}.\n"
            )
        if len(told) >= size:
            return told
    return told


def _residues(rng: Source, size: int) -> str:
    modulus = rng.choice([97, 101, 211])
    cases = (
        f"Case n ≡ {n} (mod {modulus}): n^2 ≡ {n * n % modulus}, n^3 ≡ {n**3 % modulus},"
        f" so n^3 - n ≡ {(n**3 - n) % modulus} (mod {modulus})."
        for n in range(modulus)
    )
    return lines_of(cases, size)


def _times_tables(rng: Source, size: int) -> str:
    first = rng.randrange(2, 40)
    return lines_of((f"{a} x {b} = {a * b}" for a in count(first) for b in range(1, 13)), size)


def _truth_table(rng: Source, size: int) -> str:
    names = "ABCDEFGH"
    width = 6 + rng.randrange(2)
    rule = rng.sample(range(width), 4)

    def rows() -> Iterator[str]:
        yield "| " + " | ".join(names[:width]) + " | result |"
        for number in range(2**width):
            bits = [(number >> place) & 1 for place in range(width)]
            result = (bits[rule[0]] and not bits[rule[1]]) or (bits[rule[2]] ^ bits[rule[3]])
            yield "| " + " | ".join("FT"[bit] for bit in bits) + f" | {'FT'[bool(result)]} |"

    return lines_of(rows(), size)


def _elimination(rng: Source, size: int) -> str:
    def steps() -> Iterator[str]:
        while True:
            side = rng.randrange(4, 7)
            rows = [[rng.randrange(-9, 10) for _ in range(side)] for _ in range(side)]
            for at in range(side):
                yield f"\nEliminate column {at + 1}:"
                for other in range(at + 1, side):
                    rows[other] = [
                        a * (rows[at][at] or 1) - b * rows[other][at]
                        for a, b in zip(rows[other], rows[at], strict=True)
                    ]
                    yield f"R{other + 1} <- R{other + 1} - k R{at + 1}"
                yield from (
                    str([value % 1009 if column >= row else 0 for column, value in enumerate(line)])
                    for row, line in enumerate(rows)
                )

    return lines_of(steps(), size)


def _decimals(rng: Source, size: int) -> str:
    """Newton's method and series, digit after digit."""

    def steps() -> Iterator[str]:
        while True:
            root = rng.randrange(2, 500)
            guess = root / 2 + rng.random()
            yield f"\nApproximate the square root of {root}:"
            for number in range(1, 9):
                guess = (guess + root / guess) / 2
                step = f"(x_{number - 1} + {root} / x_{number - 1}) / 2"
                yield f"x_{number} = {step} = {guess:.8f}, and x_{number}^2 = {guess * guess:.8f}"

    return lines_of(steps(), size)


def _sweep(rng: Source, size: int) -> str:
    """One derivation of several sentences, done for case after case: the same words, other numbers."""
    ways: list[Callable[[int, int], str]] = [
        lambda a, b: f"we add {a} and {b}, which gives {a + b}",
        lambda a, b: f"{a} times {b} is {a * b}, and {a * b} mod 7 is {a * b % 7}",
        lambda a, b: f"since {min(a, b)} is less than {max(a, b)}, the difference is {abs(a - b)}",
        lambda a, b: f"the square of {a} is {a * a}, so that {a * a} - {b} = {a * a - b}",
    ]
    steps = [
        (rng.text(20, 120).rstrip("."), rng.choice(ways), rng.randrange(1, 9)) for _ in range(rng.randrange(4, 16))
    ]

    def cases() -> Iterator[str]:
        for number in count(1):
            other = rng.randrange(2, 60)
            told = (f"{text}: {way(number * step, other + step)}." for text, way, step in steps)
            yield f"Case {number}. " + " ".join(told) + "\n"

    return lines_of(cases(), size)


def _verdicts(rng: Source, size: int) -> str:
    """As before, and what changes from case to case are a few words of a small choice, and now and then a remark."""
    slots = [rng.words(3) for _ in range(6)]
    steps = [rng.text(60, 160).rstrip(".") for _ in slots]

    def cases() -> Iterator[str]:
        for number in count(1):
            told = (f"{text} is {rng.choice(slot)}." for text, slot in zip(steps, slots, strict=True))
            yield f"Test {number}: input {rng.randrange(10**4)}. " + " ".join(told) + f" {rng.text(10, 120)}\n"

    return lines_of(cases(), size)


BODIES: dict[str, Callable[[Source, int], str]] = {
    "Collatz": _collatz,
    "brute force": _brute_force,
    "DP table": _dp_table,
    "DP steps": _dp_steps,
    "long division": _long_division,
    "verified twice": _verify_twice,
    "same answer many ways": _reverify,
    "options A to E": _options,
    "residue cases": _residues,
    "times tables": _times_tables,
    "truth table": _truth_table,
    "elimination": _elimination,
    "iterations": _decimals,
    "a derivation for each case": _sweep,
    "a verdict for each test": _verdicts,
}
