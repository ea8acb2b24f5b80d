"""A real pair: one vLLM prefills, another decodes from its cache, which NIXL moves over loopback.

Starts its own engines, so it runs by itself, before the others start theirs. What a unified worker would say is asked
of the prefill worker, which can generate too. `--log-cli-level=INFO` prints where the prompt tokens came from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pytest

from tests.engines.conftest import URL
from tests.engines.install_vllm import Installation
from tests.engines.real_vllm import LEASE, MODEL, RealVllm
from tests.engines.told import Told, ask, tell
from tests.engines.under_test import IDLE, TURN_ENDS, Vllm
from tests.harness import LOOK_AGAIN, PATIENCE, Gateway, Metrics, config
from tests.service.talk import post, socket_to, stream

LOG = logging.getLogger(__name__)
PROMPTS = 20
CAP = 24
FIRST = 180.0
"""Seconds until all are ready: the first generation of a pair compiles, and shakes hands."""
LONGEST = 900
"""Seconds for one test, on two cores."""
KV_ROOM = 60.0
"""Seconds in which a lease has surely run out: it is looked at between two steps of the engine."""


@dataclass
class Pair:
    prefill: RealVllm
    decode: RealVllm

    async def metrics(self, one: RealVllm) -> Metrics:
        return await Vllm(one.url, parser=True).metrics()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    if URL or not Installation().is_complete:
        pytest.skip("THINKGATE_VLLM_URL names one" if URL else "vLLM is not installed: run `make test-engines`")
    with RealVllm(role="prefill") as prefill, RealVllm(role="decode") as decode:
        yield Pair(prefill, decode)


def pool_of(workers: list[str], **more: Any) -> dict[str, Any]:
    return {
        "upstream_model": MODEL,
        "engine": "vllm",
        "format": "think",
        "workers": workers,
        "timeouts": {"first_token": 120, "idle": 120, "total": 600},
        "loops": {"action": "off"},
        "thinking": {"native_cap": False, "answer_reserve": 32},
        "health": {"interval": 0.5, "slow_start": 0},
        **more,
    }


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], pair: Pair) -> Gateway:
    """`apart`: prefill and decode; `local`: the same, which does without prefill; `alone`: the prefill worker alone."""
    apart = {"handoff": "nixl", "prefill": [pair.prefill.url], "local_below": 0, "lease": LEASE}
    pools = {
        "apart": {"model": "apart", **pool_of([pair.decode.url], disaggregation=apart)},
        "alone": {"model": "alone", **pool_of([pair.prefill.url])},
        "local": {
            "model": "local",
            **pool_of([pair.decode.url], disaggregation={**apart, "without_prefill": "local"}),
        },
    }
    return gateway(config(pools)).wait_workers(5, FIRST)


def story(number: int) -> str:
    return f"Number {number}. Tell of the river, the bridge, the mill and the {number + 2} houses behind it. " * 3


async def sources(pair: Pair) -> dict[str, float]:
    """Where the prompt tokens of the decode worker came from."""
    metrics = await pair.metrics(pair.decode)
    name = "vllm:prompt_tokens_by_source_total"
    return {
        source: metrics.value(name, source=source)
        for source in ("external_kv_transfer", "local_compute", "local_cache_hit")
    }


@pytest.mark.timeout(LONGEST)
async def test_every_prompt_token_is_handed_over_and_the_text_is_the_same(served: Gateway, pair: Pair) -> None:
    never = await Vllm(pair.decode.url, parser=True).never("</think>", *TURN_ENDS)
    before, told_before = await sources(pair), (await served.metrics()).value("thinkgate_handoff_tokens_total")
    firsts: list[Told] = []
    for number in range(PROMPTS):
        body = ask("apart", story(number), streamed=number % 2 == 0, cap=CAP, **never)
        firsts.append(await tell(served, body))
    after, told_after = await sources(pair), (await served.metrics()).value("thinkgate_handoff_tokens_total")
    grown = {source: after[source] - before[source] for source in after}
    prompts = sum(told.usage["prompt_tokens"] for told in firsts)
    LOG.info("%s prompt tokens in %d prompts; by source, with answer legs and probes: %s", prompts, PROMPTS, grown)
    # More than the prompts where probes of the other pool were handed over meanwhile.
    assert grown["external_kv_transfer"] == told_after - told_before >= prompts
    # The answer legs stay on the decode worker, whose cache holds prompt and thought but for the last block.
    assert grown["local_cache_hit"] > grown["local_compute"]
    for number, told in enumerate(firsts):
        other = await tell(served, ask("alone", story(number), streamed=False, cap=CAP, **never))
        assert (told.thought, told.answer) == (other.thought, other.answer), number
        assert told.usage["completion_tokens"] == other.usage["completion_tokens"]
    metrics = await served.metrics()
    assert metrics.value("thinkgate_handoffs_total", pool="apart", result="handed") >= PROMPTS
    assert metrics.value("thinkgate_handoffs_total", pool="apart", result="missing") == 0


async def test_a_client_that_leaves_between_the_legs_strands_no_cache(served: Gateway, pair: Pair) -> None:
    never = await Vllm(pair.decode.url, parser=True).never("</think>", *TURN_ENDS)
    before = await pair.metrics(pair.prefill)
    async with socket_to(served.port) as client:
        await client.send_chat(ask("apart", story(99), streamed=True, cap=600, **never))
        await _until(pair, lambda now: now.value("vllm:prompt_tokens_total") > before.value("vllm:prompt_tokens_total"))
        client.leave()
    await served.wait_grounded()
    await _until(pair, lambda now: now.value("vllm:kv_cache_usage_perc") == 0, KV_ROOM)
    await Vllm(pair.decode.url, parser=True).until(0, IDLE)


@pytest.mark.timeout(LONGEST)
async def test_a_decode_worker_that_dies_before_the_first_delta_and_a_prefill_worker_that_dies(
    served: Gateway, gateway: Callable[..., Gateway], pair: Pair
) -> None:
    """In one test, since it ends the engines. The first is told to a client as nothing, the second by the policy."""
    with RealVllm(role="decode") as second:
        apart = {"handoff": "nixl", "prefill": [pair.prefill.url], "local_below": 0, "lease": LEASE}
        both = {"model": "both", **pool_of([pair.decode.url, second.url], disaggregation=apart)}
        over = gateway(config({"both": both})).wait_workers(3, FIRST)
        never = await Vllm(second.url, parser=True).never("</think>", *TURN_ENDS)
        flights = [asyncio.create_task(stream(over.url, ask("both", story(n), streamed=True, cap=CAP, **never)))
                   for n in range(200, 206)]  # fmt: skip
        second.kill()
        for told in await asyncio.gather(*flights):
            assert told.errors == []
            assert told.done
    other = await tell(served, ask("alone", story(302), streamed=True, cap=CAP, **never))
    pair.prefill.kill()
    refused = await post(served.url, ask("apart", story(300), streamed=False, cap=CAP, **never))
    assert refused.status_code in {502, 503}, refused.text
    await served.wait_metric("thinkgate_worker_ready", {"pool": "apart"}, lambda ready: ready == 1)
    refused = await post(served.url, ask("apart", story(301), streamed=False, cap=CAP, **never))
    assert refused.status_code == 503
    assert "retry-after" in refused.headers
    told = await tell(served, ask("local", story(302), streamed=True, cap=CAP, **never))
    assert (told.thought, told.answer) == (other.thought, other.answer)


async def _until(pair: Pair, holds: Callable[[Metrics], bool], patience: float = PATIENCE) -> None:
    deadline = monotonic() + patience
    while not holds(await pair.metrics(pair.prefill)):
        assert monotonic() < deadline, f"not so after {patience} s"
        await asyncio.sleep(LOOK_AGAIN)
