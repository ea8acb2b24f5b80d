"""Arithmetic problems with the number of steps their plainest solution takes, for the residual difficulty.

`problems/en.txt` has one a line: the count, a space, the problem, with slots like those of the templates. One in six is
held out, by a digest of its text.
"""

import hashlib
import random
from pathlib import Path

from router.training.crossed.generate import Made
from router.training.crossed.slots import fill

FILE = Path(__file__).parent / "problems" / "en.txt"
HELD_ONE_IN = 6


def problems(seed: int, *, held: bool = False, path: Path = FILE) -> list[Made]:
    """Every problem once, its slots drawn anew. Raises ValueError naming the line that is none."""
    rng = random.Random(seed)
    made: list[Made] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        count, _, text = line.partition(" ")
        if not count.isdigit() or not text:
            raise ValueError(f"{path.name}:{number}: no count and problem")
        is_held = hashlib.sha256(text.encode()).digest()[0] % HELD_ONE_IN == 0
        if is_held is held:
            made.append(Made(fill(text, rng, {}, {}), 1, graded(int(count)), "en", "steps", is_held))
    return made


def graded(steps: int) -> float:
    """The complexity of so many steps, as the public problems have it."""
    return 0.3 + 0.04 * min(steps, 10)
