"""The machine by behaviour: one name an edge case, each run whole and one character at a time."""

from dataclasses import replace

import pytest

from parsers import BLANKS_HELD, NONE, Field, Format, Machine, Piece, Start, Whitespace, lookup

THINK = lookup("think")
QWEN3 = lookup("qwen3")
GLM = lookup("glm47")
MINIMAX = lookup("minimax_m2")


def split(
    text: str,
    *,
    record: Format = THINK,
    start: Start = Start.OPEN,
    tools: bool = False,
    whitespace: Whitespace = "template",
) -> tuple[str, str]:
    results: list[tuple[str, str]] = []
    for size in (max(1, len(text)), 1):
        machine = Machine(record, start, tools=tools, whitespace=whitespace)
        pieces = [p for at in range(0, len(text), size) for p in machine.feed(text[at : at + size])]
        pieces += machine.finish()
        assert all(p.text for p in pieces)
        assert machine.consumed == text
        results.append((_text(pieces, Field.REASONING), _text(pieces, Field.CONTENT)))
    assert results[0] == results[1]
    return results[0]


def _text(pieces: list[Piece], field: Field) -> str:
    return "".join(piece.text for piece in pieces if piece.field is field)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("\n\na\n\nb\n\n</think>\n\nc\n", ("a\n\nb", "c\n"), id="newlines at markers belong to them"),
        pytest.param("a \n</think> \nb", ("a ", " \nb"), id="other blanks are text"),
        pytest.param("<think>\n\n</think>\n\nc", ("", "c"), id="a block of newlines is no reasoning"),
        pytest.param("", ("", ""), id="nothing"),
        pytest.param("</think>c", ("", "c"), id="closed at once"),
        pytest.param("a\n\n", ("a\n\n", ""), id="cut in thought: newlines at the end are text"),
        pytest.param("a</thi", ("a</thi", ""), id="cut in a marker: it is text"),
        pytest.param("<thi", ("<thi", ""), id="cut in the first marker"),
        pytest.param("<think>a</think>b", ("a", "b"), id="open marker though the prompt holds one"),
        pytest.param(" \n<think> \n<think>\na</think>b", ("a", "b"), id="repeated leading open markers"),
        pytest.param("Sure.<think>\nx</think>y", ("Sure.x", "y"), id="text before an emitted open marker is kept"),
        pytest.param("<think>a<think>b</think>c", ("a<think>b", "c"), id="open marker inside an opened block is text"),
        pytest.param("say `</think>` twice</think>c", ("say `", "` twice</think>c"), id="first close marker wins"),
        pytest.param("a</think>b</think>c", ("a", "b</think>c"), id="close marker in the answer is kept"),
        pytest.param("a</think>Use <think>x</think>.", ("a", "Use <think>x</think>."), id="second block is text"),
        pytest.param("a<b</think>c<d", ("a<b", "c<d"), id="less-than signs are text"),
        pytest.param("<<think>a</think>b", ("<a", "b"), id="half a marker before a marker"),
        pytest.param("삼성\U0001f600</think>전자", ("삼성\U0001f600", "전자"), id="text beyond ASCII"),
    ],
)
def test_output_that_starts_inside_reasoning(text: str, expected: tuple[str, str]) -> None:
    assert split(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("<think>\na\n</think>\n\nb", ("a", "b"), id="the model opens the block"),
        pytest.param("\n<think>a</think>b", ("a", "b"), id="blanks before the open marker vanish"),
        pytest.param("\n\n Hi", ("", "\n\n Hi"), id="blanks before an answer stay"),
        pytest.param("Hi <think>a</think>", ("", "Hi <think>a</think>"), id="a marker after text is text"),
        pytest.param("</think>\n\nb", ("", "b"), id="a leading stray close marker vanishes"),
        pytest.param("</think>b</think>c", ("", "b</think>c"), id="only the first, only at the beginning"),
        pytest.param("<this", ("", "<this"), id="almost a marker"),
        pytest.param("  ", ("", "  "), id="nothing but blanks"),
        pytest.param("<think>a", ("a", ""), id="cut in thought"),
    ],
)
def test_output_that_starts_outside(text: str, expected: tuple[str, str]) -> None:
    assert split(text, start=Start.CLOSED) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("</think>b", ("", "</think>b"), id="a close marker is text"),
        pytest.param("a</think>b<think>c", ("", "a</think>b<think>c"), id="nothing in the text counts"),
        pytest.param("<think>a</think>b", ("a", "b"), id="the model thinks all the same"),
        pytest.param("\nHi", ("", "\nHi"), id="leading newline stays"),
    ],
)
def test_thinking_off(text: str, expected: tuple[str, str]) -> None:
    for record in (QWEN3, replace(QWEN3, reopen=True)):
        assert split(text, record=record, start=Start.OFF) == expected


def test_a_model_that_does_not_think_is_never_touched() -> None:
    for start in Start:
        assert split("\n<think>a</think>\n\nb", record=NONE, start=start) == ("", "\n<think>a</think>\n\nb")


def test_verbatim_keeps_newlines_at_markers() -> None:
    text = "<think>\na\n</think>\n\nb\n"
    assert split(text, whitespace="verbatim") == ("\na\n", "\n\nb\n")
    assert split("\n<think>a</think>b", whitespace="verbatim") == ("a", "b")


def test_second_block_reopens_where_the_format_says_so() -> None:
    assert split("a</think>b\n<think>\nc\n</think>\nd", record=GLM) == ("ac", "b\nd")
    assert split("Sure.<think>x</think>y", record=GLM, start=Start.CLOSED) == ("x", "Sure.y")


def test_repeated_close_marker_is_dropped_where_the_model_repeats_it() -> None:
    assert split("r</think>one</think>\ntwo", record=MINIMAX) == ("r", "one\ntwo")


def test_tool_marker_ends_reasoning_and_stays_in_the_content() -> None:
    text = "I look.\n<tool_call>\n{}</tool_call>"
    assert split(text, record=QWEN3, tools=True) == ("I look.", "<tool_call>\n{}</tool_call>")
    assert split("<tool_call>{}", record=QWEN3, tools=True) == ("", "<tool_call>{}")


def test_tool_marker_is_prose_without_tools() -> None:
    text = "A <tool_call> is a tag.</think>Yes."
    assert split(text, record=QWEN3) == ("A <tool_call> is a tag.", "Yes.")


def test_only_the_outer_tool_wrapper_interrupts() -> None:
    text = '<｜DSML｜invoke name="x">y</think>z'
    assert split(text, record=lookup("deepseek_v4"), tools=True) == ('<｜DSML｜invoke name="x">y', "z")


def test_newlines_between_reasoning_and_a_tool_call_vanish() -> None:
    text = "r</think>\n\n<tool_call>{}"
    assert split(text, record=QWEN3, tools=True) == ("r", "<tool_call>{}")


def test_longest_marker_wins_though_a_shorter_one_ends_the_chunk() -> None:
    record = replace(THINK, open=("<|c|>", "<|c|>thought\n"), start="closed")
    assert split("<|c|>thought\na</think>b", record=record, start=Start.CLOSED) == ("a", "b")
    assert split("<|c|>tho", record=record, start=Start.CLOSED) == ("tho", "")


def test_text_flows_as_it_arrives() -> None:
    machine = Machine(THINK, Start.OPEN)
    assert machine.feed("We") == [Piece(Field.REASONING, "We")]
    assert machine.feed(" see.\n") == [Piece(Field.REASONING, " see.")]
    assert machine.feed("</thi") == []
    assert machine.field is Field.REASONING
    assert machine.feed("nk>\nYes") == [Piece(Field.CONTENT, "Yes")]
    assert machine.field is Field.CONTENT
    assert machine.finish() == []


def test_pieces_of_one_delta_keep_their_order() -> None:
    pieces = Machine(GLM, Start.OPEN).feed("a</think>b<think>c</think>d")
    assert [(p.field.value[0], p.text) for p in pieces] == [("r", "a"), ("c", "b"), ("r", "c"), ("c", "d")]


def test_a_continued_generation_feeds_the_same_machine() -> None:
    machine = Machine(THINK, Start.OPEN)
    pieces = machine.feed("thought\n")
    pieces += machine.feed("\n</think>\n\n")  # what the gateway wrote to end the thought
    pieces += machine.feed("answer")
    assert pieces == [Piece(Field.REASONING, "thought"), Piece(Field.CONTENT, "answer")]
    assert machine.consumed == "thought\n\n</think>\n\nanswer"


def test_a_loop_of_newlines_stays_visible() -> None:
    machine = Machine(THINK, Start.OPEN)
    machine.feed("a")
    shown = sum(len(p.text) for _ in range(1000) for p in machine.feed("\n"))
    assert shown == 1000 - BLANKS_HELD


def test_a_loop_of_blanks_at_the_beginning_stays_visible() -> None:
    machine = Machine(QWEN3, Start.CLOSED)
    shown = sum(len(p.text) for _ in range(1000) for p in machine.feed(" "))
    assert shown == 1000


@pytest.mark.parametrize("unit", ["<", "</think", "\n", "<think>", "</think>", "<think></think>", "\n<"])
@pytest.mark.parametrize("record", [GLM, MINIMAX, lookup("pangu")], ids=lambda f: f.id)
@pytest.mark.parametrize("start", [Start.OPEN, Start.CLOSED])
def test_hostile_text_costs_no_more_than_its_length(unit: str, record: Format, start: Start) -> None:
    text = unit * (200_000 // len(unit))
    whole = Machine(record, start, tools=True)
    expected = whole.feed(text) + whole.finish()
    machine = Machine(record, start, tools=True)
    pieces: list[Piece] = []
    scanned = 0
    for at in range(0, 20_000, 7):
        scanned += 7 + len(machine._held)  # all a feed looks at
        pieces += machine.feed(text[at : at + 7])
    assert scanned <= 20_000 * (1 + (BLANKS_HELD + 32) / 7)
    pieces += machine.feed(text[len(machine.consumed) :]) + machine.finish()
    for field in Field:
        assert _text(pieces, field) == _text(expected, field)
