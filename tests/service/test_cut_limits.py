"""Where the room for a second leg is tight, or the engine will not be told a cap: limits hold, and an answer comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import chat, post, stream

PHRASE = "A closing phrase of a good many words, so that a small limit has no room for it at all."
CUT: dict[str, Any] = {"closing_phrase": f"\n\n{PHRASE}\n", "native_cap": False}
MODELS = ["v-model", "s-model", "l-model"]
CONTEXT = 2_048


@pytest.fixture(scope="module")
def bare(host: Host) -> Iterator[VllmDouble]:
    """vLLM without a reasoning parser: it refuses to be told a cap."""
    double = host.add(VllmDouble("bare", parser=False, context=CONTEXT))
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def served(
    gateway: Callable[..., Gateway],
    vllm: VllmDouble,
    sglang: SglangDouble,
    llama: LlamaDouble,
    bare: VllmDouble,
) -> Gateway:
    pools = {
        "vllm": pool(vllm, thinking=CUT),
        "sglang": pool(sglang, thinking=CUT),
        "llama": pool(llama, thinking=CUT),
        "bare": pool(bare, format="qwen3", thinking={**CUT, "native_cap": True}),
    }
    return gateway(config(pools)).wait_workers(4)


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 30, 60, 100])
async def test_max_tokens_is_a_true_bound_however_small(
    served: Gateway, model: str, double: Double, limit: int
) -> None:
    key = f"bound-{model}-{limit}"
    told = await stream(served.url, chat(model, key, think=400, ans=400, body={"max_tokens": limit}))
    assert told.errors == []
    assert told.reasons == ["length"]
    assert told.usages[0]["completion_tokens"] <= limit
    assert all(leg.json["max_tokens"] <= limit for leg in double.of(key))
    if limit >= 10:
        assert told.answer.strip(), "half of it is kept for the answer"
    if limit <= 30:
        assert PHRASE not in told.thought, "our own words do not eat the client's tokens"


class TestWithoutANativeCap:
    @pytest.fixture
    async def told_twice(self, served: Gateway, bare: VllmDouble) -> VllmDouble:
        """The first request meets the refusal, the second must not."""
        for key in ("refused", "wiser"):
            told = await stream(served.url, chat("bare", key, think=200, delay_ms=1, body={"thinking_budget": 40}))
            assert told.errors == []
            assert told.extension["thinking"]["ended_by"] == "cap"
            assert told.extension["thinking"]["tokens"] == 40
            assert told.answer.strip().startswith("Answer(")
        return bare

    async def test_the_thought_is_cut_instead_and_the_engine_is_not_told_again(self, told_twice: VllmDouble) -> None:
        assert ["thinking_token_budget" in leg.json for leg in told_twice.of("wiser")] == [False, False]

    async def test_an_answer_without_a_limit_asks_for_what_the_context_has_left(self, told_twice: VllmDouble) -> None:
        second = told_twice.of("wiser")[-1].json
        assert second["max_tokens"] == CONTEXT - len(second["prompt"])


async def test_the_answer_to_a_grammar_begins_with_the_grammars_words(
    served: Gateway, doubles: dict[str, Double]
) -> None:
    body = {"thinking_budget": 40, "response_format": {"type": "json_object"}}
    await post(served.url, chat("v-model", "bound-answer", think=200, stream=False, body=body))
    second = doubles["v-model"].of("bound-answer")[1]
    assert second.json["response_format"] == {"type": "json_object"}
    assert second.lead_in == ""
