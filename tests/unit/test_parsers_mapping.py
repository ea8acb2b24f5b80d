"""A user's format from plain data: what is read, and how a mistake is told."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import BadFormat, Field, Format, Start, format_from_mapping, lookup, machine_for


def test_a_format_without_code() -> None:
    record = format_from_mapping(
        {
            "id": "house",
            "models": "Our own",
            "open": "[[",
            "close": ["]]", "]>"],
            "start": "closed",
            "switch": ["thinking_mode"],
            "switch_on": "deep",
            "switch_off": "none",
            "default_on": False,
            "spans": [["{{", "}}"]],
            "reopen": True,
            "whitespace": "verbatim",
        }
    )
    assert record.open == ("[[",)
    assert record.spans == (("{{", "}}"),)
    assert record.switch_kwargs(True) == {"thinking_mode": "deep"}
    assert record.switch_kwargs(False) == {"thinking_mode": "none"}
    machine = machine_for(record, Start.CLOSED)
    pieces = machine.feed("[[a{{b}}c]>") + machine.feed("d")
    assert [(piece.field, piece.text) for piece in pieces] == [
        (Field.REASONING, "a"),
        (Field.CONTENT, "{{b}}"),
        (Field.REASONING, "c"),
        (Field.CONTENT, "d"),
    ]


def test_a_base_record_is_taken_but_for_its_names() -> None:
    record = format_from_mapping({"id": "hy_new", "base": "hy-v3", "open": "<think:ab>", "close": "</think:ab>"})
    base = lookup("hy_v3")
    assert (record.interrupts, record.switch_kwargs(False)) == (base.interrupts, {"reasoning_effort": "no_think"})
    assert (record.open, record.aliases) == (("<think:ab>",), ())


def test_a_framed_base_keeps_its_framing() -> None:
    record = format_from_mapping({"id": "oss", "base": "harmony", "default_on": True})
    assert record.framing is lookup("harmony").framing


def test_a_checkpoints_response_template() -> None:
    record = format_from_mapping(
        {
            "id": "kolibri",
            "response_template": {
                "thinking": {"open": "<t>", "close": "</t>"},
                "content": {"open": "<a>", "close": ["</a>"]},
                "tool_calls": {"open": "<call>"},
            },
        }
    )
    assert (record.open, record.close) == (("<t>",), ("</t>",))
    assert (record.content_open, record.drop, record.interrupts) == (("<a>",), ("</a>",), ("<call>",))
    pieces = machine_for(record, Start.OPEN).feed("a</t><a>b</a>")
    assert "".join(piece.text for piece in pieces if piece.field is Field.CONTENT) == "b"


GOOD: dict[str, object] = {"id": "x", "open": "<a>", "close": "</a>"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "'id' must be a name"),
        ({"id": " "}, "'id' must be a name"),
        ({"clsoe": "x"}, "unknown key 'clsoe'; did you mean 'close'?"),
        ({"framing": "harmony"}, "unknown key 'framing'"),
        ({1: "x"}, "unknown key 1"),
        ({"open": []}, "'open' and 'close' are needed both, or neither"),
        ({"open": 3}, "'open' must be text or a list of texts, not 3"),
        ({"open": ["<a>", None]}, "'open' must hold texts only, not None"),
        ({"open": ""}, "'open' holds a marker without a visible character"),
        ({"close": ["\n"]}, "'close' holds a marker without a visible character"),
        ({"close": "<a>"}, "the marker '<a>' stands in both 'open' and 'close'"),
        ({"interrupts": "</a>"}, "the marker '</a>' stands in both 'close' and 'interrupts'"),
        ({"start": "inside"}, "'start' must be open or closed, not 'inside'"),
        ({"start": ["open"]}, "'start' must be open or closed"),
        ({"whitespace": True}, "'whitespace' must be template or verbatim, not True"),
        ({"reopen": "yes"}, "'reopen' must be true or false, not 'yes'"),
        ({"switch_on": None}, "'switch_on' must be true, false, a number or a word, not None"),
        ({"spans": [["a"]]}, "'spans' must be a list of pairs of markers"),
        ({"spans": "ab"}, "'spans' must be a list of pairs of markers"),
        ({"open_label": 1}, "'open_label' must be text, not 1"),
        ({"base": 1}, "'base' must be the name of a format"),
        ({"base": "qwen-3"}, "'base': unknown reasoning format 'qwen-3'; nearest: qwen3"),
        ({"response_template": "x"}, "'response_template' must be a mapping of fields"),
        ({"response_template": {"thinking": "x"}}, "'response_template.thinking' must be a mapping"),
        ({"response_template": {"thinking": {"open": "<t>"}}}, "'response_template.thinking.close' is needed"),
        ({"response_template": {"thinking": {"open": 1}}}, "'response_template.thinking.open' must be text"),
    ],
)
def test_mistakes_are_told_by_key(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadFormat) as caught:
        format_from_mapping({**GOOD, **change})
    assert message in str(caught.value)


def test_markers_or_a_base_are_needed() -> None:
    with pytest.raises(BadFormat, match="'open' and 'close' are needed, or a 'base'"):
        format_from_mapping({"id": "x"})


keys = st.sampled_from([*(field.name for field in fields(Format)), "base", "response_template", "x"])
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.sampled_from(["open", "drop", "qwen3"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=6,
)


@given(st.dictionaries(keys, values, max_size=6))
def test_any_data_is_a_format_or_a_mistake_told(data: dict[str, object]) -> None:
    try:
        record = format_from_mapping({**GOOD, **data})
    except BadFormat:
        return
    machine = machine_for(record, Start.CLOSED, tools=True)
    machine.feed("<a>b</a>c")
    machine.finish()
