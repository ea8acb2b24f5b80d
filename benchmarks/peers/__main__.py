"""The comparison of docs/peers.md, run again: every gateway that is installed, beside thinkgate.

    python -m benchmarks.peers.install          # once; outside the repository
    python -m benchmarks.peers [--only NAME …] [--rounds N] [--part behaviour | cost]

Prints Markdown. A few minutes on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.data_path import free_port, wait_for
from benchmarks.peers.behaviour import ROWS, Engines, put
from benchmarks.peers.cost import SCENARIOS, Bill, rounds, warm
from benchmarks.peers.install import PACKAGES, is_installed
from benchmarks.peers.systems import BEGINS, DidNotStart, System
from tests.doubles.server import Host


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(BEGINS), default=list(BEGINS), help="these alone")
    parser.add_argument("--rounds", type=int, default=2, help="of the costs")
    parser.add_argument("--part", choices=("behaviour", "cost"), help="one of the two tables; unset: both")
    options = parser.parse_args(arguments)
    names = [name for name in options.only if name not in PACKAGES or is_installed(name)]
    for name in set(options.only) - set(names):
        sys.stderr.write(f"{name} is not installed: python -m benchmarks.peers.install {name}\n")
    print(", ".join(PACKAGES.get(name, name) for name in names) + "\n", flush=True)
    with TemporaryDirectory() as folder:
        if options.part != "cost":
            gateways = [name for name in names if name != "plain"]  # which has one engine, and no manners
            _show(["", *gateways], compare_behaviour(gateways, Path(folder)))
        if options.part != "behaviour":
            _show(["", *names], compare_costs(names, Path(folder), options.rounds))
    return 0


def compare_behaviour(names: Sequence[str], folder: Path) -> Iterator[list[str]]:
    """One row a question. Each gateway has engines of its own."""
    found: dict[str, list[str]] = {}
    for name in names:
        host = Host()
        try:
            engines = Engines(host)
            with System(name, engines.urls, folder / name) as system:
                found[name] = [asyncio.run(put(row, system, engines)) for row in ROWS]
        except DidNotStart as error:
            sys.stderr.write(f"{error}\n")
            found[name] = ["did not start"] * len(ROWS)
        finally:
            host.close()
    for number, row in enumerate(ROWS):
        yield [row.asked, *(found[name][number] for name in names)]


def compare_costs(names: Sequence[str], folder: Path, count: int) -> Iterator[list[str]]:
    """One row a scenario: the figure, and how many times thinkgate's it is."""
    with mock_engine() as port, ExitStack() as running:
        systems: list[System] = []
        for name in names:
            try:
                systems.append(running.enter_context(System(name, [f"http://127.0.0.1:{port}"], folder / name)))
                uvloop.run(warm(systems[-1]))
            except (DidNotStart, AssertionError, OSError) as error:
                sys.stderr.write(f"{name} is left out: {error}\n")
                systems = [one for one in systems if one.name != name]
        bill = uvloop.run(rounds(systems, port, count))
    for scenario in SCENARIOS:
        yield [scenario, *(_figure(bill, scenario, name) for name in names)]


def _figure(bill: Bill, scenario: str, name: str) -> str:
    value, ours = bill.told(scenario, name), bill.told(scenario, "thinkgate")
    if value is None:
        return "–"
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    return shown if ours is None or name == "thinkgate" else f"{shown} ({value / ours:.2g} ×)"


@contextmanager
def mock_engine() -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.mock_engine", str(port)], stdout=subprocess.DEVNULL)
    try:
        wait_for(port, "/v1/models")
        yield port
    finally:
        process.terminate()
        process.wait()


def _show(head: Sequence[str], rows: Iterator[list[str]]) -> None:
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


if __name__ == "__main__":
    sys.exit(main())
