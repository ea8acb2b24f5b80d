"""How a client wants to be told the thoughts: under which name, inline, in one piece, or not at all.

Read from the body in the engines' own dialects (SGLang, vLLM, Groq, llama.cpp, OpenRouter), over the default of the key
or the config. The engines are not told: the gateway needs the thoughts to count them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.config import ReasoningOutput
from gateway.edge.errors import bad_request

FIELDS = frozenset({"include_reasoning", "separate_reasoning", "stream_reasoning", "reasoning_format"})
"""Body fields about the telling of thoughts; none of them travels to an engine."""

_FORMATS = {
    "parsed": None,  # Groq
    "auto": None,  # llama.cpp
    "deepseek": ReasoningOutput.REASONING_CONTENT,
    "raw": ReasoningOutput.INLINE,
    "none": ReasoningOutput.INLINE,
    "hidden": ReasoningOutput.HIDDEN,
}


@dataclass(frozen=True, slots=True)
class Output:
    """`in_one_piece`: a streamed thought is held back until it ends (SGLang's `stream_reasoning: false`)."""

    reasoning: ReasoningOutput
    in_one_piece: bool = False


def read_output(body: Mapping[str, Any], default: ReasoningOutput, *, visible: bool) -> Output:
    """What a body asks for; `visible` is the Intent's. Raises ApiError (400) on a wrong type or word."""
    told = default
    if (word := body.get("reasoning_format")) is not None:
        if not isinstance(word, str) or word not in _FORMATS:
            message = f"`reasoning_format` must be one of {', '.join(_FORMATS)}."
            raise bad_request(message, param="reasoning_format", code="invalid_value")
        told = _FORMATS[word] or told
    if _switch(body, "separate_reasoning") is False:
        told = ReasoningOutput.INLINE
    if not visible:
        told = ReasoningOutput.HIDDEN
    return Output(told, in_one_piece=_switch(body, "stream_reasoning") is False)


def _switch(body: Mapping[str, Any], name: str) -> bool | None:
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise bad_request(f"`{name}` must be true or false.", param=name, code="invalid_type")
