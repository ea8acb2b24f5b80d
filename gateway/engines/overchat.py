"""Going on over the chat route: a last assistant message that the engine is told to continue.

The only way that keeps the engine's tool parser, its log probabilities and a picture in the prompt. Its template has
the last word, so a worker is asked beforehand whether it leaves a thought in that message alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.engines.base import CHAT_PATH, Profile
from gateway.engines.capabilities import Ask, fields_of
from gateway.engines.ids import TOKENIZE_PATH, reseed

QUESTION = {"role": "user", "content": "Is it?"}
THOUGHT, BEGUN = "So it is.", "The answer is"


def continued(body: Mapping[str, Any], last: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    """A chat body that goes on from `last`, an assistant's message, for `limit` tokens at most."""
    onward = {**body, "messages": [*body["messages"], last], "continue_final_message": True}
    if limit is not None:
        onward.pop("max_completion_tokens", None)
        onward["max_tokens"] = limit
    reseed(onward, body)
    return onward


async def keeps_thought(ask: Ask, profile: Profile) -> bool:
    """Is a thought in a continued message rendered as it was written? Templates for DeepSeek-R1 drop it."""
    told = fields_of(*await ask("POST", TOKENIZE_PATH, _sample(profile)))
    tokens = told.get("tokens")
    if not isinstance(tokens, list):
        return False
    prompt = fields_of(*await ask("POST", "/detokenize", {"model": profile.model, "tokens": tokens})).get("prompt")
    marker = profile.format.open[0]
    return isinstance(prompt, str) and prompt.endswith(BEGUN) and THOUGHT in prompt and prompt.count(marker) == 1


async def misfiles(ask: Ask, profile: Profile) -> bool:
    """Does its parser call the continuation of an answer a thought? One token is generated to see it."""
    question = {**_sample(profile), "max_tokens": 1, "stream": True}
    status, answer = await ask("POST", CHAT_PATH, question)
    return status == 200 and (b'"reasoning":"' in answer or b'"reasoning_content":"' in answer)


def _sample(profile: Profile) -> dict[str, Any]:
    record = profile.format
    said = f"{record.open[0]}\n{THOUGHT}\n{record.closing}{BEGUN}"
    return {
        "model": profile.model,
        "messages": [QUESTION, {"role": "assistant", "content": said}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
