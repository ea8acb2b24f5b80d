"""What a token and a request cost: CPU time of thinkgate's process beside a plain FastAPI + httpx pass-through.

    python -m benchmarks.data_path [rounds]

Both stand in front of the same engine, in the same run, in turn (A B, B A, …), so that a noisy machine is noisy for
both; the ratio is the figure to keep. thinkgate routes, parses, counts and keeps a ledger meanwhile; the floor copies
bytes. CPU is the kernel's own account of the process and all its threads.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from benchmarks.load import streams, unary

PACED = "think=120 answer=30 gap_ms=40"
FLAT = "think=450 answer=50"
SHORT = "think=8 answer=8"

CONFIG = """
pools:
  mock: {{model: mock, engine: openai, format: think, workers: ["http://127.0.0.1:{port}"]}}
logs: {{level: warning}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(pid: int) -> float:
    """Nanosecond account of every thread, as the scheduler keeps it."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def wait_for(port: int, path: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"nothing answers on port {port}")


class System:
    """A gateway under test: its process and what its scenarios cost."""

    def __init__(self, name: str, command: list[str], port: int, ready: str) -> None:
        self.name, self.port = name, port
        self.process = subprocess.Popen([sys.executable, *command])
        wait_for(port, ready)
        self.costs: dict[str, list[float]] = {}

    async def measure(self, scenario: str, units: int, work: Callable[[], Awaitable[None]]) -> None:
        before = cpu_seconds(self.process.pid)
        await work()
        cost = (cpu_seconds(self.process.pid) - before) / units * 1e6
        self.costs.setdefault(scenario, []).append(cost)


async def round_of(system: System, *, warm_up: bool = False) -> None:
    port = system.port
    if warm_up:
        await streams(port, SHORT, 16, at_once=4, total=16)
        await unary(port, SHORT, at_once=4, total=16)
        return
    await system.measure(
        "stream, 40 ms a token: µs/token", 40 * 150, lambda: streams(port, PACED, 150, at_once=40, total=40)
    )
    await system.measure(
        "stream, flat out: µs/token", 100 * 500, lambda: streams(port, FLAT, 500, at_once=32, total=100)
    )
    await system.measure("unary, 16 at once: µs/request", 1600, lambda: unary(port, SHORT, at_once=16, total=1600))


def main(rounds: int) -> None:
    engine_port, ours_port, floor_port = free_port(), free_port(), free_port()
    engine = subprocess.Popen([sys.executable, "-m", "benchmarks.mock_engine", str(engine_port)])
    systems: list[System] = []
    try:
        wait_for(engine_port, "/v1/models")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(CONFIG.format(port=engine_port))
            file.flush()
            serve = ["-m", "gateway.cli", "serve", "--config", file.name, "--port", str(ours_port)]
            systems.append(System("thinkgate", serve, ours_port, "/readyz"))
        floor = ["-m", "benchmarks.plain_floor", str(floor_port), f"http://127.0.0.1:{engine_port}"]
        systems.append(System("FastAPI + httpx", floor, floor_port, "/openapi.json"))
        uvloop.run(_in_turn(systems, rounds))
    finally:
        for process in (*(system.process for system in systems), engine):
            process.terminate()
            process.wait()
    ours, plain = systems
    print(f"| scenario | {ours.name} | {plain.name} | ratio |\n|---|---|---|---|")
    for scenario in ours.costs:
        a, b = statistics.median(ours.costs[scenario]), statistics.median(plain.costs[scenario])
        print(f"| {scenario} | {a:,.1f} | {b:,.1f} | {a / b:.2f} |")


async def _in_turn(systems: list[System], rounds: int) -> None:
    for system in systems:
        await round_of(system, warm_up=True)
    for number in range(rounds):
        for system in systems if number % 2 == 0 else reversed(systems):
            await round_of(system)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
