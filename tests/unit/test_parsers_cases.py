"""Labelled cases under every chunking: our own, and the shared table of other parsers' behaviour.

Where our answer to a case of the table differs, it stands in `DIFFERENCES` with the reason, and is asserted all the
same: a difference that changes, or that is none any more, fails here.
"""

from pathlib import Path

import pytest

from parsers import FORMATS, Format
from parsers.cases import BadCase, Case, Split, read_cases

OWN = Path(__file__).parents[1] / "parsers" / "cases"
SHARED = Path(__file__).parents[2].parent / "shared" / "cases" / "parsers.jsonl"


def _read(file: Path) -> list[Case]:
    return read_cases(file.read_text(encoding="utf-8").splitlines()) if file.exists() else []


@pytest.mark.parametrize("record", FORMATS, ids=lambda record: record.id)
def test_own_cases(record: Format) -> None:
    cases = _read(OWN / f"{record.id}.jsonl")
    assert len(cases) >= 4
    assert len({case.id for case in cases}) == len(cases)
    assert all(case.format.id == record.id for case in cases)
    failures = [failure for case in cases if (failure := case.run())]
    assert failures == []


def test_every_case_file_belongs_to_a_format() -> None:
    assert {file.stem for file in OWN.glob("*.jsonl")} == {record.id for record in FORMATS}


TEMPLATE = "newlines beside markers are the template's unless a case asks for verbatim text"
STRIPS_BOTH = "the engine strips one side of the close marker; we take the newlines on both, and after the open marker"
APPENDED = "what an append-think parser leaves in the content is split like any other output"
OFF_SPLIT = "thinking off and the model thinks all the same: a leading explicit open marker is split"
SWAP = "reasoning is not taken back once shown: which field a client sees is for those who write the response"
REPEATED = "reasoning is not taken back once shown; asked for, unended reasoning is given once more as content"
FILTER = "a content filter of one family, which a gateway leaves out"

DIFFERENCES: dict[str, tuple[str, str, str]] = {
    "vllm:deepseek_r1.new_line": (TEMPLATE, "This is a reasoning section", "This is the rest"),
    "vllm:deepseek_r1.new_line_streaming": (TEMPLATE, "This is a reasoning section", "This is the rest"),
    "vllm:olmo3.simple_reasoning_with_multiple_newlines": (TEMPLATE, "Look!\nI'm thinking...", "This is the rest"),
    "vllm:qwen3.tool_call_with_think_no_end": (
        TEMPLATE,
        "I need to read the file.",
        "<tool_call>\n<function=bash>\n<parameter=command>\ncat /etc/hosts\n</parameter>\n</function>\n</tool_call>",
    ),
    "vllm:step3p5.new_line_streaming_complex_content": (
        STRIPS_BOTH,
        " This is a \n reasoning section",
        "This is the rest",
    ),
    "vllm:step3p5.newline_before_close_dropped": (STRIPS_BOTH, "Line one.\nLine two.", "The answer."),
    "vllm:minimax_m2_append_think.simple_output": (APPENDED, "This is reasoning", "This is response"),
    "vllm:minimax_m2_append_think.multiple_lines": (APPENDED, "Line 1\nLine 2", "Response 1\nResponse 2"),
    "vllm:minimax_m2_append_think.empty": (APPENDED, "", ""),
    "vllm:minimax_m2_append_think.code_output": (APPENDED, "```python\nprint('hi')\n```", "Here's the code."),
    "vllm:ling3.disabled_keeps_text": (OFF_SPLIT, "reason", "answer"),
    "vllm:plamo3.off_keeps_text": (OFF_SPLIT, "Reasoning.", "Answer."),
    "vllm:nemotron_v3.swap_whitespace_content": (SWAP, "The answer.", "   "),
    "sglang:nemotron_3.force_nonempty_swaps": (SWAP, "All reasoning, no answer", ""),
    "sglang:nemotron_3.force_nonempty_truncated": (
        REPEATED,
        "Truncated reasoning without end token",
        "Truncated reasoning without end token",
    ),
    "llamacpp:Qwen3.5-4B.reasoning_format_none": (SWAP, "I'm\nthinking", "Hello, world!\nWhat's up?"),
    "vllm:minicpmv.off_dangling_close_removed": (FILTER, "", "first part </think>\n\nfinal part"),
    "vllm:cohere_command3.citations_removed": (
        FILTER,
        "This is a rainbow <co>emoji: 🌈</co: 0:[1]>",
        "foo <co>bar</co: 0:[1,2],1:[3,4]>",
    ),
}

needs_table = pytest.mark.skipif(not SHARED.exists(), reason="the shared case table is not beside this checkout")


@pytest.mark.shared
@needs_table
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in _read(SHARED)])
def test_shared_case(case: Case) -> None:
    difference = DIFFERENCES.get(case.id)
    if difference is None:
        assert case.run() is None
        return
    ours = Split(*difference[1:])
    assert not case.matches(ours), "no difference any more"
    for chunks in case.chunkings:
        assert case.split(chunks) == ours


@pytest.mark.shared
@needs_table
def test_the_table_is_whole_and_every_difference_is_one_of_its_cases() -> None:
    ids = {case.id for case in _read(SHARED)}
    assert len(ids) == 241
    assert set(DIFFERENCES) <= ids


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"format": "think"}', '{"id": "a", "format": "x", "output": ""}', '{"id": "a", "format": "think"}'],
)
def test_a_line_that_is_no_case_is_named(line: str) -> None:
    with pytest.raises(BadCase, match="line 2"):
        read_cases(["", line])


def test_ways_to_match() -> None:
    def case(match: str) -> Case:
        return Case({"id": "a", "format": "think", "output": "abc", "match": match, "expected_reasoning": "b"})

    assert case("contains").run() is None
    failure = case("startswith").run()
    assert failure is not None
    assert (failure.got, failure.wanted) == (Split("abc", ""), Split("b", ""))


def test_what_a_case_names_is_resolved() -> None:
    def case(**data: object) -> Case:
        return Case({"id": "a", "output": "", **data})

    assert case(format="think_step").format.id == "step3p5"
    assert case(parser="some:engine_class", format="think_tool").format.id == "qwen3"
    assert case(parser="vllm:kimi_k2", format="think_tool").format.id == "kimi_k2"
    assert case(parser="llamacpp:Qwen3.5-4B", format="think_tool").format.id == "qwen3_thinking"
    assert case(format="olmo3", opts={"tool_start": "<call>"}).format.interrupts == ("<call>",)
    assert case(format="olmo3", opts={"force_nonempty_content": True}).format.on_no_close == "content"
