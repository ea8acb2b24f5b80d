"""Whatever a body says of thinking: an Intent or an IntentError, and a body cleaned of it and of nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from budgets import Intent, IntentError, Mode, read_intent, without_thinking_fields
from budgets.intent import LEVELS, TEMPLATE_FIELDS, TOP_LEVEL_FIELDS

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.floats(),
    st.sampled_from([*LEVELS, "none", "enabled", "disabled", ""]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
)
switches = st.one_of(st.booleans(), st.none())
numbers = st.integers(-1, 3)
levels = st.sampled_from(["none", *LEVELS])

sensible = st.fixed_dictionaries(
    {},
    optional={
        "reasoning_effort": levels,
        "reasoning": st.fixed_dictionaries(
            {}, optional={"effort": levels, "max_tokens": numbers, "enabled": switches, "exclude": switches}
        ),
        "thinking": st.one_of(
            switches,
            st.fixed_dictionaries(
                {"type": st.sampled_from(["enabled", "disabled", "auto"])}, optional={"budget_tokens": numbers}
            ),
        ),
        "enable_thinking": switches,
        "thinking_budget": numbers,
        "max_thinking_tokens": numbers,
        "chat_template_kwargs": st.fixed_dictionaries(
            {}, optional={"enable_thinking": switches, "thinking_budget": numbers, "mine": anything}
        ),
        "mine": anything,
    },
)
odd = st.dictionaries(
    st.sampled_from([*sorted(TOP_LEVEL_FIELDS), "chat_template_kwargs", "mine"]),
    st.one_of(
        anything,
        st.dictionaries(st.sampled_from(["type", "effort", "enabled", "exclude", "max_tokens", "thinking"]), anything),
    ),
    max_size=4,
)
bodies = st.one_of(sensible, odd)


def read(body: dict[str, Any], header: str | None) -> Intent | IntentError:
    try:
        return read_intent(body, header)
    except IntentError as error:
        return error


@settings(max_examples=500, deadline=None)
@given(bodies, st.one_of(st.none(), st.text(max_size=6), st.sampled_from(["off", "on", "7", "low"])))
def test_an_intent_or_an_intent_error(body: dict[str, Any], header: str | None) -> None:
    intent = read(body, header)
    if isinstance(intent, IntentError):
        assert intent.param
        assert intent.message
        assert intent.code in {"invalid_type", "invalid_value", "conflicting_thinking_params"}
        return
    assert intent.cap is None or (intent.cap > 0 and intent.mode is Mode.ON)
    assert intent.level is None or (intent.level in LEVELS and intent.mode is Mode.ON)
    assert not (intent.cap and intent.level)
    assert (intent.mode is Mode.AUTO) == (intent.source == "default")


@settings(max_examples=300, deadline=None)
@given(bodies)
def test_what_speaks_of_thinking_goes_and_all_else_stays(body: dict[str, Any]) -> None:
    cleaned = without_thinking_fields(body)
    assert repr(without_thinking_fields(cleaned)) == repr(cleaned)
    assert not TOP_LEVEL_FIELDS & set(cleaned)
    for name, value in body.items():
        if name not in TOP_LEVEL_FIELDS and name != "chat_template_kwargs":
            assert cleaned[name] is value
    kwargs = body.get("chat_template_kwargs")
    if isinstance(kwargs, dict):
        kept = {name: value for name, value in kwargs.items() if name not in TEMPLATE_FIELDS}
        assert repr(cleaned.get("chat_template_kwargs", {})) == repr(kept)
        assert read_intent(cleaned) == Intent()
