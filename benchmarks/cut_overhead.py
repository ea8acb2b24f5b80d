"""What a cut costs, on real engines: from the last thought a client sees to the first word of the answer.

    python -m benchmarks.cut_overhead [--runs 20] [--vllm http://127.0.0.1:8000 | --no-vllm]

Beside it stands what the engine itself spent on the answer leg's prompt (vLLM's queue and prefill, llama.cpp's prompt
time), and how many tokens of that prompt it had to compute again because its prefix cache did not have them. Without an
address vLLM is started as for `make test-engines`, which must have installed it. One request at a time, every prompt a
new one, nothing else running: the engines' own counters are read, half-way through the thought and after the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.engines.conftest import PHRASE
from tests.engines.real_vllm import RealVllm
from tests.engines.told import STORY, ask
from tests.engines.under_test import TURN_ENDS, Engine, Llama, Vllm
from tests.harness import Gateway, Metrics, config

CAPS = (32, 64, 128, 256, 512)
OVERHEAD_CAP = 64
WARM_UP = 3


@dataclass(frozen=True)
class Cost:
    """Of one cut: seconds from cap to answer, the engine's own part, and the answer leg's prompt in tokens."""

    gap: float
    engine: float
    recomputed: float
    cached: float


@dataclass(frozen=True)
class Counters:
    """An engine's counters at one moment."""

    prefill: float
    computed: float
    cached: float

    @classmethod
    def of(cls, engine: Engine, metrics: Metrics) -> Counters:
        value = metrics.value
        if isinstance(engine, Vllm):
            source = "vllm:prompt_tokens_by_source_total"
            return cls(
                value("vllm:request_prefill_time_seconds_sum") + value("vllm:request_queue_time_seconds_sum"),
                value(source, source="local_compute"),
                value(source, source="local_cache_hit"),
            )
        return cls(
            value("llamacpp:prompt_seconds_total"),
            value("llamacpp:prompt_tokens_total"),
            value("llamacpp:prompt_tokens_cached_total"),
        )


async def cut_once(gateway: Gateway, engine: Engine, cap: int) -> Cost:
    """One thought of `cap` tokens, cut, and a short answer."""
    fields = await engine.never("</think>", *TURN_ENDS)
    body = ask("cut", f"{uuid4().hex}. {STORY}", streamed=True, cap=cap, **fields)
    thoughts, last, first = 0, 0.0, 0.0
    before: Counters | None = None
    async with (
        httpx.AsyncClient(timeout=120) as client,
        client.stream("POST", f"{gateway.base_url}/chat/completions", json=body) as response,
    ):
        async for line in response.aiter_lines():
            now = time.perf_counter()
            for delta in deltas(line):
                thought = delta.get("reasoning_content")
                if thought and thought != PHRASE:
                    thoughts, last = thoughts + 1, now
                if delta.get("content") and not first:
                    first = now
            if thoughts == cap // 2 and before is None:
                before = Counters.of(engine, await engine.metrics())
    await engine.until(0, 10)
    after = Counters.of(engine, await engine.metrics())
    assert before is not None
    return Cost(
        first - last,
        after.prefill - before.prefill,
        after.computed - before.computed,
        after.cached - before.cached,
    )


def deltas(line: str) -> Iterator[dict[str, Any]]:
    if line.startswith("data: {"):
        for choice in json.loads(line.removeprefix("data: ")).get("choices") or ():
            yield choice["delta"]


async def measure(name: str, gateway: Gateway, engine: Engine, runs: int) -> None:
    for _ in range(WARM_UP):
        await cut_once(gateway, engine, OVERHEAD_CAP)
    costs = [await cut_once(gateway, engine, OVERHEAD_CAP) for _ in range(runs)]
    print(f"\n{name}: {runs} thoughts cut at {OVERHEAD_CAP} tokens, in ms")
    print("| | median | p95 |\n|---|---|---|")
    print(row("cap reached to first answer token", [cost.gap for cost in costs]))
    print(row("of it the engine: queue and prefill", [cost.engine for cost in costs]))
    print(row("of it the rest", [cost.gap - cost.engine for cost in costs]))

    cold = sum(cost.recomputed > OVERHEAD_CAP for cost in costs)
    print(f"\nIn {cold} of them the engine did not find the thought in its cache.")

    block = f", KV blocks of {await engine.block()}" if isinstance(engine, Vllm) else ""
    print(f"\n{name}: the answer leg's prompt, in tokens{block}; the phrase is {len(await engine.tokenize(PHRASE))}")
    print("| thought | prompt | computed again, median of 3 | worst |\n|---|---|---|---|")
    for cap in CAPS:
        found = [await cut_once(gateway, engine, cap) for _ in range(3)]
        prompts, again = [one.recomputed + one.cached for one in found], [one.recomputed for one in found]
        print(f"| {cap} | {statistics.median(prompts):.0f} | {statistics.median(again):.0f} | {max(again):.0f} |")


def row(name: str, seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return f"| {name} | {statistics.median(ordered) * 1000:.0f} | {p95 * 1000:.0f} |"


@contextmanager
def gateway_with(pool: dict[str, Any], **settings: Any) -> Generator[Gateway]:
    """A gateway with one pool that is always cut."""
    thinking = {"closing_phrase": PHRASE, "answer_reserve": 32, "native_cap": False}
    pools = {"cut": {"model": "cut", "format": "think", "thinking": thinking, "loops": {"action": "off"}, **pool}}
    with tempfile.TemporaryDirectory() as folder, Gateway(config(pools, **settings), Path(folder)) as gateway:
        yield gateway.wait_workers(1)


def on_vllm(url: str, runs: int) -> None:
    engine = Vllm(url, parser=True)
    with gateway_with({"engine": "vllm", "upstream_model": engine.model, "workers": [url]}) as gateway:
        asyncio.run(measure("vLLM", gateway, engine, runs))


def on_embedded(runs: int) -> None:
    with gateway_with({"engine": "embedded"}, embedded={"context": 2048}) as gateway:
        worker = httpx.get(f"{gateway.url}/admin/workers").json()["data"][0]
        asyncio.run(measure("llama.cpp (embedded)", gateway, Llama(worker["url"]), runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--vllm", metavar="URL", help="a vLLM that runs already, without /v1")
    parser.add_argument("--no-vllm", action="store_true", help="the embedded engine only")
    given = parser.parse_args()
    on_embedded(given.runs)
    if given.vllm:
        on_vllm(given.vllm.rstrip("/"), given.runs)
    elif not given.no_vllm:
        with RealVllm() as vllm:
            on_vllm(vllm.url, given.runs)


if __name__ == "__main__":
    main()
