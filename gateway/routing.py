"""The router at work inside the service: off the event loop, within a deadline, counted.

What a verdict is worth is the router's business; here is only who waits for it, and for how long.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import structlog

from gateway.observe.metrics import Metrics
from router import Ask, Classifier, Decision

log = structlog.get_logger("thinkgate.router")

MAX_WAITING = 64
"""Prompts in the encoder's queue from which on newcomers get the lexical verdict at once: they would miss anyway."""


class Routing:
    """One encoder thread: two would only take each other's core. Equal prompts that come together wait together."""

    def __init__(self, classifier: Classifier, metrics: Metrics, *, deadline: float) -> None:
        self._classifier = classifier
        self._metrics = metrics
        self._deadline = deadline
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="router")
        self._running: dict[Ask, asyncio.Future[Decision]] = {}

    def warm_up(self) -> None:
        """Let the encoder run once: its first run is many times slower, and would miss the first request's deadline."""
        self._thread.submit(self._classifier.decide, Ask("How many primes are there below one hundred?"))

    async def decide(self, ask: Ask) -> Decision:
        """The verdict; after `deadline` seconds the lexical one, while the encoder's still goes into the cache."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        decision = self._classifier.peek(ask) or await self._encode(loop, ask)
        self._metrics.router_decisions.labels(decision.route, decision.tier).inc()
        self._metrics.router_seconds.labels(decision.tier).observe(loop.time() - began)
        return decision

    async def _encode(self, loop: asyncio.AbstractEventLoop, ask: Ask) -> Decision:
        running = self._running.get(ask)
        if running is None:
            if len(self._running) >= MAX_WAITING:
                return self._classifier.lexical(ask)
            running = loop.run_in_executor(self._thread, self._classifier.decide, ask)
            self._running[ask] = running
            running.add_done_callback(lambda _: self._running.pop(ask, None))
        try:
            # Shielded: one impatient request must not take the verdict from the others that wait for it.
            async with asyncio.timeout(self._deadline):
                return await asyncio.shield(running)
        except TimeoutError:
            return self._classifier.lexical(ask)
        except Exception:
            log.exception("encoder failed")
            return self._classifier.lexical(ask)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
