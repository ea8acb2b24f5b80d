"""Several gateway processes on one machine behind one scrape: prometheus_client's files in `PROMETHEUS_MULTIPROC_DIR`.

The variable must be set before the process starts, since prometheus_client decides at import. Counters of processes
that have ended go on counting, as they must; gauges of the dead are taken away, by who ends well or by who starts next.
"""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def folder() -> Path | None:
    """Where the processes meet; None if this one is by itself."""
    told = os.environ.get(VARIABLE)
    return Path(told) if told else None


def shared_registry() -> CollectorRegistry | None:
    """Reads what all processes have written."""
    if folder() is None:
        return None
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return registry


def bury_the_dead() -> None:
    """Take away the gauges of processes that were killed; once a process, before it has series of its own: in a
    container, one that was killed has had the same id."""
    place = folder()
    if place is None:
        return
    for path in place.glob("gauge_live*_*.db"):
        pid = path.stem.rpartition("_")[2]
        if pid == str(os.getpid()) or (pid.isdigit() and not Path(f"/proc/{pid}").exists()):
            path.unlink(missing_ok=True)


def say_farewell() -> None:
    """This process ends: its gauges no longer count."""
    place = folder()
    if place is not None:
        for path in place.glob(f"gauge_live*_{os.getpid()}.db"):
            path.unlink(missing_ok=True)
