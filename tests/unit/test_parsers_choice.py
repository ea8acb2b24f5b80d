"""Who splits: the engine or the machine; and reading the engine's field."""

import pytest

from parsers import ChoiceParser, Field, Piece, Start, lookup, read_content, read_reasoning

THINK = lookup("think")


def r(text: str) -> Piece:
    return Piece(Field.REASONING, text)


def c(text: str) -> Piece:
    return Piece(Field.CONTENT, text)


@pytest.mark.parametrize("start", list(Start))
@pytest.mark.parametrize("engine_splits", [None, True])
def test_what_the_engine_split_is_not_parsed_again(start: Start, engine_splits: bool | None) -> None:
    parser = ChoiceParser(THINK, start, engine_splits=engine_splits)
    assert parser.feed(content="") == []
    assert parser.feed(reasoning="", content=None) == []
    assert parser.feed(reasoning="a\n</think>") == [r("a\n</think>")]
    assert parser.field is Field.REASONING
    assert parser.feed(reasoning="b", content="<think>c") == [r("b"), c("<think>c")]
    assert parser.field is Field.CONTENT
    assert parser.feed(content="\n</think>d") == [c("\n</think>d")]
    assert parser.feed() == []
    assert parser.finish() == []
    assert parser.passing
    assert parser.consumed is None


def test_splitting_engine_that_answers_without_a_thought() -> None:
    parser = ChoiceParser(THINK, Start.OPEN, engine_splits=True)
    assert parser.feed(content="\n") == []
    assert parser.feed(content="Yes") == [c("\nYes")]
    assert parser.passing
    assert parser.feed(content="</think>.") == [c("</think>.")]
    assert parser.feed(reasoning="late") == [r("late")]
    assert parser.finish() == []


def test_splitting_engine_that_leaves_the_markers_in_the_content() -> None:
    parser = ChoiceParser(THINK, Start.OPEN, engine_splits=True)
    assert parser.feed(content="<thi") == []
    assert parser.feed(content="nk>a</think>b") == [r("a"), c("b")]
    assert parser.consumed == "<think>a</think>b"
    assert not parser.passing


def test_unknown_engine_is_parsed_until_it_shows_that_it_splits() -> None:
    parser = ChoiceParser(THINK, Start.OPEN)
    assert parser.feed(content="a</think>b") == [r("a"), c("b")]
    assert parser.field is Field.CONTENT
    assert parser.consumed == "a</think>b"


def test_what_was_withheld_comes_before_the_engines_first_reasoning() -> None:
    parser = ChoiceParser(THINK, Start.CLOSED)
    assert parser.feed(content=" ") == []
    assert parser.feed(reasoning="a") == [c(" "), r("a")]


def test_engine_that_does_not_split_is_always_parsed() -> None:
    parser = ChoiceParser(THINK, Start.OPEN, engine_splits=False)
    assert parser.feed(reasoning="a", content="b</think>c") == [r("a"), r("b"), c("c")]
    assert parser.feed(content="d") == [c("d")]
    assert parser.finish() == []
    assert not parser.passing


def test_what_is_withheld_comes_at_the_end() -> None:
    parser = ChoiceParser(THINK, Start.OPEN)
    assert parser.feed(content="a\n<") == [r("a")]
    assert parser.finish() == [r("\n<")]


def test_tools_and_whitespace_reach_the_machine() -> None:
    parser = ChoiceParser(lookup("qwen3"), Start.OPEN, tools=True, whitespace="verbatim")
    assert parser.feed(content="a\n<tool_call>") == [r("a\n"), c("<tool_call>")]


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ({"content": "a"}, None),
        ({"reasoning_content": None, "content": "a"}, None),
        ({"reasoning_content": "", "reasoning": ""}, None),
        ({"reasoning_content": "r"}, "r"),
        ({"reasoning": "r", "content": ""}, "r"),
        ({"reasoning_content": "r", "reasoning": "r", "reasoning_details": [{"text": "r"}]}, "r"),
        ({"reasoning_content": "", "reasoning": "r"}, "r"),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "a"}, {"text": "b"}]}, "ab"),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}, "y", {"text": None}]}, None),
        ({"reasoning_details": [], "thinking": "r"}, "r"),
        ({"reasoning": {"effort": "low"}, "thinking": ["r"]}, None),
    ],
)
def test_reading_the_engines_field(delta: dict[str, object], text: str | None) -> None:
    assert read_reasoning(delta) == text


def chunk(kind: str, **fields: object) -> dict[str, object]:
    return {"type": kind, **fields}


@pytest.mark.parametrize(
    ("content", "reasoning", "answer"),
    [
        ("a", None, "a"),
        ("", None, None),
        (None, None, None),
        ([], None, None),
        ([chunk("text", text="a")], None, "a"),
        ([chunk("thinking", thinking=[chunk("text", text="r"), chunk("text", text="s")])], "rs", None),
        ([chunk("thinking", thinking="r"), chunk("text", text="a"), chunk("text", text="b")], "r", "ab"),
        ([chunk("reasoning", text="r"), chunk("text", text="a")], "r", "a"),
        ([chunk("thinking", thinking=None), chunk("text", text=1), "x", 3, chunk("image_url")], None, None),
        ({"type": "text", "text": "a"}, None, None),
    ],
)
def test_reading_content_chunks(content: object, reasoning: str | None, answer: str | None) -> None:
    delta: dict[str, object] = {"content": content}
    assert (read_reasoning(delta), read_content(delta)) == (reasoning, answer)


def test_a_named_field_comes_before_the_chunks() -> None:
    delta = {"reasoning": "r", "content": [chunk("thinking", thinking="r"), chunk("text", text="a")]}
    assert (read_reasoning(delta), read_content(delta)) == ("r", "a")


@pytest.mark.parametrize("engine_splits", [None, False])
def test_framed_output_goes_through_the_framed_machine(engine_splits: bool | None) -> None:
    parser = ChoiceParser(lookup("harmony"), Start.CLOSED, engine_splits=engine_splits)
    assert parser.feed(content="<|channel|>analysis<|message|>a<|end|>") == [r("a")]
    assert parser.feed(content="<|start|>assistant<|channel|>final<|message|>b") == [c("b")]
    assert parser.consumed is not None


def test_a_splitting_engine_with_a_framed_model() -> None:
    parser = ChoiceParser(lookup("harmony"), Start.CLOSED, engine_splits=True)
    assert parser.feed(content="Use <|end|>") == [c("Use <|end|>")]
    assert parser.passing


def test_structured_reaches_the_machine() -> None:
    parser = ChoiceParser(THINK, Start.OPEN, structured=True)
    assert parser.feed(content='{"a"') == [c('{"a"')]
