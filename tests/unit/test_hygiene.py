"""What may travel from a client to an engine, and the prompt rules of some models."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config import R1_HYGIENE, Hygiene
from gateway.edge.errors import ApiError
from gateway.edge.hygiene import FORBIDDEN, STRIPPED, apply, checked, fold_system, hygiene_for


@pytest.mark.parametrize("field", sorted(FORBIDDEN))
def test_a_dangerous_field_is_refused_by_name_whatever_its_value(field: str) -> None:
    for value in ({}, None, "x"):
        with pytest.raises(ApiError) as caught:
            checked({"model": "m", field: value})
        error = caught.value
        assert (error.status, error.param, error.code) == (400, field, "forbidden_field")


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("vllm_xargs", "kv_transfer_params"),
        ("vllm_xargs", "ec_transfer_params"),
        ("chat_template_kwargs", "chat_template"),
    ],
)
def test_a_dangerous_field_is_found_inside_others(outer: str, inner: str) -> None:
    with pytest.raises(ApiError) as caught:
        checked({outer: {inner: 1}})
    assert caught.value.param == f"{outer}.{inner}"
    assert checked({outer: {"mine": 1}}) == {outer: {"mine": 1}}
    assert checked({outer: "no object"}) == {outer: "no object"}


def test_what_is_the_operators_is_taken_out_in_silence() -> None:
    body = {"model": "m", **dict.fromkeys(STRIPPED, 1)}
    assert checked(body) == {"model": "m"}
    assert set(body) >= STRIPPED, "the client's own body is not changed"


def test_the_rules_of_a_model_are_known_by_its_name() -> None:
    for name in ("deepseek-ai/DeepSeek-R1-0528", "r1-distill-qwen-7b"):
        assert hygiene_for(name, "auto") == R1_HYGIENE
        assert hygiene_for(name, "none") == Hygiene()
    assert hygiene_for("qwen3-8b", "auto") == Hygiene()
    own = Hygiene(temperature=1.0)
    assert hygiene_for("deepseek-r1", own) is own


def test_rules_fill_in_what_the_client_left_out() -> None:
    body: dict[str, Any] = {
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "top_p": 0.5,
    }
    messages = body["messages"]
    apply(body, R1_HYGIENE)
    assert body == {"messages": [{"role": "user", "content": "s\n\nu"}], "top_p": 0.5, "temperature": 0.6}
    assert messages[1] == {"role": "user", "content": "u"}, "the client's own messages are not changed"


def test_no_rules_change_nothing() -> None:
    body: dict[str, Any] = {"messages": [{"role": "system", "content": "s"}]}
    apply(body, Hygiene())
    assert body == {"messages": [{"role": "system", "content": "s"}]}


S, D = {"role": "system", "content": "s"}, {"role": "developer", "content": "d"}
U, A, V = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "v"}
PARTS = [{"type": "text", "text": "one"}, {"type": "image_url"}, {"type": "text", "text": "two"}]


@pytest.mark.parametrize(
    ("messages", "folded"),
    [
        ([U, A], [U, A]),
        ([S, U], [{"role": "user", "content": "s\n\nu"}]),
        ([S, D, U, A, V], [{"role": "user", "content": "s\n\nd\n\nu"}, A, V]),
        ([U, A, S, V], [{"role": "user", "content": "s\n\nu"}, A, V]),
        ([S, A], [{"role": "user", "content": "s"}, A]),
        ([S], [{"role": "user", "content": "s"}]),
        (
            [S, {"role": "user", "content": PARTS}],
            [{"role": "user", "content": [{"type": "text", "text": "s\n\n"}, *PARTS]}],
        ),
        ([{"role": "system", "content": PARTS}, U], [{"role": "user", "content": "one\ntwo\n\nu"}]),
        ([S, {"role": "user", "content": None}], [{"role": "user", "content": "s"}]),
        ([{"role": "system", "content": ""}, U], [U]),
        (
            [{"role": "system", "content": None}, {"role": "user", "content": PARTS}],
            [{"role": "user", "content": PARTS}],
        ),
        ([S, {"role": "user", "content": "u", "name": "n"}], [{"role": "user", "content": "s\n\nu", "name": "n"}]),
    ],
)
def test_system_messages_move_to_the_first_user_turn(
    messages: list[dict[str, Any]], folded: list[dict[str, Any]]
) -> None:
    assert fold_system(messages) == folded
