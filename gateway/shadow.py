"""The shadow model: it decides too, is counted, and has no effect — on verdicts, on errors, or on anyone's waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

import structlog

from gateway.observe.metrics import Metrics
from router import Ask, Classifier, Decision

log = structlog.get_logger("thinkgate.router")

MOST_WAITING: Final = 16
"""Prompts in the shadow's queue from which on newcomers are skipped: a sample says as much as all of them."""


class Shadow:
    """On a thread of its own, so that the encoder in force never waits for it."""

    def __init__(self, classifier: Classifier, metrics: Metrics) -> None:
        self._classifier = classifier
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shadow")
        self._waiting = 0
        self._lock = Lock()
        self._verdicts = metrics.router_shadowed

    def look(self, ask: Ask, decision: Decision) -> None:
        """Let it decide, and count whether it agrees with the decision. Returns at once."""
        with self._lock:
            is_behind = self._waiting >= MOST_WAITING
            self._waiting += not is_behind
        if is_behind:
            self._verdicts.labels("skipped").inc()
        else:
            self._thread.submit(self._compare, ask, decision)

    def _compare(self, ask: Ask, decision: Decision) -> None:
        try:
            agrees = self._classifier.decide(ask).route is decision.route
        except Exception:
            log.exception("shadow model failed")
            return
        finally:
            with self._lock:
                self._waiting -= 1
        self._verdicts.labels("yes" if agrees else "no").inc()

    def close(self, *, wait: bool = False) -> None:
        self._thread.shutdown(wait=wait, cancel_futures=not wait)
