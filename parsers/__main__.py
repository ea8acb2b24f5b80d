"""`python -m parsers`: show how a raw output splits, or run a file of labelled cases. For people, not for programs.

What must not come in: parsing, and what a case means (`parsers.cases`).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from parsers.cases import BadCase, read_cases
from parsers.machines import machine_for
from parsers.names import UnknownFormat, lookup
from parsers.pieces import Field, Parser
from parsers.start import Start, resolve_start


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="python -m parsers", description="Split a raw output read from stdin.")
    options.add_argument("format", nargs="?", help="a format's id, or an engine's name for it")
    options.add_argument("--start", choices=("open", "closed"), help="where the output starts; unset: the format's")
    options.add_argument("--thinking", choices=("on", "off"), help="what the request said; unset: nothing")
    options.add_argument("--tools", action="store_true", help="the request carries tools")
    options.add_argument("--ws", choices=("template", "verbatim"), help="instead of the format's own rule")
    options.add_argument("--chunk", type=int, default=0, metavar="N", help="feed N characters at a time; unset: all")
    options.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_argument("--cases", type=Path, metavar="FILE", help="run this file of cases instead")
    given = options.parse_args(argv)
    if given.cases is not None:
        return _run_cases(given.cases)
    if given.format is None:
        options.error("a format is needed, or --cases")
    if given.chunk < 0:
        options.error("--chunk must not be negative")
    try:
        record = lookup(given.format)
    except UnknownFormat as error:
        options.error(str(error))
    start = resolve_start(
        record,
        thinking=None if given.thinking is None else given.thinking == "on",
        pinned=None if given.start is None else Start(given.start),
    )
    machine = machine_for(record, start, tools=given.tools, whitespace=given.ws)
    _show(machine, sys.stdin.read(), given.chunk, start, as_json=given.json)
    return 0


def _show(machine: Parser, text: str, size: int, start: Start, *, as_json: bool) -> None:
    size = size or len(text) or 1
    pieces = [piece for at in range(0, len(text), size) for piece in machine.feed(text[at : at + size])]
    pieces += machine.finish()
    fields = {field.value: "".join(piece.text for piece in pieces if piece.field is field) for field in Field}
    if as_json:
        _print(json.dumps({"start": start, **fields, "pieces": pieces}, ensure_ascii=False))
        return
    for field, shown in fields.items():
        _print(f"--- {field} ({len(shown)} characters)\n{shown}")


def _run_cases(file: Path) -> int:
    try:
        cases = read_cases(file.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        return _fail(f"{file}: {error.strerror}")
    except (BadCase, UnicodeDecodeError) as error:
        return _fail(f"{file}: {error}")
    failures = [failure for case in cases if (failure := case.run())]
    for failure in failures:
        _print(
            json.dumps(
                {
                    "id": failure.id,
                    "reasoning": failure.got.reasoning,
                    "content": failure.got.content,
                    "expected_reasoning": failure.wanted.reasoning,
                    "expected_content": failure.wanted.content,
                    "chunks": failure.chunks,
                },
                ensure_ascii=False,
            )
        )
    _print(f"{len(cases) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def _fail(message: str) -> int:
    sys.stderr.write(message + "\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
