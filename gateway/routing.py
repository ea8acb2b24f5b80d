"""The router at work inside the service: never holding the event loop, within a deadline, counted.

What a verdict is worth is the router's business; here is only who waits for it, and for how long. Words are judged on
the loop in slices (`glances`), the encoder has a thread, explanations have another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from gateway import config
from gateway.edge.errors import explaining_busy
from gateway.glances import Glances, patience
from gateway.observe.metrics import Metrics
from gateway.shadow import Shadow
from router import (
    NOISE_TAGS,
    Ask,
    Classifier,
    Decision,
    Explainer,
    Explanation,
    Glance,
    Mode,
    Models,
    Route,
    UserRoute,
    load,
    load_exemplars,
    read_ask,
)

log = structlog.get_logger("thinkgate.router")

MAX_WAITING: Final = 64
"""Prompts in the encoder's queue from which on newcomers get the cheap verdict at once, however fast it runs."""
MAX_EXPLAINING: Final = 8
"""Explanations asked for at the same time; one takes up to fifty milliseconds of CPU, the first one a second."""
_FIRST_GUESS: Final = 0.004
"""Seconds one prompt takes the encoder, until it has been measured."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A prompt at the encoder, and what words said of it."""

    seen: Glance
    verdict: asyncio.Future[Decision]


class Routing:
    """One encoder thread: two would only take each other's core. Equal prompts that come together wait together."""

    def __init__(
        self,
        classifier: Classifier,
        metrics: Metrics,
        *,
        deadline: float,
        noise: Sequence[str] = (),
        shadow: Shadow | None = None,
        threads: Threads | None = None,
    ) -> None:
        """`deadline`: seconds. `noise`: tags to strip beside the router's own. `shadow`: decides without effect.
        `threads`: those of the same router under other settings."""
        self._classifier = classifier
        self._metrics = metrics
        self._patience = patience(deadline)
        self._noise = (*NOISE_TAGS, *noise)
        self._shadow = shadow
        self._glances = Glances(self._glance, classifier.skim, deadline=deadline)
        self._threads = threads or Threads()
        self._running: dict[Ask, _Running] = {}
        self._pace = _FIRST_GUESS
        self._explainer: Explainer | None = None
        self._asked_why = 0

    @classmethod
    def of_config(cls, settings: config.Router, metrics: Metrics) -> Routing:
        """Load what the config names. Raises RouterUnavailable, and ValueError on a route that can never match."""
        return cls(
            load_classifier(settings),
            metrics,
            deadline=settings.deadline,
            noise=settings.noise_tags,
            shadow=_shadow(settings, metrics),
        )

    def renewed(self, was: config.Router, now: config.Router) -> Routing:
        """The same under other settings. What has to be loaded is loaded here, so not on the event loop; the encoder
        only where it or its head is another. Raises as `of_config` does."""
        has_models = _models(was) == _models(now)
        classifier = self._classifier
        if _judging(was) != _judging(now):
            classifier = load_classifier(now, classifier.models if has_models else None)
        has_shadow = (was.encoder, was.folder, was.shadow_head) == (now.encoder, now.folder, now.shadow_head)
        made = Routing(
            classifier,
            self._metrics,
            deadline=now.deadline,
            noise=now.noise_tags,
            shadow=self._shadow if has_shadow else _shadow(now, self._metrics),
            threads=self._threads,
        )
        if has_models:
            made._pace = self._pace
        else:
            made.warm_up()
        return made

    @property
    def classifier(self) -> Classifier:
        return self._classifier

    def read(self, messages: Sequence[Mapping[str, Any]], *, has_tools: bool = False) -> Ask:
        """The ask of a request, stripped of the harness's noise as configured."""
        return read_ask(messages, has_tools=has_tools, noise=self._noise)

    def warm_up(self) -> None:
        """Let the encoder run once: its first run is many times slower, and would miss the first request's deadline."""
        self._threads.encoding.submit(
            self._classifier.decide, Ask("How many primes are there below one hundred, and why so?")
        )

    async def judge(self, messages: Sequence[Mapping[str, Any]], *, has_tools: bool = False) -> Decision:
        """The verdict on a request's messages."""
        return await self._decide(partial(self.read, messages, has_tools=has_tools))

    async def decide(self, ask: Ask) -> Decision:
        """The verdict; after the deadline the cheap one, while the encoder's still goes into the cache."""
        return await self._decide(lambda: ask)

    async def _decide(self, read: Callable[[], Ask]) -> Decision:
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen = await self._glances.take(read)
        decision = seen.glance.decision
        if seen.trouble is not None:
            self._metrics.router_fallbacks.labels(seen.trouble).inc()
        elif seen.ask is not None and not seen.glance.is_final:
            until = began + self._patience
            decision = await self._encode(loop, seen.ask, seen.glance, until)
        self._metrics.router_decisions.labels(decision.route, decision.tier).inc()
        self._metrics.router_seconds.labels(decision.tier).observe(loop.time() - began)
        if self._shadow is not None and seen.ask is not None:
            self._shadow.look(seen.ask, decision)
        return decision

    def _glance(self, ask: Ask) -> Glance:
        """What words say, or said a moment ago of the same prompt."""
        running = self._running.get(ask)
        return running.seen if running is not None else self._classifier.glance(ask)

    async def _encode(self, loop: asyncio.AbstractEventLoop, ask: Ask, seen: Glance, until: float) -> Decision:
        """The encoder's verdict, or that of words when it would come too late. `until`: loop time."""
        running = self._running.get(ask)
        left = until - loop.time()
        if running is None:
            waiting = len(self._running)
            if waiting >= MAX_WAITING or waiting * self._pace > left:
                # It would miss its deadline in the queue; better to say so at once, and not to lengthen the queue.
                return self._fall_back(seen, "busy")
            running = _Running(seen, loop.run_in_executor(self._threads.encoding, self._work, ask, seen))
            self._running[ask] = running
            running.verdict.add_done_callback(lambda _: self._running.pop(ask, None))
        # `wait` leaves the future alone: one impatient request must not take the verdict from the others.
        await asyncio.wait((running.verdict,), timeout=max(left, 0.0))
        if not running.verdict.done():
            return self._fall_back(seen, "late")
        if running.verdict.cancelled():
            return self._fall_back(seen, "failed")
        try:
            return running.verdict.result()
        except Exception:
            log.exception("encoder failed")
            return self._fall_back(seen, "failed")

    def _work(self, ask: Ask, seen: Glance) -> Decision:
        """On the encoder's thread: the verdict, and how long one takes now."""
        began = time.perf_counter()
        decision = self._classifier.decide(ask, seen)
        self._pace += 0.1 * (time.perf_counter() - began - self._pace)
        return decision

    def _fall_back(self, seen: Glance, why: str) -> Decision:
        self._metrics.router_fallbacks.labels(why).inc()
        return seen.decision

    async def explain(self, messages: Sequence[Mapping[str, Any]], *, has_tools: bool = False) -> Explanation:
        """All that goes into the verdict on a request's messages. Raises ApiError (503) when too many ask."""
        if self._asked_why >= MAX_EXPLAINING:
            raise explaining_busy()
        self._asked_why += 1
        try:
            work = partial(self._explain, messages, has_tools)
            return await asyncio.get_running_loop().run_in_executor(self._threads.explaining, work)
        finally:
            self._asked_why -= 1

    def _explain(self, messages: Sequence[Mapping[str, Any]], has_tools: bool) -> Explanation:
        """On the explaining thread."""
        if self._explainer is None:
            self._explainer = Explainer(self._classifier, load_exemplars())
        return self._explainer.explain(self.read(messages, has_tools=has_tools), sentences=True)

    def close(self) -> None:
        self._threads.close()
        if self._shadow is not None:
            self._shadow.close()


class Threads:
    """One on which the encoder runs, and one on which verdicts are explained."""

    def __init__(self) -> None:
        self.encoding = ThreadPoolExecutor(1, thread_name_prefix="router")
        self.explaining = ThreadPoolExecutor(1, thread_name_prefix="explain")

    def close(self) -> None:
        for thread in (self.encoding, self.explaining):
            thread.shutdown(wait=False, cancel_futures=True)


def _models(settings: config.Router) -> tuple[object, ...]:
    """Which files verdicts are made with."""
    return settings.encoder, settings.head, settings.folder


def _judging(settings: config.Router) -> tuple[object, ...]:
    """What a verdict follows from: all but the patience with it, and who looks over its shoulder."""
    fields = settings.model_dump(exclude={"deadline", "noise_tags", "shadow_head"})
    return *fields.values(), list(settings.routes)  # in their order


def load_classifier(settings: config.Router, models: Models | None = None) -> Classifier:
    """What the config names; `models`: those of its files, loaded before. Raises RouterUnavailable, and ValueError on a
    route that can never match."""
    return load(
        threshold=settings.threshold,
        max_missed=settings.max_missed_reasoning,
        target_share=settings.target_reasoning_share,
        mode=Mode(settings.mode),
        cache_size=settings.cache_size,
        routes=[_user_route(name, route) for name, route in settings.routes.items()],
        head=_path(settings.head),
        encoder=_path(settings.encoder),
        folder=_path(settings.folder),
        models=models,
    )


def _shadow(settings: config.Router, metrics: Metrics) -> Shadow | None:
    if settings.shadow_head is None:
        return None
    classifier = load(
        mode=Mode.ACCURATE,
        cache_size=0,
        head=_path(settings.shadow_head),
        encoder=_path(settings.encoder),
        folder=_path(settings.folder),
    )
    return Shadow(classifier, metrics)


def _path(name: str | None) -> Path | None:
    return Path(name) if name is not None else None


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
