"""GPU-seconds on a real vLLM: conserved, and as long as the engine itself says that it worked.

One request at a time the engine's sums of prefill and decode seconds are its busy time; with several at once they are
more, and the busy time lies between the clock and nothing.
"""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from tests.engines.conftest import VLLM, on
from tests.engines.told import STORY, ask, tell
from tests.engines.under_test import TURN_ENDS, Engine
from tests.harness import Gateway, Metrics

AROUND = 0.04
"""Part by which the gateway may see a request longer than its engine: HTTP, templates, tokens of a slow tokenizer."""
LEAST = 0.9
"""Part of the time of a batch in which its engine is busy: between the legs of a cut it may have nothing to do."""
PHASES = ("queue", "prefill", "decode")


def booked(now: Metrics, pool: str) -> tuple[float, float, float]:
    """(of flights, of nobody, busy) so far."""
    names = (
        "thinkgate_gpu_seconds_total",
        "thinkgate_gpu_seconds_unattributed_total",
        "thinkgate_gpu_busy_seconds_total",
    )
    flights, nobodys, busy = (now.value(name, pool=pool) for name in names)
    return flights, nobodys, busy


async def settled(served: Gateway) -> Metrics:
    await served.wait_grounded()
    await served.wait_metric("thinkgate_gpu_pending_seconds", {}, lambda value: abs(value) < 1e-6)
    return await served.metrics()


async def engine_seconds(engine: Engine) -> float:
    """Of prefill and decode, over all requests it has finished."""
    now = await engine.metrics()
    return sum(now.value(f"vllm:request_{phase}_time_seconds_sum") for phase in ("prefill", "decode"))


@on("where", [VLLM])
async def test_one_after_the_other_it_is_what_the_engine_says(served: Gateway, engine: Engine) -> None:
    before, worked = booked(await settled(served), "native"), await engine_seconds(engine)
    never = await engine.never("</think>", *TURN_ENDS)
    for number in range(4):
        await tell(served, ask("native", f"gpu {number}: {STORY}", streamed=True, cap=192, **never))
    await engine.until(0, 5)
    told = await engine_seconds(engine) - worked
    # The last window is closed by the poll after it.
    await served.wait_metric(
        "thinkgate_gpu_busy_seconds_total", {"pool": "native"}, lambda value: value - before[2] >= told * (1 - AROUND)
    )
    flights, nobodys, busy = (
        after - was for after, was in zip(booked(await settled(served), "native"), before, strict=True)
    )
    print(f"flights {flights:.3f} s, nobody's {nobodys:.3f} s, busy {busy:.3f} s, the engine says {told:.3f} s")  # noqa: T201
    assert flights + nobodys == pytest.approx(busy, rel=1e-6)
    assert nobodys <= 0.02 * busy, "nobody else was there"
    assert flights == pytest.approx(told, rel=AROUND)


@on("where", [VLLM])
async def test_together_and_cut_it_is_conserved_and_never_more_than_the_clock(served: Gateway, engine: Engine) -> None:
    before, worked, began = booked(await settled(served), "cut"), await engine_seconds(engine), monotonic()
    never = await engine.never("</think>", *TURN_ENDS)
    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(tell(served, ask("cut", f"gpu {number}: {STORY}", streamed=True, cap=96, **never)))
    took = monotonic() - began
    told = await engine_seconds(engine) - worked
    await served.wait_metric(
        "thinkgate_gpu_busy_seconds_total", {"pool": "cut"}, lambda value: value - before[2] >= LEAST * took
    )
    flights, nobodys, busy = (
        after - was for after, was in zip(booked(await settled(served), "cut"), before, strict=True)
    )
    print(  # noqa: T201
        f"flights {flights:.3f} s, nobody's {nobodys:.3f} s, busy {busy:.3f} s in {took:.3f} s of the clock; the "
        f"engine's sums say {told:.3f} s, without what was cut"
    )
    assert flights + nobodys == pytest.approx(busy, rel=1e-6)
    assert LEAST * took <= busy <= took * 1.001
    assert nobodys <= 0.02 * busy
    now = await served.metrics()
    assert all(now.value("thinkgate_engine_request_seconds_total", pool="cut", phase=phase) >= 0 for phase in PHASES)
