"""Fuzzing of every format with atheris; run by hand, outside the test suite:

    pip install atheris
    python tests/parsers/fuzz_machine.py -max_total_time=600 CORPUS_DIRECTORY
    python tests/parsers/fuzz_machine.py --seeds CORPUS_DIRECTORY >> tests/parsers/seeds.jsonl

Bytes choose a format, a start and options, then texts and markers in turn, then the cuts. The invariants are those of
the property tests. What it found, and a choice of what reached much, is kept in `seeds.jsonl` and run by the suite.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["parsers"]):
    from parsers import FORMATS, Start

from tests.parsers.invariants import check_case, markers

STARTS = list(Start)
WORDS = ("assistant", "analysis", "final", "commentary", "to=self", " to=functions.f", "assistantfinal", "\n", "{", "a")


def decode(data: bytes) -> dict[str, Any]:
    """A case for `tests.parsers.invariants.check_case`."""
    provider = atheris.FuzzedDataProvider(data)
    record = FORMATS[provider.ConsumeIntInRange(0, len(FORMATS) - 1)]
    start = STARTS[provider.ConsumeIntInRange(0, 2)]
    tools, verbatim, structured = provider.ConsumeBool(), provider.ConsumeBool(), provider.ConsumeBool()
    words = (*markers(record), *WORDS)
    parts: list[str] = []
    cuts: list[int] = []
    while provider.remaining_bytes() and len(parts) < 40:
        choice = provider.ConsumeIntInRange(0, 3)
        if choice == 0:
            parts.append(provider.ConsumeUnicodeNoSurrogates(provider.ConsumeIntInRange(1, 12)))
        else:
            word = words[provider.ConsumeIntInRange(0, len(words) - 1)]
            parts.append(word if choice < 3 else word[: provider.ConsumeIntInRange(1, len(word))])
        cuts.append(provider.ConsumeIntInRange(0, 7))
    text = "".join(parts)
    chunks: list[str] = []
    at = 0
    for size in cuts:
        chunks.append(text[at : at + size])
        at += size
    chunks.append(text[at:])
    whitespace = "verbatim" if verbatim else None
    return {
        "format": record.id,
        "start": start,
        "chunks": chunks,
        "tools": tools,
        "whitespace": whitespace,
        "structured": structured,
    }


def one_input(data: bytes) -> None:
    check_case(decode(data))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--seeds"]:  # the inputs of a corpus directory, as lines of seeds.jsonl
        for file in sorted(Path(sys.argv[2]).iterdir()):
            sys.stdout.write(json.dumps(decode(file.read_bytes()), ensure_ascii=False) + "\n")
    else:
        atheris.Setup(sys.argv, one_input)
        atheris.Fuzz()
