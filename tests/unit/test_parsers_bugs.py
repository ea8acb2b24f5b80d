"""Public bug reports about reasoning parsing, each by the repository and number it was reported under.

What they show must not happen here, whole or in any chunks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from parsers import ChoiceParser, Field, Piece, Start, lookup, machine_for, read_content, read_reasoning, resolve_start


def split(name: str, text: str | list[str], start: Start | None = None, **options: Any) -> tuple[str, str]:
    """Reasoning and content, the same whole, as given, by character and in threes."""
    record = lookup(name)
    start = start or resolve_start(record, thinking=True)
    given = [text] if isinstance(text, str) else text
    whole = "".join(given)
    results: set[tuple[str, str]] = set()
    for chunks in (given, [whole], list(whole), [whole[at : at + 3] for at in range(0, len(whole), 3)]):
        machine = machine_for(record, start, **options)
        pieces = [piece for chunk in chunks for piece in machine.feed(chunk)] + machine.finish()
        results.add((joined(pieces, Field.REASONING), joined(pieces, Field.CONTENT)))
    assert len(results) == 1
    return results.pop()


def joined(pieces: list[Piece], field: Field) -> str:
    return "".join(piece.text for piece in pieces if piece.field is field)


# A marker split over chunks, several markers in a chunk


@pytest.mark.parametrize("name", ["deepseek_r1", "qwen3", "glm45", "kimi_k2", "minimax_m2", "nemotron_v3"])
def test_bug_sglang_34458_end_marker_in_any_chunking(name: str) -> None:
    text = "<think>abc</think>normal"
    for first in range(len(text)):
        for second in range(first, len(text)):
            chunks = [text[low:high] for low, high in pairwise((0, first, second, len(text)))]
            assert split(name, chunks) == ("abc", "normal")


def test_bug_sglang_35083_text_before_the_open_marker() -> None:
    assert split("glm45", "Sure.<think>checking</think>Done.") == ("checking", "Sure.Done.")
    # A family that writes no second block says the same in every chunking, and loses nothing.
    assert split("qwen3", "Sure.<think>checking</think>Done.") == ("", "Sure.<think>checking</think>Done.")


def test_bug_smg_1751_partial_marker_after_text() -> None:
    assert split("think", ["<think>abc", "def</th", "ink> answer"]) == ("abcdef", " answer")


def test_bug_lmdeploy_4754_close_marker_in_two_chunks() -> None:
    machine = machine_for(lookup("deepseek_r1"), Start.OPEN)
    assert machine.feed("thought</th") == [Piece(Field.REASONING, "thought")]
    assert machine.feed("ink>answer") == [Piece(Field.CONTENT, "answer")]


def test_bug_vllm_43933_one_delta_becomes_two() -> None:
    pieces = machine_for(lookup("deepseek_r1"), Start.OPEN).feed(" thought.</think>Answer starts.")
    assert pieces == [Piece(Field.REASONING, " thought."), Piece(Field.CONTENT, "Answer starts.")]


def test_bug_sglang_22902_gemma_channel_markers_are_not_shown() -> None:
    assert split("gemma4", ["<|channel>", "thought\n", "<channel|>", "Hi"]) == ("", "Hi")


def test_bug_localai_9658_reasoning_is_told_as_it_arrives() -> None:
    machine = machine_for(lookup("qwen3"), Start.CLOSED)
    assert machine.feed("<think>") == []
    assert machine.feed("Okay") == [Piece(Field.REASONING, "Okay")]


# Literal markers, repeated markers, a second block


def test_bug_llamacpp_27661_quoted_close_marker() -> None:
    text = "controls the ` \n</think>\n` block; more…</think>answer"
    assert split("qwen3_thinking", text) == ("controls the ` ", "` block; more…</think>answer")


def test_bug_vllm_48971_markers_in_an_olmo3_answer() -> None:
    text = "<think>r</think>Use <think> tags like </think>."
    assert split("olmo3", text) == ("r", "Use <think> tags like </think>.")


def test_bug_vllm_44898_minimax_repeats_its_close_marker() -> None:
    assert split("minimax_m2", "r</think>part one</think>part two") == ("r", "part onepart two")
    assert split("deepseek_r1", "r</think>part one</think>part two") == ("r", "part one</think>part two")


def test_bug_unsloth_9107_markers_in_an_example_are_content() -> None:
    assert split("qwen3", "Use <think>like this</think>") == ("", "Use <think>like this</think>")


def test_bug_vllm_51679_reasoning_is_split_before_tools() -> None:
    assert split("qwen3", "<think>r</think><tool_call>{}", tools=True) == ("r", "<tool_call>{}")


# Which state the output starts in


def off(name: str) -> Start:
    return resolve_start(lookup(name), thinking=False)


def test_bug_vllm_19222_answer_with_thinking_off() -> None:
    assert split("qwen3", '{"a":1}', off("qwen3")) == ("", '{"a":1}')


def test_bug_vllm_37414_streamed_answer_with_thinking_off() -> None:
    assert split("qwen3_5", ["The answer", " is 4."], off("qwen3_5")) == ("", "The answer is 4.")


def test_bug_modelship_130_default_of_the_template() -> None:
    start = resolve_start(lookup("gemma4"), thinking=None)
    assert start is Start.OFF
    assert split("gemma4", "Hello", start) == ("", "Hello")


def test_bug_vllm_54825_model_without_an_off_switch() -> None:
    assert split("glm53", "r</think>answer", off("glm53")) == ("r", "answer")


def test_bug_mlxcel_1553_start_from_the_record_or_the_prompt() -> None:
    text = "We need to compute …</think>391"
    assert split("deepseek_v4", text) == ("We need to compute …", "391")
    told = resolve_start(lookup("deepseek_v3"), thinking=None, prompt_tail="…<｜Assistant｜><think>")
    assert split("deepseek_v3", text, told) == ("We need to compute …", "391")


def test_bug_skales_166_only_the_close_marker() -> None:
    assert split("deepseek_r1", "thoughts</think>answer") == ("thoughts", "answer")


def test_bug_ik_llamacpp_776_only_the_close_marker_of_a_prompted_qwen() -> None:
    assert split("qwen3_thinking", "thoughts\n</think>\n\nanswer") == ("thoughts", "answer")


def test_bug_vllm_39885_markers_of_earlier_turns() -> None:
    prompt = "<|turn>model\n<|channel>thought\nold<channel|>call<turn|>\n<|turn>user\nresult<turn|>\n<|turn>model\n"
    start = resolve_start(lookup("gemma4"), thinking=True, prompt_tail=prompt)
    assert start is Start.CLOSED
    assert split("gemma4", "<|channel>thought\nnew<channel|>answer", start) == ("new", "answer")


def test_bug_vllm_37397_nothing_said_of_thinking() -> None:
    assert resolve_start(lookup("kimi_k25"), thinking=None) is Start.OPEN


# Split by the engine already


def split_by_engine(splits: bool | None) -> list[Piece]:
    parser = ChoiceParser(lookup("deepseek_r1"), Start.OPEN, engine_splits=splits)
    return parser.feed(reasoning="r") + parser.feed(content="a") + parser.finish()


def test_bug_dynamo_7358_split_twice_though_the_engine_is_unknown() -> None:
    assert split_by_engine(None) == [Piece(Field.REASONING, "r"), Piece(Field.CONTENT, "a")]


def test_bug_rapid_mlx_288_split_twice_though_the_engine_is_known() -> None:
    assert split_by_engine(True) == [Piece(Field.REASONING, "r"), Piece(Field.CONTENT, "a")]


def test_bug_mlx_vlm_1408_either_name_is_read() -> None:
    assert read_reasoning({"reasoning": "x"}) == read_reasoning({"reasoning_content": "x"}) == "x"


def test_bug_odysseus_591_reasoning_beside_empty_content() -> None:
    delta = {"content": "", "reasoning": "We"}
    assert (read_reasoning(delta), read_content(delta)) == ("We", None)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking"])
def test_bug_litellm_8799_no_field_is_lost(field: str) -> None:
    assert read_reasoning({field: "r"}) == "r"


def test_bug_litellm_15233_the_same_split_streamed_or_not() -> None:
    assert split("qwen3", ["<think>", "r", "</think>", "a"]) == split("qwen3", "<think>r</think>a") == ("r", "a")


def test_bug_llama_index_20456_mistral_chunks() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}
    delta = {"content": [thought, {"type": "text", "text": "a"}]}
    assert (read_reasoning(delta), read_content(delta)) == ("r", "a")


def test_bug_llamacpp_13867_reasoning_is_split_while_streaming() -> None:
    assert machine_for(lookup("qwen3"), Start.CLOSED).feed("<think>Okay") == [Piece(Field.REASONING, "Okay")]


def test_bug_qwen3_1755_newlines_before_a_tool_call() -> None:
    text = "<think>r</think>\n\n<tool_call>{}"
    assert split("qwen3", text, tools=True) == ("r", "<tool_call>{}")


# Harmony


def test_bug_vllm_46464_unexpected_token_in_a_header() -> None:
    text = "<|channel|>analysis<|return|>lost words<|start|>assistant<|channel|>final<|message|>4<|return|>"
    assert split("harmony", text) == ("", "lost words4")


def test_bug_open_webui_23343_control_tokens_never_reach_the_content() -> None:
    assert split("harmony", "<think<|message|>hello") == ("", "<thinkhello")


def test_bug_vllm_41902_output_that_ends_inside_a_header() -> None:
    assert split("harmony", "<|channel|>analysis") == ("", "<|channel|>analysis")


# Structured output, usage, replay


def test_bug_vllm_16182_json_is_the_answer() -> None:
    text = '{"name": "Ethan", "age": 28}'
    assert split("deepseek_r1", text, structured=True) == ("", text)


def test_bug_vllm_50948_grammar_from_the_first_token() -> None:
    text = '\n{"a":1}'
    assert split("qwen3_thinking", text, structured=True) == ("", text)
    assert split("qwen3_thinking", "One." + "</think>" + text, structured=True) == ("One.", text[1:])


def test_bug_vllm_44398_reasoning_counts_from_the_start() -> None:
    machine = machine_for(lookup("deepseek_r1"), Start.OPEN)
    assert machine.field is Field.REASONING
    machine.feed("r</think>a")
    assert machine.field is Field.CONTENT


def test_bug_hermes_webui_2565_one_buffer_a_choice() -> None:
    first, second = (ChoiceParser(lookup("deepseek_r1"), Start.OPEN) for _ in range(2))
    first.feed(content="one</think>1")
    second.feed(content="two</think>2")
    assert (first.consumed, second.consumed) == ("one</think>1", "two</think>2")
