"""The labelled cases of other parsers, for the formats supported here, whole and in chunks."""

import json
from pathlib import Path
from typing import Any

import pytest

from parsers import Field, Format, Machine, Start, UnknownFormat, lookup

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "parsers.jsonl"

# Format keys of the case table; the record for cases whose parser name is not that of a format.
SUPPORTED = {
    "think": "deepseek_r1",
    "think_tool": "qwen3",
    "think_nemotron": "nemotron_v3",
    "think_step": "step3p5",
    "think_dsml": "deepseek_v4",
    "think_granite42": "granite_thinking",
}

SWAP = "showing reasoning as content when there is no answer is decided where the response is written"
SKIPPED = {
    "vllm:ling3.disabled_keeps_text": "project decision: thinking off and the model thinks all the same is split",
    "vllm:nemotron_v3.swap_whitespace_content": SWAP,
    "sglang:nemotron_3.force_nonempty_swaps": SWAP,
    "sglang:nemotron_3.force_nonempty_truncated": SWAP,
    "llamacpp:Qwen3.5-4B.reasoning_format_none": "inline tags are a way to write the response, not to parse",
}


def _cases() -> list[Any]:
    if not CASES.exists():
        return []
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(case, id=case["id"]) for case in cases if case["format"] in SUPPORTED]


def _record(case: dict[str, Any]) -> Format:
    try:
        return lookup(case["parser"].partition(":")[2])
    except UnknownFormat:
        return lookup(SUPPORTED[case["format"]])


def _start(opts: dict[str, Any]) -> Start:
    if "thinking" in opts:
        return Start.OFF
    return Start.OPEN if opts["start"] == "open" else Start.CLOSED


def _chunkings(case: dict[str, Any]) -> list[list[str]]:
    text = case.get("output", "".join(case.get("deltas", ())))
    sizes = [max(1, len(text)), 1, 2, 3, 5, 7, 11]
    chunkings = [[text[at : at + size] for at in range(0, len(text), size)] for size in sizes]
    return [*chunkings, case["deltas"]] if "deltas" in case else chunkings


@pytest.mark.shared
@pytest.mark.skipif(not CASES.exists(), reason="the shared case table is not beside this checkout")
@pytest.mark.parametrize("case", _cases())
def test_case(case: dict[str, Any]) -> None:
    if reason := SKIPPED.get(case["id"]):
        pytest.skip(reason)
    opts = case["opts"]
    # The engines keep whitespace unless the case says otherwise; Granite 4.2 has no other mode.
    trims = opts.get("ws", "verbatim") != "verbatim" or case["format"] == "think_granite42"
    reasoning = case.get("target_reasoning", case["expected_reasoning"]) or ""
    content = case.get("target_content", case["expected_content"]) or ""
    if opts.get("ws") == "trim_reasoning_end":
        # These trim one side of the close marker only; `template` trims both sides, and those of the open marker.
        reasoning, content = reasoning.strip("\n"), content.lstrip("\n")
    if opts.get("include_reasoning") is False:
        reasoning = None
    record = _record(case)
    assert opts.get("tool_start") in {None, *record.interrupts}
    for chunks in _chunkings(case):
        machine = Machine(
            record, _start(opts), tools="tool_start" in opts, whitespace="template" if trims else "verbatim"
        )
        pieces = [piece for chunk in chunks for piece in machine.feed(chunk)] + machine.finish()
        got = {field: "".join(p.text for p in pieces if p.field is field) for field in Field}
        if case["match"] == "startswith":
            assert got[Field.REASONING].startswith(reasoning)
        elif reasoning is not None:
            assert got[Field.REASONING] == reasoning
        assert got[Field.CONTENT] == content


@pytest.mark.shared
@pytest.mark.skipif(not CASES.exists(), reason="the shared case table is not beside this checkout")
def test_every_skipped_case_exists() -> None:
    assert set(SKIPPED) <= {param.id for param in _cases()}
