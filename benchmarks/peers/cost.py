"""What a gateway costs: CPU a request and a token, time to the first token, memory. All in turn within one run.

CPU is the kernel's account of the process tree. Milliseconds of the clock are told only as what is added to the engine
asked directly, and are worth comparing within one run alone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from time import perf_counter

from benchmarks.load import request_bytes, streams, unary
from benchmarks.peers.systems import KEY, System

PACED = "think=120 answer=30 gap_ms=40"
FLAT = "think=450 answer=50"
SHORT = "think=8 answer=8"
SLOW = "think=8 answer=2 gap_ms=500"
OPEN = 200
"""Streams at the same time, whose memory is looked at."""
HEADERS = (f"authorization: Bearer {KEY}",)

A_TOKEN = "CPU µs a token, 20 streams of 25 tokens/s"
FLAT_OUT = "CPU µs a token, 16 streams flat out"
A_REQUEST = "CPU µs an unstreamed request, 8 at once"
FIRST = "ms added to the first token, one client"
IDLE = "MiB resident, idle"
HELD = f"MiB more, with {OPEN} streams open"
SCENARIOS = (A_TOKEN, FLAT_OUT, A_REQUEST, FIRST, IDLE, HELD)


async def first_token(port: int) -> float:
    """Seconds from sending a request until the first token of its thought."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        began = perf_counter()
        writer.write(request_bytes(SHORT, stream=True, headers=HEADERS))
        got = b""
        while b"t00000 " not in got:
            data = await reader.read(2**16)
            if not data:
                raise AssertionError(f"no token came: {got[:300]!r}")
            got += data
        return perf_counter() - began
    finally:
        writer.close()


class Bill:
    """Figures of every system, by scenario."""

    def __init__(self) -> None:
        self.figures: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def note(self, scenario: str, system: str, value: float) -> None:
        self.figures[scenario][system].append(value)

    def told(self, scenario: str, system: str) -> float | None:
        values = self.figures[scenario].get(system)
        return median(values) if values else None


async def warm(system: System) -> None:
    await streams(system.port, SHORT, 16, at_once=4, total=16, headers=HEADERS)
    await unary(system.port, SHORT, at_once=4, total=16, headers=HEADERS)


async def weigh(system: System, bill: Bill) -> None:
    """Memory before any load, and in the midst of many slow streams. Once: what was freed is not given back."""
    idle = system.memory()
    bill.note(IDLE, system.name, idle)
    flying = asyncio.create_task(streams(system.port, SLOW, 10, at_once=OPEN, total=OPEN, headers=HEADERS))
    await asyncio.sleep(2.5)
    bill.note(HELD, system.name, system.memory() - idle)
    await flying


async def measure(system: System, engine_port: int, bill: Bill) -> None:
    """One round of one system."""
    port = system.port
    for scenario, units, work in (
        (A_TOKEN, 20 * 150, lambda: streams(port, PACED, 150, at_once=20, total=20, headers=HEADERS)),
        (FLAT_OUT, 40 * 500, lambda: streams(port, FLAT, 500, at_once=16, total=40, headers=HEADERS)),
        (A_REQUEST, 400, lambda: unary(port, SHORT, at_once=8, total=400, headers=HEADERS)),
    ):
        before = system.cpu()
        await work()
        bill.note(scenario, system.name, (system.cpu() - before) / units * 1e6)
    direct = [await first_token(engine_port) for _ in range(20)]
    through = [await first_token(port) for _ in range(20)]
    bill.note(FIRST, system.name, (median(through) - median(direct)) * 1e3)


async def rounds(systems: Sequence[System], engine_port: int, count: int) -> Bill:
    """In turn, and backwards in every second round. A system that loses or reorders a token raises AssertionError."""
    bill = Bill()
    for system in systems:
        await weigh(system, bill)
    for number in range(count):
        for system in systems if number % 2 == 0 else reversed(systems):
            await measure(system, engine_port, bill)
    return bill
