"""What a client asked of thinking, in every dialect: the table, the precedence, the contradictions."""

from __future__ import annotations

from typing import Any

import pytest

from budgets import Intent, IntentError, Mode, read_intent, without_thinking_fields

ON, OFF, AUTO = Mode.ON, Mode.OFF, Mode.AUTO


@pytest.mark.parametrize(
    ("body", "mode", "cap", "level", "source"),
    [
        ({}, AUTO, None, None, "default"),
        ({"reasoning_effort": "high"}, ON, None, "high", "reasoning_effort"),
        ({"reasoning_effort": "minimal"}, ON, None, "minimal", "reasoning_effort"),
        ({"reasoning_effort": "none"}, OFF, None, None, "reasoning_effort"),
        ({"reasoning": {"effort": "low"}}, ON, None, "low", "reasoning.effort"),
        ({"reasoning": {"max_tokens": 7}}, ON, 7, None, "reasoning.max_tokens"),
        ({"reasoning": {"enabled": True}}, ON, None, None, "reasoning.enabled"),
        ({"reasoning": {"enabled": False}}, OFF, None, None, "reasoning.enabled"),
        ({"reasoning": {}}, AUTO, None, None, "default"),
        ({"thinking": True}, ON, None, None, "thinking"),
        ({"thinking": False}, OFF, None, None, "thinking"),
        ({"thinking": {"type": "enabled", "budget_tokens": 7}}, ON, 7, None, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled"}}, ON, None, None, "thinking.type"),
        ({"thinking": {"type": "disabled"}}, OFF, None, None, "thinking.type"),
        ({"thinking": {"type": "adaptive"}}, AUTO, None, None, "default"),
        ({"thinking": {"type": "auto"}}, AUTO, None, None, "default"),
        ({"enable_thinking": True}, ON, None, None, "enable_thinking"),
        ({"enable_thinking": False}, OFF, None, None, "enable_thinking"),
        ({"thinking_budget": 7}, ON, 7, None, "thinking_budget"),
        ({"thinking_token_budget": 7}, ON, 7, None, "thinking_token_budget"),
        ({"max_thinking_tokens": 7}, ON, 7, None, "max_thinking_tokens"),
        ({"thinking_budget": 0}, OFF, None, None, "thinking_budget"),
        ({"thinking_budget": -1}, AUTO, None, None, "default"),
        ({"thinking_budget": 10_000_000}, ON, 10_000_000, None, "thinking_budget"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, OFF, None, None, "chat_template_kwargs.enable_thinking"),
        ({"chat_template_kwargs": {"thinking": True}}, ON, None, None, "chat_template_kwargs.thinking"),
        ({"chat_template_kwargs": {"thinking_budget": 7}}, ON, 7, None, "chat_template_kwargs.thinking_budget"),
        ({"chat_template_kwargs": {"other": 1}}, AUTO, None, None, "default"),
        ({"reasoning_effort": None, "thinking": None, "reasoning": None}, AUTO, None, None, "default"),
        # Precedence: off beats a level, a number beats a level, a level beats a switch.
        ({"enable_thinking": False, "reasoning_effort": "high"}, OFF, None, None, "enable_thinking"),
        ({"reasoning_effort": "high", "thinking_budget": 7}, ON, 7, None, "thinking_budget"),
        ({"enable_thinking": True, "reasoning_effort": "low"}, ON, None, "low", "reasoning_effort"),
        ({"enable_thinking": True, "thinking_budget": 7}, ON, 7, None, "thinking_budget"),
        ({"thinking_budget": 7, "max_thinking_tokens": 7}, ON, 7, None, "thinking_budget"),
        ({"reasoning_effort": "low", "reasoning": {"effort": "low"}}, ON, None, "low", "reasoning_effort"),
        # "You choose" is silence: whoever else speaks decides.
        ({"thinking_budget": -1, "reasoning_effort": "low"}, ON, None, "low", "reasoning_effort"),
        ({"thinking": {"type": "adaptive"}, "thinking_budget": 7}, ON, 7, None, "thinking_budget"),
    ],
)
def test_every_dialect_becomes_one_intent(
    body: dict[str, Any], mode: Mode, cap: int | None, level: str | None, source: str
) -> None:
    assert read_intent(body) == Intent(mode, cap, level, True, source)


@pytest.mark.parametrize(
    ("header", "mode", "cap", "level"),
    [
        ("512", ON, 512, None),
        (" 512 ", ON, 512, None),
        ("0", OFF, None, None),
        ("off", OFF, None, None),
        ("None", OFF, None, None),
        ("ON", ON, None, None),
        ("High", ON, None, "high"),
    ],
)
def test_the_header_counts_where_the_body_is_silent(
    header: str, mode: Mode, cap: int | None, level: str | None
) -> None:
    assert read_intent({}, header) == Intent(mode, cap, level, True, "x-thinking-budget")
    assert read_intent({"thinking_budget": 3}, header).cap == 3
    assert read_intent({"thinking_budget": -1}, header).source == "x-thinking-budget"
    assert read_intent({"reasoning": {"exclude": True}}, header).source == "x-thinking-budget"


@pytest.mark.parametrize("header", ["", "-1", "1.5", "much", "٣", "10000001", "9" * 10_000, "true"])
def test_a_header_that_says_nothing_sensible_is_refused(header: str) -> None:
    with pytest.raises(IntentError) as caught:
        read_intent({}, header)
    assert (caught.value.param, caught.value.code) == ("x-thinking-budget", "invalid_value")


def test_a_header_may_have_leading_zeros() -> None:
    assert read_intent({}, "0" * 10_000 + "7").cap == 7
    assert read_intent({}, "0" * 10_000).mode is OFF


@pytest.mark.parametrize(
    "body",
    [
        {"enable_thinking": False, "thinking_budget": 7},
        {"reasoning_effort": "none", "thinking_budget": 7},
        {"enable_thinking": False, "thinking": True},
        {"thinking_budget": 0, "max_thinking_tokens": 7},
        {"thinking_budget": 7, "max_thinking_tokens": 8},
        {"reasoning_effort": "low", "reasoning": {"effort": "high"}},
        {"reasoning": {"effort": "low", "max_tokens": 7}},
        {"thinking": {"type": "disabled", "budget_tokens": 7}},
    ],
)
def test_a_contradiction_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(IntentError) as caught:
        read_intent(body)
    assert caught.value.code == "conflicting_thinking_params"
    assert "contradict" in caught.value.message


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"reasoning_effort": 3}, "reasoning_effort", "invalid_type"),
        ({"reasoning_effort": "much"}, "reasoning_effort", "invalid_value"),
        ({"reasoning": "high"}, "reasoning", "invalid_type"),
        ({"reasoning": {"max_tokens": "7"}}, "reasoning.max_tokens", "invalid_type"),
        ({"reasoning": {"enabled": 1}}, "reasoning.enabled", "invalid_type"),
        ({"reasoning": {"exclude": "yes"}}, "reasoning.exclude", "invalid_type"),
        ({"include_reasoning": 1}, "include_reasoning", "invalid_type"),
        ({"thinking": 1}, "thinking", "invalid_type"),
        ({"thinking": {}}, "thinking.type", "invalid_value"),
        ({"thinking": {"type": "perhaps"}}, "thinking.type", "invalid_value"),
        ({"thinking": {"type": []}}, "thinking.type", "invalid_value"),
        ({"thinking": {"type": {"a": 1}}}, "thinking.type", "invalid_value"),
        ({"enable_thinking": "true"}, "enable_thinking", "invalid_type"),
        ({"thinking_budget": 1.0}, "thinking_budget", "invalid_type"),
        ({"thinking_budget": True}, "thinking_budget", "invalid_type"),
        ({"thinking_budget": -2}, "thinking_budget", "invalid_value"),
        ({"thinking_budget": 10_000_001}, "thinking_budget", "invalid_value"),
        ({"thinking_budget": 10**30}, "thinking_budget", "invalid_value"),
        ({"thinking_budget": float("nan")}, "thinking_budget", "invalid_type"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs", "invalid_type"),
        ({"chat_template_kwargs": {"thinking": 0}}, "chat_template_kwargs.thinking", "invalid_type"),
    ],
)
def test_a_wrong_word_is_refused_with_its_field(body: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(IntentError) as caught:
        read_intent(body)
    assert (caught.value.param, caught.value.code) == (param, code)
    assert f"`{param}`" in caught.value.message


@pytest.mark.parametrize(
    ("body", "visible"),
    [
        ({"reasoning": {"exclude": True}}, False),
        ({"include_reasoning": False}, False),
        ({"reasoning": {"exclude": False}}, True),
        ({"include_reasoning": True}, True),
        ({"include_reasoning": True, "reasoning": {"exclude": True}}, False),
    ],
)
def test_visibility_is_another_matter_than_thinking(body: dict[str, Any], visible: bool) -> None:
    assert read_intent(body) == Intent(visible=visible)
    assert read_intent({**body, "thinking_budget": 5}).visible is visible


def test_all_that_speaks_of_thinking_is_taken_out_and_nothing_else() -> None:
    kwargs = {"enable_thinking": True, "thinking": True, "thinking_budget": 1, "mine": 2}
    body = {"model": "m", "reasoning_effort": "low", "include_reasoning": True, "chat_template_kwargs": kwargs}
    assert without_thinking_fields(body) == {"model": "m", "chat_template_kwargs": {"mine": 2}}
    assert kwargs["enable_thinking"] is True, "the client's own body is not changed"
    assert without_thinking_fields({"chat_template_kwargs": {"thinking": True}}) == {}


@pytest.mark.parametrize(
    ("body", "rest"),
    [
        ({"nvext": {"max_thinking_tokens": 7, "top_k": 3}}, {"nvext": {"top_k": 3}}),
        ({"custom_params": {"thinking_budget": 7}}, {}),
        ({"custom_params": {"thinking_budget": 7, "a": [1]}}, {"custom_params": {"a": [1]}}),
        ({"output_config": {"effort": "low", "format": {}}}, {"output_config": {"format": {}}}),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {}),
        ({"reasoning": {"effort": "low", "unknown": 1}}, {"reasoning": {"unknown": 1}}),
        ({"thinking": True}, {}),
        ({"thinking": {"type": "enabled", "budget_tokens": 7, "display": "omitted"}}, {}),
        ({"extra_body": {"google": {"thinking_config": {"thinking_budget": 7}}}}, {}),
        (
            {"extra_body": {"google": {"thinking_config": {"thinking_budget": 7}, "cached_content": "x"}, "top_k": 1}},
            {"extra_body": {"google": {"cached_content": "x"}, "top_k": 1}},
        ),
        (
            {"extra_body": {"chat_template_kwargs": {"enable_thinking": True, "a": 1}}},
            {"extra_body": {"chat_template_kwargs": {"a": 1}}},
        ),
        # Empty and null objects say nothing.
        ({"reasoning": None, "chat_template_kwargs": {}, "nvext": None}, {}),
        # What looks alike elsewhere is not ours.
        ({"metadata": {"thinking_budget": 7}, "effort": "low"}, {"metadata": {"thinking_budget": 7}, "effort": "low"}),
        ({"chat_template_kwargs": {"reasoning_effort": "low"}}, {"chat_template_kwargs": {"reasoning_effort": "low"}}),
        (
            {"extra_body": {"extra_body": {"thinking_budget": 7}}},
            {"extra_body": {"extra_body": {"thinking_budget": 7}}},
        ),
    ],
)
def test_an_object_keeps_what_is_not_about_thinking(body: dict[str, Any], rest: dict[str, Any]) -> None:
    before = repr(body)
    assert without_thinking_fields(body) == rest
    assert repr(body) == before


def test_words_in_the_prompt_are_no_controls() -> None:
    for word in ("/think", "/no_think"):
        assert read_intent({"messages": [{"role": "user", "content": f"Hello {word}"}]}) == Intent()
