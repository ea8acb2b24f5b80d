"""Traffic in which everything happens that the boards show, through a real gateway, watched by a real Prometheus.

    python -m tests.boardtraffic docs/img

draws the boards from three minutes of it. The tests use the same, for as long as they need.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import time
from typing import Any, Final

import httpx

from tests.doubles.pair.cluster import Cluster
from tests.doubles.script import Script, ask
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.prometheus import Prometheus
from tests.service.pairing import pool_of

ROOT: Final = Path(__file__).parents[1]
RULES: Final = ROOT / "deploy" / "prometheus" / "thinkgate.rules.yaml"
BOARDS: Final = ROOT / "deploy" / "grafana"
STREAMS: Final = 14
"""Clients at a time."""
LONG: Final = 180.0
"""Seconds of traffic that are drawn."""
QUESTIONS: Final = (
    "Thanks!",
    "What is the capital of France?",
    "Summarise the plot of Hamlet in two sentences.",
    "Tom has 3 apples, buys 4 and gives 2 to Anna. How many has he?",
    "Prove that there are infinitely many primes of the form 4k+3, and give a bound on the tenth.",
    "Design a lock-free queue, prove that it is linearisable, and analyse its progress under contention.",
)


@dataclass
class House:
    gateway: Gateway
    prometheus: Prometheus
    began: float
    ended: float = 0.0

    def ask(self, expr: str) -> list[Any]:
        """Over the time of the traffic."""
        return self.prometheus.range(expr, self.began, self.ended)

    def run(self, seconds: float, warm_up: float = 0.0) -> None:
        """Traffic; its first part is left out, in which a rate over 30 s only rises."""
        self.began = time() + warm_up
        asyncio.run(traffic(self.gateway.url, warm_up + seconds))
        self.ended = self.began + seconds


@contextmanager
def house(folder: Path) -> Iterator[House]:
    """Five pools: one simple, one that reasons, one with workers that die, one whose engine overruns its cap,
    and one with prefill and decode apart."""
    host = Host()
    calm = host.add(VllmDouble("quick", default=Script(delay_ms=6)))
    deep = [host.add(SglangDouble("deep", default=Script(delay_ms=8))) for _ in range(2)]
    frail = [host.add(VllmDouble("frail", default=Script(delay_ms=6))) for _ in range(3)]
    loose = host.add(VllmDouble("loose", overruns=True, default=Script(delay_ms=4)))
    apart = Cluster(host, "nixl", model="apart", decode={"local": True})
    common: dict[str, Any] = {"context_window": 1_000_000, "gpus": 1, "gpu_hour_price": 2.4}
    pools = {
        "standard": pool(calm, **common),
        "reasoning": pool(*deep, **{**common, "gpus": 8}, thinking={"native_cap": False}),
        "frail": pool(*frail, **common, thinking={"native_cap": False}),
        "apart": pool_of(apart, **common),
        "loose": pool(loose, **common),
    }
    try:
        with (
            Gateway(config(pools, routes={"auto": {"standard": "standard", "reasoning": "reasoning"}}), folder) as one,
            Prometheus(folder, [one.port], [RULES]) as prometheus,
        ):
            one.wait_workers(9)
            yield House(one, prometheus, time())
    finally:
        host.close()


def bodies(random: Random) -> Iterator[dict[str, Any]]:
    """Requests of every kind, without end."""
    for number in count():
        key = f"b{number}"
        question = random.choice(QUESTIONS)
        think = int(random.lognormvariate(4.2, 0.6))
        kinds: list[dict[str, Any]] = [
            _chat("auto", key, question, think=think),
            _chat("auto", key, question, think=think),
            _chat("auto", key, question, think=think),
            _chat("reasoning", key, "Once more.", think=think),
            _chat("reasoning", key, "In short.", think=200, more={"thinking_budget": 60}),
            _chat("reasoning", key, "Round and round.", think=900, loop_after=30),
            _chat("frail", key, "Until it dies.", think=60, die_after=30, times=1),
            _chat("frail", key, "It refuses.", status=500, times=1),
            _chat("frail", key, "It fails.", think=40, error_after=20, garbage_after=20),
            _chat("frail", key, "It is full.", status=429, retry_after=""),
            _chat("apart", key, "Read elsewhere.", think=think),
            _chat("loose", key, "More than told.", think=120, more={"thinking_budget": 20, "n": 1}),
            _chat("quick", key, "Too short.", think=30, more={"max_tokens": 12}),
            {"model": "nobody", "messages": []},
        ]
        weights = (6, 6, 6, 4, 4, 1, 1.5, 1, 0.4, 0.4, 2, 1, 0.6, 0.6)
        yield random.choices(kinds, weights)[0]


def _chat(model: str, key: str, text: str, more: dict[str, Any] | None = None, **controls: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": ask(key, text, **controls)}]
    return {"model": model, "messages": messages, "stream": True, **(more or {})}


async def traffic(url: str, seconds: float) -> None:
    """`STREAMS` clients, some of which leave early, some of which say what they think of the answer."""
    random = Random(7)
    asked = bodies(random)
    async with httpx.AsyncClient(base_url=url, timeout=60) as client, asyncio.TaskGroup() as group:
        for number in range(STREAMS):
            group.create_task(_client(client, asked, random, time() + seconds, number))


async def _client(
    client: httpx.AsyncClient, asked: Iterator[dict[str, Any]], random: Random, until: float, number: int
) -> None:
    for turn in count():
        if time() > until:
            return
        name = f"client-{number}-{turn}"
        leaves = random.random() < 0.04
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3 if leaves else 60):
                answer = await client.post("/v1/chat/completions", json=next(asked), headers={"x-request-id": name})
                if answer.status_code == 200 and random.random() < 0.3:
                    verdict = "good" if random.random() < 0.8 else "bad"
                    await client.post("/v1/feedback", json={"request_id": name, "verdict": verdict})
        await asyncio.sleep(random.random() * 0.5)  # a person reads


def main(out: Path) -> None:
    from deploy.grafana.drawing import draw

    with TemporaryDirectory() as folder, house(Path(folder)) as live:
        live.run(LONG, warm_up=30)
        for path in sorted(BOARDS.glob("*.json")):
            draw(json.loads(path.read_text(encoding="utf-8")), live.ask, out / f"{path.stem}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
