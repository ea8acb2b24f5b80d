"""docs/cli.md names every command, flag, target and variable, and no page speaks of one that there is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway import clidocs
from tests.harness import ANNOUNCEMENT
from tests.pages import PAGES, ROOT, fences, without_code

PAGE: Final = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
BY_HAND, _, MADE = PAGE.partition(clidocs.MARKER)
COMMANDS: Final = {command.words: command for command in clidocs.commands()}
PROGRAMS: Final = sorted(
    path for room in ("router", "budgets", "parsers") for path in (ROOT / room).rglob("__main__.py")
)
CODE: Final = ("gateway", "router", "budgets", "parsers", "deploy", "benchmarks", "tests")
NOT_OURS: Final = {"PATH", "HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL", "PYTEST_XDIST_WORKER",
                   "VLLM_NIXL_SIDE_CHANNEL_PORT"}  # fmt: skip
"""The system's, and what others' programs call their own."""
READING: Final = {"os.environ.get", "os.environ.setdefault", "os.getenv"}
COMMAND: Final = re.compile(
    r"(?:^|&& |\$ )[ \t]*(?:[\w./]*bin/)?thinkgate((?: [a-z]+)+)((?: (?:--?[a-z][a-z-]*|[\w./'\"$:=…-]+))*)",
    re.MULTILINE,
)
"""A command at the beginning of a line, or after another."""
EXAMPLES: Final = sorted((ROOT / "deploy").rglob("*.yaml"))


def rows(heading: str) -> list[list[str]]:
    table = BY_HAND.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line[:1] == "|"][
        2:
    ]


def test_the_reference_is_the_command_line_s() -> None:
    assert "\n\n" + clidocs.render() == MADE, "run `python -m gateway.clidocs docs`"
    assert ("serve",) in COMMANDS
    assert ("router", "refit") in COMMANDS


def test_regenerating_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "cli.md"
    page.write_text(f"# by hand\n\n{clidocs.MARKER}\nold", encoding="utf-8")
    clidocs.write(tmp_path)
    assert page.read_text(encoding="utf-8") == f"# by hand\n\n{clidocs.MARKER}\n\n{clidocs.render()}"


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_and_flag_says_what_it_is_for(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert command.help
    assert all(one.help for one in command.parameters)
    section = MADE.partition(f"### thinkgate {' '.join(words)}\n")[2].partition("\n### ")[0]
    assert set(re.findall(r"`(--?[a-z-]+)`", section)) == command.options


def added_arguments(path: Path) -> set[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    adding = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"]
    first = [call.args[0].value for call in adding if call.args and isinstance(call.args[0], ast.Constant)]
    return {str(name) for name in first if str(name).startswith("-")}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.parent.name)
def test_every_flag_of_a_program_is_named(path: Path) -> None:
    module = ".".join(path.parent.relative_to(ROOT).parts)
    [row] = [row for row in rows("Tools without a service") if re.match(rf"`python -m {module}[ `]", row[0])]
    assert added_arguments(path) == set(re.findall(r"`(--[a-z-]+)`", row[1] + row[2]))


def test_every_target_and_variable_of_make_is_named() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {row[0].strip("`") for row in rows("make")} == {
        f"make {name}" for name in re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE)
    }
    section = BY_HAND.split("## make\n")[1].split("\n## ")[0]
    taken = set(re.findall(r"^([A-Z]+) \?=", makefile, re.MULTILINE)) | {"DATA"}
    assert all(f"`{name}`" in section for name in taken)


def variables_read(path: Path) -> Iterator[str]:
    """Names that `os.environ` or `os.getenv` is asked for, those behind a constant of the file included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants: dict[str, str] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            constants[target.id] = str(value.value)
    for node in ast.walk(tree):
        asked: ast.expr | None = None
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in READING:
            asked = node.args[0]
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            asked = node.slice
        elif isinstance(node, ast.Compare) and ast.unparse(node.comparators[-1]) == "os.environ":
            asked = node.left
        if isinstance(asked, ast.Constant):
            yield str(asked.value)
        elif asked is not None:
            yield constants.get(ast.unparse(asked), f"{ast.unparse(asked)} in {path.name}")


def test_every_variable_that_is_read_is_named() -> None:
    files = (path for room in CODE for path in (ROOT / room).rglob("*.py") if "node_modules" not in path.parts)
    read = {name for path in files for name in variables_read(path)}
    read |= set(re.findall(r"\$\{(THINKGATE_\w+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8")))
    assert {row[0].strip("`") for row in rows("Environment")} == read - NOT_OURS


def spoken_of(text: str) -> Iterator[tuple[str, tuple[str, ...], set[str]]]:
    """Commands of thinkgate in a text: how they are written, their words, their flags."""
    for found in COMMAND.finditer(text.replace(ANNOUNCEMENT, "")):
        yield found[0], tuple(found[1].split()), set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", found[2]))


def is_known(words: tuple[str, ...], flags: set[str]) -> bool:
    """The longest beginning that is a command takes the flags; words after it are its arguments."""
    for size in range(len(words), 0, -1):
        if words[:size] in COMMANDS:
            return flags <= COMMANDS[words[:size]].options | {"--help"}
    return not flags and any(known[: len(words)] == words for known in COMMANDS)


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_speaks_of_no_command_that_there_is_not(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        code = [*fences(text), *re.findall(r"`([^`\n]+)`", without_code(text, keep_spans=True))]
    else:
        code = [line.strip("# ") for line in text.splitlines() if line.lstrip().startswith("#   ")]
    for written, words, flags in (found for part in code for found in spoken_of(part)):
        assert is_known(words, flags), written


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("thinkgate serve --config thinkgate.yaml", True),
        (".venv/bin/thinkgate serve --confg thinkgate.yaml", False),
        ("thinkgate router refit --log L --out D", True),
        ("thinkgate router", True),
        ("thinkgate replay", False),
        ("thinkgate explain your prompt --json", True),
    ],
)
def test_an_unknown_command_is_seen(text: str, *, known: bool) -> None:
    [(_, words, flags)] = spoken_of(text)
    assert is_known(words, flags) is known
