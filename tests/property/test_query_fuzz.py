"""Any JSON body becomes a Query or a 400 in OpenAI's shape, and what travels on can be written as JSON again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.intent import TOP_LEVEL_FIELDS
from gateway.config import ReasoningOutput
from gateway.edge.errors import ApiError
from gateway.edge.hygiene import FORBIDDEN, STRIPPED, fold_system
from gateway.query import Query, read_chat

KNOWN = ["model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "tools"]
FIELDS = [*KNOWN, *sorted(TOP_LEVEL_FIELDS), "chat_template_kwargs", "vllm_xargs", "mine", "priority", "rid"]
INNER = [
    "type",
    "role",
    "content",
    "text",
    "effort",
    "max_tokens",
    "enabled",
    "include_usage",
    "thinking",
    "chat_template",
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["user", "system", "text", "enabled", "high", "none", "", "m", "😀"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(INNER), inner, max_size=3)),
    max_leaves=8,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", "developer"])},
        optional={"content": st.one_of(st.text(max_size=4), st.none(), st.lists(values, max_size=2))},
    ),
    min_size=1,
    max_size=3,
)
valid = st.fixed_dictionaries({"model": st.just("m"), "messages": messages})
extra = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)
bodies = st.one_of(extra, st.tuples(valid, extra).map(lambda pair: {**pair[0], **pair[1]}))


def read(raw: bytes) -> Query | ApiError:
    try:
        return read_chat(raw, output=ReasoningOutput.REASONING, request_id="r", caller="k")
    except ApiError as error:
        return error


def assert_shape(error: ApiError) -> None:
    assert error.status == 400
    shape = json.loads(error.body())
    assert set(shape) == {"error"}
    assert set(shape["error"]) == {"message", "type", "param", "code"}
    assert shape["error"]["message"]
    assert shape["error"]["type"] == "invalid_request_error"


@settings(max_examples=500, deadline=None)
@given(bodies)
def test_any_body_is_a_query_or_a_400(body: dict[str, Any]) -> None:
    found = read(json.dumps(body).encode())
    if isinstance(found, ApiError):
        assert_shape(found)
        return
    assert found.model
    assert found.messages
    assert found.limit is None or found.limit >= 1
    assert 1 <= found.choices <= 128
    assert not (FORBIDDEN | STRIPPED) & set(found.body)
    for name in set(body) - STRIPPED:
        assert found.body[name] == body[name]
    assert json.loads(msgspec.json.encode(found.body)) == found.body


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=30), bodies.map(lambda body: json.dumps(body).encode()[:-1])))
def test_any_bytes_are_a_query_or_a_400(raw: bytes) -> None:
    found = read(raw)
    if isinstance(found, ApiError):
        assert_shape(found)


@settings(max_examples=200, deadline=None)
@given(messages)
def test_folding_leaves_no_system_message_and_loses_no_other(found: list[dict[str, Any]]) -> None:
    folded = fold_system(found)
    roles = [message["role"] for message in found if message["role"] not in {"system", "developer"}]
    kept = [message["role"] for message in folded]
    assert kept == roles or (kept == ["user", *roles] and "user" not in roles)
    assert fold_system(folded) == folded
