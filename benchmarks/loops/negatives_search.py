"""Hard negatives that search and simulate: the same few sentences, and another state each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

from benchmarks.loops.lines import lines_of
from benchmarks.loops.prose import Source


def _search(rng: Source, size: int) -> str:
    """A breadth-first search, told step by step, with its queue."""

    def steps() -> Iterator[str]:
        queue, seen = [0], {0}
        for node in count():
            at = queue.pop(0) if queue else node
            new = [n for n in (rng.randrange(900) for _ in range(rng.randrange(1, 4))) if n not in seen][:2]
            seen.update(new)
            queue = (queue + new)[-8:] or [rng.randrange(900)]
            near = f"Its neighbours are {new or 'all visited'}."
            yield f"Visit node {at}. {near} Queue: {queue}. Visited so far: {len(seen)} nodes."

    return lines_of(steps(), size)


def _backtracking(rng: Source, size: int) -> str:
    """Eight queens, tried in order."""

    def steps() -> Iterator[str]:
        side = rng.randrange(8, 11)

        def place(board: list[int]) -> Iterator[str]:
            row = len(board)
            if row == side:
                yield f"All {side} queens stand: {board}. A solution."
                return
            columns = list(range(side))
            rng.shuffle(columns)
            for column in columns:
                clash = next((r for r, c in enumerate(board) if c == column or abs(c - column) == row - r), None)
                if clash is not None:
                    yield f"Row {row + 1}, column {column + 1}: attacked by the queen in row {clash + 1}. Next."
                else:
                    yield f"Row {row + 1}, column {column + 1}: free. Place it: {[*board, column]}."
                    yield from place([*board, column])
            yield f"Row {row + 1} has no free column. Backtrack."

        while True:
            yield from place([])

    return lines_of(islice(steps(), 100_000), size)


def _knights(rng: Source, size: int) -> str:
    """Who is a knight and who a knave, case by case."""
    names = [word.capitalize() for word in rng.words(6)]

    def cases() -> Iterator[str]:
        for number in range(2 ** len(names)):
            kinds = {name: ("a knave", "a knight")[number >> place & 1] for place, name in enumerate(names)}
            one, other = rng.sample(names, 2)
            claim, verdict = rng.choice(["a knight", "a knave"]), rng.choice(["a contradiction", "consistent so far"])
            supposed = ", ".join(f"{name} is {kind}" for name, kind in kinds.items())
            yield f"Suppose {supposed}. Then {one} says that {other} is {claim}, but {one} is {kinds[one]}: {verdict}."

    return lines_of(cases(), size)


def _hanoi(rng: Source, size: int) -> str:
    disks = rng.randrange(7, 10)
    pegs = {"A": list(range(disks, 0, -1)), "B": list[int](), "C": list[int]()}

    def moves(disk: int, start: str, end: str, spare: str) -> Iterator[str]:
        if disk:
            yield from moves(disk - 1, start, spare, end)
            pegs[end].append(pegs[start].pop())
            stand = ", ".join(f"{peg} = {stack}" for peg, stack in pegs.items())
            yield f"Move disk {disk} from peg {start} to peg {end}. Now {stand}."
            yield from moves(disk - 1, spare, end, start)

    return lines_of(moves(disks, "A", "C", "B"), size)


def _automaton(rng: Source, size: int) -> str:
    """A word read letter by letter, with what is left of it."""
    table = {(state, letter): rng.randrange(6) for state in range(6) for letter in "ab"}

    def steps() -> Iterator[str]:
        while True:
            word, state = "".join(rng.choices("ab", k=rng.randrange(8, 24))), 0
            yield f"\nIs {word} accepted?"
            for at, letter in enumerate(word):
                following, left = table[state, letter], word[at + 1 :] or "nothing"
                yield f"In state q{state}, read '{letter}', go to q{following}; {left} is left."
                state = following
            yield f"It ends in q{state}, so it is {'accepted' if state % 2 else 'rejected'}."

    return lines_of(steps(), size)


def _positions(rng: Source, size: int) -> str:
    """Which positions of a game of taking stones are won."""
    takes, won = sorted(rng.sample(range(1, 9), 3)), dict[int, bool]()

    def positions() -> Iterator[str]:
        for stones in count(1):
            lost = next((take for take in takes if take <= stones and not won.get(stones - take, False)), None)
            won[stones] = lost is not None
            options = ", ".join(str(stones - take) for take in takes if take <= stones) or "nothing"
            yield f"With {stones} stones one can leave {options}. " + (
                f"Leaving {stones - lost} loses for the opponent, so {stones} is won."
                if lost
                else f"All of these win for the opponent, so {stones} is lost."
            )

    return lines_of(positions(), size)


def _spelled(rng: Source, size: int) -> str:
    def words() -> Iterator[str]:
        while True:
            word, letter = rng.choice(rng.vocabulary), rng.choice("aeirst")
            yield f'How many "{letter}" are in "{word}"? {"-".join(word)}.'
            for place, found in enumerate(word, 1):
                yield f"{place}. {found}: {'yes, that is one' if found == letter else 'no'}"
            yield f"So there are {word.count(letter)}."

    return lines_of(words(), size)


BODIES: dict[str, Callable[[Source, int], str]] = {
    "search with a queue": _search,
    "backtracking": _backtracking,
    "spelled letters": _spelled,
    "knights and knaves": _knights,
    "towers of Hanoi": _hanoi,
    "automaton": _automaton,
    "won positions": _positions,
}
