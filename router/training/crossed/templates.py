"""Reads the template files beside it and in `pairs/`. Their format, and nothing about how templates become prompts.

A file is of one language (its name) or switches with `@ code`. Lines: `! names: a|b`, `! pre:` and `! post:` give what
dresses a prompt; `= text` opens a scene with that content, `= *` asks that fit any content, `= terse`, `= solo` and
`= followup` asks that need none. An ask is `+` reasoning or `-` simple: more signs are harder or simpler, `+-` easiest
of the reasoning ones.

The files in `pairs/` hold groups instead: asks of both labels that belong together, over one content (`= text`) or of
like shape (`=` alone). `==` holds a group out whole. `first turn >> ask` is an ask that follows another.
"""

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
GRADES = {"+-": 0.45, "+": 0.6, "++": 0.75, "+++": 0.95, "-": 0.2, "--": 0.1, "---": 0.03}
ANY, TERSE, SOLO, FOLLOWUP = "*", "terse", "solo", "followup"


@dataclass(frozen=True, slots=True)
class Ask:
    text: str
    complexity: float

    @property
    def label(self) -> int:
        return int(self.complexity > 0.4)


@dataclass(slots=True)
class Scene:
    content: str
    """Empty in a group whose asks need none."""
    asks: list[Ask] = field(default_factory=list)
    is_held: bool = False
    """Of groups: for figures, never for fitting."""


@dataclass(slots=True)
class Language:
    code: str
    scenes: list[Scene] = field(default_factory=list)
    kinds: dict[str, list[Ask]] = field(default_factory=dict)
    """Asks without a content of their own, by kind: `*`, terse, solo, followup."""
    groups: list[Scene] = field(default_factory=list)
    """From `pairs/`."""
    dress: dict[str, list[str]] = field(default_factory=dict)
    """`names`, `cities`, `pre`, `post`."""


Templates = dict[str, Language]


def read_templates(folder: Path = FOLDER) -> Templates:
    """All languages. Raises ValueError naming file and line."""
    found: Templates = {}
    for path in sorted(folder.glob("*.txt")):
        _read_file(path, found)
    for path in sorted((folder / "pairs").glob("*.txt")):
        _read_file(path, found)
    return found


def _read_file(path: Path, found: Templates) -> None:
    language = None if path.stem.startswith("mixed") else found.setdefault(path.stem, Language(path.stem))
    asks: list[Ask] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark, _, rest = line.partition(" ")
        rest = rest.replace("\\n", "\n")
        if mark == "@":
            language = found.setdefault(rest, Language(rest))
        elif language is None:
            raise ValueError(f"{path.name}:{number}: no language yet")
        elif mark == "!":
            kind, _, values = rest.partition(": ")
            language.dress.setdefault(kind, []).extend(value for value in values.split("|") if value)
        elif mark in ("=", "==") and path.parent.name == "pairs":
            language.groups.append(Scene(rest, is_held=mark == "=="))
            asks = language.groups[-1].asks
        elif mark == "=":
            if rest in (ANY, TERSE, SOLO, FOLLOWUP):
                asks = language.kinds.setdefault(rest, [])
            else:
                language.scenes.append(Scene(rest))
                asks = language.scenes[-1].asks
        elif mark in GRADES:
            asks.append(Ask(rest, GRADES[mark]))
        elif line:
            raise ValueError(f"{path.name}:{number}: no such mark: {mark}")
