"""The router at work inside the service: off the event loop, within a deadline, counted.

What a verdict is worth is the router's business; here is only who waits for it, for how long, and who looks over its
shoulder: a shadow model decides too, is counted, and has no effect.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import structlog

from gateway import config
from gateway.observe.metrics import Metrics
from router import NOISE_TAGS, Ask, Classifier, Decision, Mode, Route, UserRoute, load, read_ask

log = structlog.get_logger("thinkgate.router")

MAX_WAITING: Final = 64
"""Prompts in the encoder's queue from which on newcomers get the cheap verdict at once, however fast it runs."""
_FIRST_GUESS: Final = 0.004
"""Seconds one prompt takes the encoder, until it has been measured."""


class Routing:
    """One encoder thread: two would only take each other's core. Equal prompts that come together wait together."""

    def __init__(
        self,
        classifier: Classifier,
        metrics: Metrics,
        *,
        deadline: float,
        noise: Sequence[str] = (),
        shadow: Classifier | None = None,
    ) -> None:
        """`deadline`: seconds. `noise`: tags to strip beside the router's own. `shadow`: decides without effect."""
        self._classifier = classifier
        self._metrics = metrics
        self._deadline = deadline
        self._noise = (*NOISE_TAGS, *noise)
        self._shadow = shadow
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="router")
        self._running: dict[Ask, asyncio.Future[Decision]] = {}
        self._pace = _FIRST_GUESS

    @classmethod
    def of_config(cls, settings: config.Router, metrics: Metrics) -> Routing:
        """Load what the config names. Raises RouterUnavailable, and ValueError on a route that can never match."""
        routes = [_user_route(name, route) for name, route in settings.routes.items()]
        encoder = Path(settings.encoder) if settings.encoder is not None else None
        classifier = load(
            threshold=settings.threshold,
            max_missed=settings.max_missed_reasoning,
            target_share=settings.target_reasoning_share,
            mode=Mode(settings.mode),
            cache_size=settings.cache_size,
            routes=routes,
            head=Path(settings.head) if settings.head is not None else None,
            encoder=encoder,
        )
        shadow = None
        if settings.shadow_head is not None:
            shadow = load(mode=Mode.ACCURATE, cache_size=0, head=Path(settings.shadow_head), encoder=encoder)
        return cls(classifier, metrics, deadline=settings.deadline, noise=settings.noise_tags, shadow=shadow)

    @property
    def classifier(self) -> Classifier:
        return self._classifier

    def read(self, messages: Sequence[Mapping[str, Any]], *, has_tools: bool = False) -> Ask:
        """The ask of a request, stripped of the harness's noise as configured."""
        return read_ask(messages, has_tools=has_tools, noise=self._noise)

    def warm_up(self) -> None:
        """Let the encoder run once: its first run is many times slower, and would miss the first request's deadline."""
        self._thread.submit(self._classifier.decide, Ask("How many primes are there below one hundred, and why so?"))

    async def decide(self, ask: Ask) -> Decision:
        """The verdict; after the deadline the cheap one, while the encoder's still goes into the cache."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen = self._classifier.glance(ask)
        decision = seen.decision if seen.is_final else await self._encode(loop, ask, seen.decision)
        self._metrics.router_decisions.labels(decision.route, decision.tier).inc()
        self._metrics.router_seconds.labels(decision.tier).observe(loop.time() - began)
        if self._shadow is not None and len(self._running) < MAX_WAITING:
            self._thread.submit(self._compare, self._shadow, ask, decision)
        return decision

    async def _encode(self, loop: asyncio.AbstractEventLoop, ask: Ask, words: Decision) -> Decision:
        """The encoder's verdict, or `words` when it comes too late."""
        running = self._running.get(ask)
        if running is None:
            waiting = len(self._running)
            if waiting >= MAX_WAITING or waiting * self._pace > self._deadline:
                # It would miss its deadline in the queue; better to say so at once, and not to lengthen the queue.
                return self._fall_back(words, "busy")
            running = loop.run_in_executor(self._thread, self._work, ask)
            self._running[ask] = running
            running.add_done_callback(lambda _: self._running.pop(ask, None))
        try:
            # Shielded: one impatient request must not take the verdict from the others that wait for it.
            async with asyncio.timeout(self._deadline):
                return await asyncio.shield(running)
        except TimeoutError:
            return self._fall_back(words, "late")
        except Exception:
            log.exception("encoder failed")
            return self._fall_back(words, "failed")

    def _work(self, ask: Ask) -> Decision:
        """On the encoder's thread: the verdict, and how long one takes now."""
        began = time.perf_counter()
        decision = self._classifier.decide(ask)
        self._pace += 0.1 * (time.perf_counter() - began - self._pace)
        return decision

    def _fall_back(self, words: Decision, why: str) -> Decision:
        self._metrics.router_fallbacks.labels(why).inc()
        return words

    def _compare(self, shadow: Classifier, ask: Ask, decision: Decision) -> None:
        try:
            agrees = shadow.decide(ask).route is decision.route
        except Exception:  # a shadow has no effect, its trouble included
            log.exception("shadow model failed")
            return
        self._metrics.router_shadowed.labels("yes" if agrees else "no").inc()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _user_route(name: str, route: config.UserRoute) -> UserRoute:
    return UserRoute(
        name,
        Route(route.route),
        target=route.pool,
        keywords=route.keywords,
        regex=route.regex,
        utterances=route.utterances,
        negatives=route.negative_utterances,
        threshold=route.threshold,
    )
