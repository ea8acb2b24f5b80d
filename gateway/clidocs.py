"""The reference of commands in docs/cli.md, from the command line itself; a test fails when it drifts.

    python -m gateway.clidocs docs

All above the marker is written by hand and kept. No sentence about a command or a flag is written here: it is its help.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

from gateway.cli import app

MARKER = "<!-- Below: made by `python -m gateway.clidocs docs`. Do not edit. -->"


@dataclass(frozen=True, slots=True)
class Command:
    """One command, by its words after `thinkgate`. `options`: every spelling of every flag, without `--help`."""

    words: tuple[str, ...]
    help: str
    parameters: tuple[Any, ...]

    @property
    def options(self) -> set[str]:
        return {spelling for one in self.parameters if one.param_type_name == "option" for spelling in one.opts}


def commands() -> list[Command]:
    """All that do something, in the order of `--help`. Groups only hold others."""
    return list(_walk((), get_command(app)))


def render() -> str:
    return "\n".join(line for command in commands() for line in _section(command))


def write(folder: Path) -> None:
    page = folder / "cli.md"
    by_hand = page.read_text(encoding="utf-8").partition(MARKER)[0]
    page.write_text(f"{by_hand}{MARKER}\n\n{render()}", encoding="utf-8")


def _walk(words: tuple[str, ...], command: Any) -> Iterator[Command]:
    inner: dict[str, Any] = getattr(command, "commands", {})
    if not inner:
        yield Command(words, command.help or "", tuple(command.params))
    for name, one in inner.items():
        yield from _walk((*words, name), one)


def _section(command: Command) -> Iterable[str]:
    usage = " ".join(("thinkgate", *command.words, *map(_in_usage, command.parameters)))
    yield from (f"### thinkgate {' '.join(command.words)}", "", f"`{usage}`", "", " ".join(command.help.split()), "")
    if command.parameters:
        yield from ("| argument | meaning |", "|---|---|")
        yield from (f"| {_name(one)} | {(one.help or '').replace('|', chr(92) + '|')} |" for one in command.parameters)
        yield ""


def _in_usage(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        told = parameter.name.upper()
    else:
        told = parameter.opts[0] + ("" if parameter.is_flag else f" {parameter.name.upper()}")
    return told if parameter.required else f"[{told}]"


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{spelling}`" for spelling in parameter.opts)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
