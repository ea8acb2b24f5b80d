"""A request as its prefill leg: the same prompt, and one token that nobody will see.

Both workers must render the very same prompt, and nothing checks that they do: so this is a copy with a few fields
changed, never one put together anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DROPPED = frozenset(
    {
        "stream_options",
        "min_tokens",
        "min_completion_tokens",
        "stop",
        "stop_token_ids",
        "logprobs",
        "top_logprobs",
        "return_token_ids",
        "thinking_token_budget",
        "repetition_detection",
    }
)
"""What speaks of the output alone. A stop string could end the one token's leg with `stop`, and then some connectors
hand nothing off; a minimum beyond one token is refused."""

ALONE = frozenset({"prompt_logprobs", "echo", "use_beam_search", "best_of"})
"""What only one worker with the whole prompt can answer."""


def prefill_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """For a vLLM worker: unary, one token, and not ended by anything else than its limit (`ignore_eos`: Mooncake hands
    off nothing where the token happens to be the end of the text)."""
    copy = {name: value for name, value in body.items() if name not in DROPPED}
    copy |= {"stream": False, "max_tokens": 1, "ignore_eos": True}
    if "max_completion_tokens" in body:  # the chat route looks at it first
        copy["max_completion_tokens"] = 1
    if "n" in body:
        copy["n"] = 1
    return copy


def wants_one_worker(body: Mapping[str, Any]) -> str | None:
    """The field for which a request cannot be handed off, None if it can."""
    return next((name for name in sorted(ALONE) if body.get(name)), None)
