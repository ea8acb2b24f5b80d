"""Each API's own way of asking for thought, as its documents have it: what it comes to, and what it may not say."""

from __future__ import annotations

from typing import Any

import pytest

from budgets import Intent, IntentError, Mode, read_intent, without_thinking_fields
from budgets.dialects import DIALECTS

ON, OFF = Mode.ON, Mode.OFF


def on(source: str, *, cap: int | None = None, level: str | None = None, visible: bool = True) -> Intent:
    return Intent(ON, cap, level, visible, source)


def off(source: str, *, visible: bool = True) -> Intent:
    return Intent(OFF, None, None, visible, source)


EXTRA_GEMINI = "extra_body.google.thinking_config"

ASKED: dict[str, list[tuple[dict[str, Any], Intent]]] = {
    "OpenAI chat": [
        *(
            ({"reasoning_effort": word}, on("reasoning_effort", level=word))
            for word in ("minimal", "low", "medium", "high", "xhigh", "max")
        ),
        ({"reasoning_effort": "none"}, off("reasoning_effort")),
        ({"reasoning_effort": None}, Intent()),
    ],
    "OpenAI Responses": [
        ({"reasoning": {"effort": "xhigh", "summary": "auto"}}, on("reasoning.effort", level="xhigh")),
        ({"reasoning": {"effort": "none", "summary": None}}, off("reasoning.effort")),
        ({"reasoning": {"effort": None, "summary": "detailed"}}, Intent()),
    ],
    "Anthropic": [
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, on("thinking.budget_tokens", cap=1024)),
        ({"thinking": {"type": "disabled"}}, off("thinking.type")),
        ({"thinking": {"type": "adaptive"}}, Intent()),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
            on("output_config.effort", level="low"),
        ),
        (
            {"output_config": {"effort": "max", "format": {"type": "json_schema"}}},
            on("output_config.effort", level="max"),
        ),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Intent(visible=False)),
        ({"thinking": {"type": "enabled", "display": "summarized"}}, on("thinking.type")),
    ],
    "Gemini": [
        ({"thinkingConfig": {"thinkingBudget": 512}}, on("thinkingConfig.thinkingBudget", cap=512)),
        ({"thinking_config": {"thinking_budget": 512}}, on("thinking_config.thinking_budget", cap=512)),
        ({"thinkingConfig": {"thinkingBudget": -1}}, Intent()),
        ({"thinkingConfig": {"thinkingBudget": 0}}, off("thinkingConfig.thinkingBudget")),
        ({"thinkingConfig": {"thinkingLevel": "low"}}, on("thinkingConfig.thinkingLevel", level="low")),
        ({"thinkingConfig": {"thinkingLevel": "HIGH"}}, on("thinkingConfig.thinkingLevel", level="high")),
        ({"thinkingConfig": {"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}}, Intent()),
        ({"thinking_config": {"include_thoughts": False}}, Intent(visible=False)),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": 9, "includeThoughts": True}}},
            on("generationConfig.thinkingConfig.thinkingBudget", cap=9),
        ),
    ],
    "Gemini's OpenAI face": [
        ({"reasoning_effort": "medium"}, on("reasoning_effort", level="medium")),
        (
            {"extra_body": {"google": {"thinking_config": {"thinking_budget": 800, "include_thoughts": True}}}},
            on(f"{EXTRA_GEMINI}.thinking_budget", cap=800),
        ),
        (
            {"extra_body": {"google": {"thinking_config": {"thinking_level": "low", "include_thoughts": False}}}},
            on(f"{EXTRA_GEMINI}.thinking_level", level="low", visible=False),
        ),
        # What OpenAI's SDK makes of `extra_body={"google": …}`.
        ({"google": {"thinking_config": {"thinking_budget": 0}}}, off("google.thinking_config.thinking_budget")),
    ],
    "OpenRouter": [
        ({"reasoning": {"effort": "high"}}, on("reasoning.effort", level="high")),
        ({"reasoning": {"max_tokens": 2000}}, on("reasoning.max_tokens", cap=2000)),
        ({"reasoning": {"enabled": True, "exclude": True}}, on("reasoning.enabled", visible=False)),
        ({"reasoning": {"enabled": False}}, off("reasoning.enabled")),
        ({"reasoning": {"effort": "high"}, "reasoning_effort": "high"}, on("reasoning_effort", level="high")),
        ({"include_reasoning": False}, Intent(visible=False)),
    ],
    "Qwen, DashScope": [
        ({"enable_thinking": True, "thinking_budget": 50}, on("thinking_budget", cap=50)),
        ({"enable_thinking": False}, off("enable_thinking")),
        (
            {"extra_body": {"enable_thinking": True, "thinking_budget": 50}},
            on("extra_body.thinking_budget", cap=50),
        ),
        ({"chat_template_kwargs": {"enable_thinking": False}}, off("chat_template_kwargs.enable_thinking")),
        (
            {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
            off("extra_body.chat_template_kwargs.enable_thinking"),
        ),
        ({"chat_template_kwargs": {"thinking_budget": 50}}, on("chat_template_kwargs.thinking_budget", cap=50)),
    ],
    "DeepSeek": [
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "max"}, on("reasoning_effort", level="max")),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "ultra"}, on("reasoning_effort", level="max")),
        ({"thinking": {"type": "disabled"}, "reasoning_effort": "high"}, off("thinking.type")),
        ({"chat_template_kwargs": {"thinking": True}}, on("chat_template_kwargs.thinking")),
    ],
    "Ollama": [
        ({"think": True}, on("think")),
        ({"think": False}, off("think")),
        *(({"think": word}, on("think", level=word)) for word in ("low", "medium", "high")),
    ],
    "NVIDIA NIM": [({"nvext": {"max_thinking_tokens": 300, "top_k": 3}}, on("nvext.max_thinking_tokens", cap=300))],
    "vLLM, Dynamo": [
        ({"thinking_token_budget": 300}, on("thinking_token_budget", cap=300)),
        ({"thinking_token_budget": -1}, Intent()),
        ({"extra_body": {"thinking_token_budget": 300}}, on("extra_body.thinking_token_budget", cap=300)),
    ],
    "SGLang": [
        ({"custom_params": {"thinking_budget": 300, "mine": 1}}, on("custom_params.thinking_budget", cap=300)),
        ({"max_thinking_tokens": 300}, on("max_thinking_tokens", cap=300)),
        ({"reasoning": {"reasoning_effort": "low"}}, on("reasoning.reasoning_effort", level="low")),
        ({"reasoning": {"enable": False}}, off("reasoning.enable")),
    ],
    "llama.cpp": [
        ({"thinking_budget_tokens": 300}, on("thinking_budget_tokens", cap=300)),
        ({"reasoning_budget_tokens": 0}, off("reasoning_budget_tokens")),
        ({"reasoning_budget": -1}, Intent()),
        (
            {"reasoning_budget_tokens": 300, "thinking_budget_tokens": 300},  # trees differ, so clients send both
            on("thinking_budget_tokens", cap=300),
        ),
    ],
    "LiteLLM": [
        ({"thinking": {"type": "enabled", "budget_tokens": 128}}, on("thinking.budget_tokens", cap=128)),
        ({"reasoning_effort": "disable"}, off("reasoning_effort")),
        ({"reasoning_effort": {"effort": "high", "summary": "auto"}}, on("reasoning_effort.effort", level="high")),
        ({"reasoning_effort": {}}, Intent()),
    ],
}


@pytest.mark.parametrize(
    ("body", "intent"),
    [pytest.param(body, intent, id=f"{name}: {body}") for name, rows in ASKED.items() for body, intent in rows],
)
def test_each_dialect_is_understood_and_taken_out(body: dict[str, Any], intent: Intent) -> None:
    assert read_intent(body) == intent
    assert read_intent(without_thinking_fields(body)) == Intent()


def test_every_field_of_the_table_is_asked_for_here() -> None:
    asked = repr([body for rows in ASKED.values() for body, _ in rows])
    for dialect in DIALECTS:
        for field in dialect.fields:
            assert any(f"'{name}'" in asked for name in field.names), field.names


_SPELLED = """
    reasoning_effort reasoning_effort.effort reasoning.effort reasoning.max_tokens reasoning.enabled reasoning.exclude
    include_reasoning thinking thinking.type thinking.budget_tokens output_config.effort enable_thinking thinking_budget
    thinking_token_budget max_thinking_tokens custom_params.thinking_budget thinking_budget_tokens
    reasoning_budget_tokens reasoning_budget nvext.max_thinking_tokens think chat_template_kwargs.enable_thinking
    chat_template_kwargs.thinking chat_template_kwargs.thinking_budget thinkingConfig.thinkingBudget
    thinking_config.thinking_level google.thinking_config.thinking_budget google.thinkingConfig.includeThoughts
    generationConfig.thinkingConfig.thinkingLevel generation_config.thinking_config.include_thoughts
"""


@pytest.mark.parametrize("wrapper", ["", "extra_body."])
@pytest.mark.parametrize("path", _SPELLED.split())
def test_a_field_is_judged_wherever_it_stands(path: str, wrapper: str) -> None:
    body: Any = ["nonsense"]
    for name in reversed(f"{wrapper}{path}".split(".")):
        body = {name: body, **({"type": "enabled"} if name == "budget_tokens" else {})}
    with pytest.raises(IntentError) as caught:
        read_intent(body)
    assert caught.value.param == f"{wrapper}{path}"


@pytest.mark.parametrize(
    ("body", "one", "other"),
    [
        ({"thinkingConfig": {"thinkingBudget": 7, "thinkingLevel": "low"}}, "thinkingBudget", "thinkingLevel"),
        ({"thinking_config": {"thinking_budget": -1, "thinkingLevel": "low"}}, "thinking_budget", "thinkingLevel"),
        (
            {"extra_body": {"google": {"thinking_config": {"thinking_budget": 0, "thinking_level": "low"}}}},
            f"{EXTRA_GEMINI}.thinking_budget",
            f"{EXTRA_GEMINI}.thinking_level",
        ),
        ({"reasoning": {"effort": "none", "max_tokens": 0}}, "reasoning.effort", "reasoning.max_tokens"),
        ({"thinkingConfig": {"thinkingBudget": 7, "thinking_budget": 8}}, "thinkingBudget", "thinking_budget"),
        ({"think": False, "custom_params": {"thinking_budget": 7}}, "think", "custom_params.thinking_budget"),
        ({"think": False, "enable_thinking": True}, "think", "enable_thinking"),
        ({"think": "low", "output_config": {"effort": "high"}}, "output_config.effort", "think"),
        ({"thinking_budget": 7, "extra_body": {"thinking_budget": 8}}, "thinking_budget", "extra_body.thinking_budget"),
        ({"reasoning_budget": 7, "thinking_budget_tokens": 8}, "thinking_budget_tokens", "reasoning_budget"),
        ({"nvext": {"max_thinking_tokens": 0}, "thinking_budget": 8}, "nvext.max_thinking_tokens", "thinking_budget"),
    ],
)
def test_dialects_that_contradict_each_other_are_refused(body: dict[str, Any], one: str, other: str) -> None:
    with pytest.raises(IntentError) as caught:
        read_intent(body)
    assert caught.value.code == "conflicting_thinking_params"
    assert f"{one}` and `" in caught.value.message
    assert f"{other}` contradict" in caught.value.message


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"extra_body": []}, "extra_body", "invalid_type"),
        ({"google": 1}, "google", "invalid_type"),
        ({"extra_body": {"google": {"thinking_config": 1}}}, EXTRA_GEMINI, "invalid_type"),
        ({"nvext": "x"}, "nvext", "invalid_type"),
        ({"custom_params": 1}, "custom_params", "invalid_type"),
        ({"output_config": "high"}, "output_config", "invalid_type"),
        ({"output_config": {"effort": 2}}, "output_config.effort", "invalid_type"),
        ({"reasoning_effort": 0.5}, "reasoning_effort", "invalid_type"),
        ({"reasoning_effort": {"effort": 1}}, "reasoning_effort.effort", "invalid_type"),
        ({"reasoning": {"summary": True}}, "reasoning.summary", "invalid_value"),
        ({"think": 1}, "think", "invalid_type"),
        ({"think": "true"}, "think", "invalid_value"),
        ({"thinkingConfig": {"thinkingLevel": 3}}, "thinkingConfig.thinkingLevel", "invalid_type"),
        ({"thinkingConfig": {"thinkingLevel": "deep"}}, "thinkingConfig.thinkingLevel", "invalid_value"),
        ({"thinkingConfig": {"includeThoughts": 1}}, "thinkingConfig.includeThoughts", "invalid_type"),
        ({"thinking": {"type": "adaptive", "display": "no"}}, "thinking.display", "invalid_value"),
        ({"thinking": {"budget_tokens": 7}}, "thinking.type", "invalid_value"),
        ({"extra_body": {"thinking": {"type": 1}}}, "extra_body.thinking.type", "invalid_value"),
        *(
            ({outer: {inner: value}}, f"{outer}.{inner}", code)
            for outer, inner in (("custom_params", "thinking_budget"), ("nvext", "max_thinking_tokens"))
            for value, code in ((True, "invalid_type"), (1.5, "invalid_type"), ("7", "invalid_type"))
        ),
        *(
            ({name: value}, name, code)
            for name in ("thinking_budget_tokens", "reasoning_budget", "thinking_token_budget")
            for value, code in ((-2, "invalid_value"), (10_000_001, "invalid_value"), (False, "invalid_type"))
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_full_name(body: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(IntentError) as caught:
        read_intent(body)
    assert (caught.value.param, caught.value.code) == (param, code)
    assert f"`{param}` must be" in caught.value.message
