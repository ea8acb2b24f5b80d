"""What only vLLM can show: the ids of its tokens, and how much of a prompt its prefix cache gave it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.engines.conftest import BARE, PHRASE, VLLM, on
from tests.engines.told import STORY, ask, tell
from tests.engines.under_test import IDLE, TURN_ENDS, Vllm
from tests.harness import Gateway
from tests.service.talk import stream

SEAM = 4
"""Tokens of the close marker and the newlines about it."""


@on("where,pool", [(VLLM, "cut"), (VLLM, "native"), (BARE, "cut")])
async def test_the_usage_is_the_sum_of_the_ids(served: Gateway, vllm: Vllm, pool: str) -> None:
    body = ask(pool, STORY, streamed=True, cap=24, return_token_ids=True, **await vllm.never(*TURN_ENDS))
    told = await stream(served.url, body)
    assert told.errors == []
    choices = [choice for event in told.events for choice in event.get("choices") or ()]
    ids = [one for choice in choices for one in choice.get("token_ids") or ()]
    assert len(ids) == told.usages[0]["completion_tokens"] - told.extension["thinking"]["injected_tokens"]
    thoughts = [choice for choice in choices if choice["delta"].get("reasoning_content")]
    thought = [one for choice in thoughts for one in choice.get("token_ids") or ()]
    assert len(thought) == told.extension["thinking"]["tokens"]


@on("where", [VLLM, BARE])
@pytest.mark.parametrize("cap", [40, 200])
async def test_the_answer_leg_finds_the_thought_in_the_cache(served: Gateway, vllm: Vllm, cap: int) -> None:
    """It goes on from the ids of the thought: each block that the first leg filled is found again, up to the trim."""
    text = f"{uuid4().hex}. {STORY}"
    before = await vllm.metrics()
    told = await tell(served, ask("cut", text, streamed=True, cap=cap, **await vllm.never("</think>", *TURN_ENDS)))
    await vllm.until(0, IDLE)
    after = await vllm.metrics()
    assert told.legs == 2

    def grown(source: str) -> float:
        name = "vllm:prompt_tokens_by_source_total"
        return after.value(name, source=source) - before.value(name, source=source)

    prompt = told.usage["prompt_tokens"]
    seen = grown("local_compute") + grown("local_cache_hit")
    second = seen - prompt
    """The prompt of the answer leg: the first one's, the thought and the phrase."""
    assert prompt + 0.8 * cap < second <= prompt + cap + len(await vllm.tokenize(PHRASE)) + SEAM
    recomputed = grown("local_compute") - prompt
    assert recomputed <= await vllm.block() + len(await vllm.tokenize(PHRASE)) + SEAM
