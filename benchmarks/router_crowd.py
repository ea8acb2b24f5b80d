"""Many prompts at the router's door at once: how long it holds the event loop, who waits how long, and for what.

Two hundred tasks are started in one turn of the loop, as a burst of connections would. Two clocks: the wall's, which on
a busy machine tells of the neighbours too, and the CPU time of the loop's own thread in one turn, which is the router's
doing alone (the first turn also holds the starting of two hundred tasks).
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from gateway.observe.metrics import Metrics
from gateway.routing import Routing
from router import Ask, Decision, load

DEADLINE = 0.025
"""Seconds, as `router.deadline` has it by default."""


def crowds(asks: Sequence[Ask], requests: int = 200) -> None:
    print(f"\n## {requests} prompts at once; deadline {DEADLINE * 1e3:.0f} ms\n")
    for name, batch in (
        ("all different", [asks[number % len(asks)] for number in range(requests)]),
        ("all the same", [asks[5]] * requests),
        ("all known", [Ask("thanks!")] * requests),
    ):
        print(f"{name}: {asyncio.run(_crowd(batch))}")


async def _crowd(asks: Sequence[Ask]) -> str:
    made = Routing(load(cache_size=0), Metrics(), deadline=DEADLINE)
    made.warm_up()
    await asyncio.sleep(0.3)
    gc.collect()
    gc.freeze()
    turns: list[tuple[float, float]] = []
    waits: list[float] = []

    async def watch() -> None:
        while True:
            began, spent = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0)
            turns.append((time.perf_counter() - began, time.thread_time() - spent))

    async def one(ask: Ask) -> Decision:
        began = time.perf_counter()
        decision = await made.decide(ask)
        waits.append(time.perf_counter() - began)
        return decision

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    decisions = await asyncio.gather(*(one(ask) for ask in asks))
    watcher.cancel()
    made.close()
    gc.unfreeze()
    wall, own = (max(column) * 1e3 for column in zip(*turns, strict=True))
    late = sum(wait > DEADLINE for wait in waits)
    tiers = Counter(_kind(decision) for decision in decisions)
    return (
        f"loop held at most {wall:.1f} ms, of its own CPU {own:.1f}; wait p50 {np.median(waits) * 1e3:.1f}, "
        f"longest {max(waits) * 1e3:.1f} ms, {late} over the deadline; {dict(tiers)}"
    )


def _kind(decision: Decision) -> str:
    return "skimmed" if decision.reasons[0].startswith("skimmed") else decision.tier.value
