"""The embedded engine as the rest of the gateway sees it: start, wait, ask for its address, close.

It joins the weights (`weights.py`), the child's command line (`child.py`) and the supervisor. How requests are shaped
for llama.cpp is not known here: that is the engine adapter's, and it finds this engine by its address like any other.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from gateway.config import Embedded
from gateway.embedded.supervisor import Supervisor
from gateway.embedded.unavailable import EmbeddedUnavailable
from gateway.embedded.weights import Weights, check_engine, find_weights

CHILD = Path(__file__).with_name("child.py")
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""A thread of the engine that waits must sleep: spinning, it takes a core from the one that works."""


class EmbeddedEngine:
    """llama.cpp in a child process. One for the whole gateway, however many pools use it."""

    def __init__(self, settings: Embedded, *, progress: Callable[[str], None]) -> None:
        self._settings = settings
        self._progress = progress
        self._supervisor: Supervisor | None = None

    async def start(self) -> None:
        """Checks that all pieces are there and launches the child; returns before it serves (`ready` waits)."""
        check_engine()
        self._progress("checking weights")
        weights = await asyncio.to_thread(find_weights, self._settings)
        self._supervisor = Supervisor(
            command(self._settings, weights),
            label=f"{weights.name} ({weights.megabytes} MB)",
            progress=self._progress,
            environment=ENVIRONMENT,
        )
        self._supervisor.start()

    async def ready(self) -> str:
        """Waits until the engine serves, after a crash too; its base address, without /v1."""
        if self._supervisor is None:
            raise EmbeddedUnavailable("the embedded engine was not started")
        return await self._supervisor.ready()

    @property
    def url(self) -> str | None:
        """The base address now; None while the engine starts or restarts. It changes only if the port was lost."""
        return None if self._supervisor is None else self._supervisor.url

    @property
    def restarts(self) -> int:
        return 0 if self._supervisor is None else self._supervisor.restarts

    async def aclose(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.aclose()


def command(settings: Embedded, weights: Weights) -> list[str]:
    """The child's command line. `-P` keeps the working directory's files from passing for modules."""
    line = [sys.executable, "-P", str(CHILD), "--model", str(weights.path), "--name", weights.name]
    if weights.template is not None:
        line += ["--template", str(weights.template)]
    if weights.sampling is not None:
        line += ["--temperature", str(weights.sampling.temperature), "--top-p", str(weights.sampling.top_p)]
    line += ["--threads", str(settings.threads), "--context", str(settings.context)]
    return [*line, "--parallel", str(settings.parallel)]
