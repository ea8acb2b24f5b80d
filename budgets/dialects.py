"""Every body field that speaks of thinking, in every dialect: whose it is, where it stands, what its values mean.

Data only. `intent_values` reads the values, `dialects_walk` goes through a body by this table, to read and to strip;
docs/thinking.md shows the same table, and a test holds the two together. A new dialect is one more record here.

Not in here, since they are not controls of this kind: words in the prompt (`/think`, `/no_think`), and how thoughts are
told (`reasoning_format`, `separate_reasoning`: the gateway's).
"""

from __future__ import annotations

from dataclasses import dataclass

from budgets import intent_values as values
from budgets.intent_values import Reader


@dataclass(frozen=True, slots=True)
class Field:
    """One control; `names` are its spellings, `meaning` what its values do, for people."""

    names: tuple[str, ...]
    read: Reader
    meaning: str
    required: bool = False
    """Its reader is called even where the object does not have it."""
    travels: bool = False
    """It reaches the engine as well: the template it speaks to may know more words than these."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Fields that stand together. `places` are the objects that hold them, as dotted paths, `""` the body itself."""

    name: str
    fields: tuple[Field, ...]
    places: tuple[str, ...] = ("",)
    either: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    """Of these two sets of names one object may use only one, whatever it says: so the API has it."""


WRAPPER = "extra_body"
"""Whatever is read in the body is read in here too: SDKs unwrap it, people who copy from SDK examples do not."""

_LEVEL = "a level: `minimal` `low` `medium` `high` `xhigh` `max`; `none` is off"
_TOKENS = "tokens; 0 is off, -1 leaves it open"
_SWITCH = "`true` on, `false` off"
_SUMMARY = "`auto` `concise` `detailed` `none`: checked, changes nothing; thoughts are told as they are"

_GEMINI_CONFIG = ("thinkingConfig", "thinking_config")
_GEMINI_PLACES = tuple(
    f"{holder}{config}"
    for holder in ("", "google.", "generationConfig.", "generation_config.")
    for config in _GEMINI_CONFIG
)

DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        "OpenAI chat; also DeepSeek, Gemini's OpenAI face, LiteLLM, OpenRouter",
        (
            Field(
                ("reasoning_effort",),
                values.level_or_object,
                f"{_LEVEL}; DeepSeek's `ultra` is `max`, LiteLLM's `disable` is `none`",
            ),
        ),
    ),
    Dialect(
        "LiteLLM",
        (Field(("effort",), values.level, _LEVEL), Field(("summary",), values.summary, _SUMMARY)),
        places=("reasoning_effort",),
    ),
    Dialect(
        "OpenAI Responses, OpenRouter, SGLang",
        (
            Field(("effort", "reasoning_effort"), values.level, _LEVEL),
            Field(("max_tokens",), values.tokens, _TOKENS),
            Field(("enabled", "enable"), values.switch, _SWITCH),
            Field(("exclude",), values.hidden, "`true` hides the thoughts"),
            Field(("summary",), values.summary, _SUMMARY),
        ),
        places=("reasoning",),
        either=(frozenset({"effort", "reasoning_effort"}), frozenset({"max_tokens"})),
    ),
    Dialect("OpenRouter, vLLM", (Field(("include_reasoning",), values.shown, "`false` hides the thoughts"),)),
    Dialect("short form", (Field(("thinking",), values.switch_or_object, _SWITCH),)),
    Dialect(
        "Anthropic, DeepSeek, LiteLLM",
        (
            Field(
                ("type",),
                values.thinking_type,
                "`enabled` on, `disabled` off, `adaptive` or `auto` leaves it open",
                True,
            ),
            Field(("budget_tokens",), values.tokens, _TOKENS),
            Field(("display",), values.display, "`omitted` hides the thoughts, `summarized` shows them as they are"),
        ),
        places=("thinking",),
    ),
    Dialect("Anthropic", (Field(("effort",), values.level, _LEVEL),), places=("output_config",)),
    Dialect(
        "Qwen, DashScope",
        (
            Field(("enable_thinking",), values.switch, _SWITCH),
            Field(("thinking_budget",), values.tokens, _TOKENS),
        ),
    ),
    Dialect("vLLM, Dynamo", (Field(("thinking_token_budget",), values.tokens, _TOKENS),)),
    Dialect("SGLang", (Field(("max_thinking_tokens",), values.tokens, _TOKENS),)),
    Dialect("SGLang", (Field(("thinking_budget",), values.tokens, _TOKENS),), places=("custom_params",)),
    Dialect(
        "llama.cpp",
        (
            Field(
                ("thinking_budget_tokens", "reasoning_budget_tokens", "reasoning_budget"),
                values.tokens,
                _TOKENS,
            ),
        ),
    ),
    Dialect("NVIDIA NIM", (Field(("max_thinking_tokens",), values.tokens, _TOKENS),), places=("nvext",)),
    Dialect("Ollama", (Field(("think",), values.switch_or_level, f"{_SWITCH}, or {_LEVEL}"),)),
    Dialect(
        "Gemini",
        (
            Field(("thinkingBudget", "thinking_budget"), values.tokens, _TOKENS),
            Field(("thinkingLevel", "thinking_level"), values.level_in_any_case, f"{_LEVEL}; in any case of letters"),
            Field(("includeThoughts", "include_thoughts"), values.shown, "`false` hides the thoughts"),
        ),
        places=_GEMINI_PLACES,
        either=(frozenset({"thinkingBudget", "thinking_budget"}), frozenset({"thinkingLevel", "thinking_level"})),
    ),
    Dialect(
        "Qwen and DeepSeek templates on vLLM, SGLang, llama.cpp",
        (
            Field(("enable_thinking", "thinking"), values.switch, _SWITCH),
            Field(("thinking_budget",), values.tokens, _TOKENS),
        ),
        places=("chat_template_kwargs",),
    ),
    Dialect(
        "templates with efforts (gpt-oss, DeepSeek-V4, Hunyuan)",
        (
            Field(
                ("reasoning_effort",),
                values.level_if_known,
                f"{_LEVEL}; other words are the template's own and say nothing here; it travels to the engine as well",
                travels=True,
            ),
        ),
        places=("chat_template_kwargs",),
    ),
)
"""In the order of reading: where several fields say the same, the first is named as the Intent's source."""
