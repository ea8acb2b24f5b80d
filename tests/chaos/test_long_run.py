"""Thousands of flights of every kind leave nothing behind: no memory, no task, no connection, no file.

Four thousand in the common test run, ten thousand under `make chaos`.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.fates import Fate, Passenger, fly
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool

pytestmark = pytest.mark.alone

FLIGHTS = 10_000 if "THINKGATE_CHAOS" in os.environ else 4_000
WARM = 3_000
"""Flights before the first look: by then caches and pools have about their size."""
AT_ONCE = 40
WORKERS = 3
SLACK, MAY_GROW = 3 * 1024, 0.4
"""KiB of resident memory that come and go, and KiB a flight: less than anything that a flight could leave behind."""
KINDS: list[dict[str, Any]] = [
    {},
    {"per_event": 3},
    {"die_after": 5, "times": 1},
    {"status": 429, "times": 1},
    {"error_after": 20, "times": 1},
    {"burst": 9},
    {"drop_after": 12, "times": 1},
    {},
]


@pytest.fixture(scope="module")
def trio(host: Host) -> Iterator[list[VllmDouble]]:
    doubles = [host.add(VllmDouble("long")) for _ in range(WORKERS)]
    yield doubles
    for double in doubles:
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], trio: list[VllmDouble]) -> Gateway:
    settings = pool(*trio, thinking={"native_cap": False}, timeouts={"queue": 20, "idle": 5})
    verdicts_kept = {"cache_size": 256}  # a cache that fills is no leak, and would look like one
    return gateway(config({"long": settings}, router=verdicts_kept)).wait_workers(WORKERS)


def held_by(served: Gateway) -> tuple[int, int]:
    """KiB of memory and open files of the gateway's process."""
    process = Path("/proc") / str(served.process.pid)
    [line] = [line for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]), len(list((process / "fd").iterdir()))


async def fly_many(served: Gateway, trio: list[VllmDouble], first: int, last: int) -> Counter[str]:
    ends: Counter[str] = Counter()
    numbers = iter(range(first, last))
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:

        async def one_after_another() -> None:
            for number in numbers:
                controls = {"think": 12, **KINDS[number % len(KINDS)]}
                one = Passenger(f"long-{number}", Fate.WELL, number % 3 != 0, number % 50 == 1, controls)
                await fly(client, served, trio[0].model, one)
                ends["left" if one.leaves else "whole" if one.is_whole else f"told {one.status}"] += 1
                for double in trio:
                    double.forget(keep=2 * AT_ONCE)

        await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))
    return ends


@pytest.mark.timeout(300)
async def test_memory_is_flat(served: Gateway, trio: list[VllmDouble]) -> None:
    ends = await fly_many(served, trio, 0, WARM)
    await served.wait_grounded()
    memory, files = held_by(served)
    ends += await fly_many(served, trio, WARM, FLIGHTS)
    await served.wait_grounded()
    for double in trio:
        await double.wait_idle()
    memory_after, files_after = held_by(served)
    assert ends.total() == FLIGHTS
    assert set(ends) <= {"left", "whole", "told 429"}, ends
    assert ends["whole"] >= FLIGHTS * 0.85, ends
    may_grow = SLACK + MAY_GROW * (FLIGHTS - WARM)
    assert memory_after - memory <= may_grow, f"{memory} KiB after {WARM} flights, {memory_after} KiB after {FLIGHTS}"
    assert files_after <= files + AT_ONCE
