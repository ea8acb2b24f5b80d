"""The workers of one pool: who may be chosen now, who is left alone and until when, and who is told of it.

Decisions follow from states, pauses and breakers; the policies behind `pick` are `selection`'s, the checks that make a
worker ready are `health`'s. What the workers' model can do is `pool`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import structlog

from gateway.config import Pool as PoolConfig
from gateway.configpool import gpus_of
from gateway.edge.errors import ApiError, all_busy, not_ready
from gateway.pools.crew import Cause, Crew, Crewed
from gateway.pools.meter import Meter, Use
from gateway.pools.selection import POLICIES, Selection
from gateway.pools.states import State
from gateway.pools.verdict import Kind, Verdict
from gateway.pools.worker import Worker, connect, terms_of

log = structlog.get_logger("thinkgate.pool")

FLOODS_OF_THE_SICK = 2
SICK_FOR = 60.0
"""Seconds after which a sick worker is tried again; one that flooded once is only not the first choice until then."""

UNTOLD_PAUSE = 1.0
"""Seconds in which a full worker that named no time is not the first to be chosen."""

FIRST_SHARE = 0.1
"""Part of its share that a worker gets when it has just become ready."""


class Roster(Crewed):
    def __init__(self, name: str, config: PoolConfig, crew: Crew | None = None) -> None:
        """`crew`: that of the same pool under other settings; its workers are not these settings' before `settle`."""
        super().__init__(Crew() if crew is None else crew)
        self.name = name
        self.config = config
        self._selection: Selection = POLICIES[config.selection](self.random)
        self._got_ready = self.crew.got_ready
        if crew is None:
            self.workers = [self._connect(short(url), url) for url in config.workers]

    # --- who may be chosen

    @property
    def is_ready(self) -> bool:
        return any(worker.is_ready for worker in self.workers)

    def is_open(self, worker: Worker, *, urgent: bool = False) -> bool:
        """May a leg begin there now? Not where the engine itself has asked for a pause that is not over; unless the leg
        is `urgent`: its client has seen a part of the answer already, and could not come back for the rest."""
        return worker.is_ready and (urgent or not (worker.pause_is_told and self.clock() < worker.paused_until))

    def has_other(self, tried: Collection[Worker], *, urgent: bool = False) -> bool:
        """Is there a worker that was not tried?"""
        return any(self.is_open(worker, urgent=urgent) and worker not in tried for worker in self.workers)

    def pick(
        self,
        tried: Collection[Worker] = (),
        fits: Callable[[Worker], bool] | None = None,
        key: str | None = None,
        *,
        urgent: bool = False,
        among: Callable[[Worker], bool] | None = None,
    ) -> Worker:
        """A worker that may be chosen: one not yet tried, one that fits, one that is well, not full and rid of its
        aborted legs, if there is any; of those the one that the pool's policy says. `key`: whose conversation it is.
        `among`: no other than these, whatever comes. Raises ApiError (503)."""
        now = self.clock()
        found = [worker for worker in self.workers if self.is_open(worker, urgent=urgent)]
        if among is not None:
            found = [worker for worker in found if among(worker)]
        if not found:
            raise self.unavailable()
        found = [worker for worker in found if worker not in tried] or found
        if fits is not None:
            found = [worker for worker in found if fits(worker)] or found
        willing = [worker for worker in found if worker.breaker.half_open(now) and worker.breaker.admits]
        found = willing or [worker for worker in found if not worker.breaker.is_unreachable] or found
        found = [worker for worker in found if now >= worker.shunned_until] or found
        found = [worker for worker in found if now >= worker.paused_until] or found
        found = [worker for worker in found if not worker.leaving] or found
        return self._selection.choose(self._ramped(found, now), key, now, self.config.health.interval)

    def _ramped(self, workers: Sequence[Worker], now: float) -> Sequence[Worker]:
        """Without some of those that have just become ready: their caches are cold, some kernels not compiled."""
        shares = {worker: self.share(worker, now) for worker in workers}
        most = max(shares.values())
        return [worker for worker, share in shares.items() if self.random.random() < share / most]

    def share(self, worker: Worker, now: float) -> float:
        """The part of its traffic that a worker gets: `FIRST_SHARE` when it becomes ready, 1 after the slow start."""
        slow_start = self.config.health.slow_start
        age = now - worker.life.since
        return 1.0 if age >= slow_start else FIRST_SHARE + (1 - FIRST_SHARE) * age / slow_start

    async def wait_ready(self, patience: float, *, urgent: bool = False) -> None:
        """Until a worker may be chosen, `patience` seconds at most. Raises ApiError (503); at once where waiting is in
        vain."""
        until = self.clock() + patience
        while not self.has_other((), urgent=urgent):
            now = self.clock()
            paused = [worker.paused_until for worker in self.workers if worker.is_ready and worker.paused_until > now]
            due = min(paused, default=until)
            is_in_vain = (paused and due > until) or (not paused and self._got_ready.is_set())
            if self.problem or now >= until or is_in_vain:
                raise self.unavailable()
            if paused:
                await asyncio.sleep(due - now)
                continue
            try:
                async with asyncio.timeout(until - now):
                    await self._got_ready.wait()
            except TimeoutError:
                raise self.unavailable() from None

    def unavailable(self) -> ApiError:
        """Why nobody can be chosen."""
        paused = [worker.paused_until for worker in self.workers if worker.is_ready]
        if paused and not self.problem:
            return all_busy(min(paused) - self.clock())
        reasons = (
            self.problem or "; ".join(sorted({worker.reason for worker in self.workers})) or "it is still starting"
        )
        return not_ready(f"No worker of the pool {self.name!r} is ready: {reasons}.")

    # --- what becomes of them

    def move(self, worker: Worker, state: State, reason: str) -> None:
        """Change a worker's state, where there is a way to it. Logged and told."""
        before = worker.state
        if not worker.life.move(state, reason, self.clock()):
            return
        if any(one.is_ready for one in self.workers):
            self._got_ready.set()
        else:
            self._got_ready.clear()
        log.info("worker", pool=self.name, worker=worker.name, was=before, now=state, reason=reason)
        if self.listener is not None:
            self.listener.moved(self.name, worker)

    def eject(self, worker: Worker, cause: Cause, reason: str, until: float) -> None:
        """Leave it alone; from `until` on (of the roster's clock) its health watch may take it back."""
        worker.ejected_until = until
        before = worker.state
        self.move(worker, State.EJECTED, reason)
        if self.listener is not None and worker.state is not before:
            self.listener.ejected(self.name, worker, cause)

    def note_flood(self, worker: Worker) -> None:
        """It said nothing but one character. Once may be the prompt's doing: it is only not the first to be chosen.
        Twice in a row it is left alone for a while, unless it is the last that is ready."""
        worker.floods += 1
        worker.shunned_until = self.clock() + SICK_FOR
        if self.listener is not None and worker in self.workers:  # of one that was removed no series may come back
            self.listener.flooded(self.name, worker)
        log.warning("a flood from the first token on", pool=self.name, worker=worker.name, in_a_row=worker.floods)
        if worker.floods >= FLOODS_OF_THE_SICK and worker.is_ready and not self._is_last(worker):
            self.eject(worker, Cause.FLOOD, "it generates nothing but one character", self.clock() + SICK_FOR)

    def note_well(self, worker: Worker) -> None:
        """It has generated something sensible."""
        if worker.floods >= FLOODS_OF_THE_SICK and worker.state is State.EJECTED:
            worker.ejected_until = min(worker.ejected_until, self.clock())  # it was the prompt after all
        worker.floods, worker.shunned_until = 0, 0.0

    def note_measured(self, worker: Worker) -> None:
        """Its engine has told how busy it is."""
        if self.listener is not None and worker in self.workers:
            self.listener.measured(self.name, worker)

    def note_retry_refused(self) -> None:
        """A failed launch was worth another try, and the budget for those was spent or nobody was left."""
        if self.listener is not None:
            self.listener.retry_refused(self.name)

    def judge(self, worker: Worker, verdict: Verdict, stamp: int) -> None:
        """What came of a leg. The last ready worker is never ejected for failures: a refusal would help nobody, and
        what is really dead its health checks find out. Nor are more than half of a pool whose requests fail: then it
        is more likely the requests, and whoever listens is needed when another dies."""
        now = self.clock()
        breaker = worker.breaker
        breaker.note(verdict, stamp, now)
        if verdict.kind is Kind.BACK_PRESSURE:
            was_told = worker.pause_is_told and now < worker.paused_until
            worker.paused_until = max(worker.paused_until, now + (verdict.pause or UNTOLD_PAUSE))
            worker.pause_is_told = was_told or verdict.pause > 0
        elif verdict.kind is Kind.SUCCESS:
            worker.paused_until = min(worker.paused_until, now)  # one has left: it has room again
        if self.listener is not None and worker in self.workers:
            self.listener.judged(self.name, worker, verdict)
        has_failed = verdict.kind is Kind.FAILURE and breaker.is_open and not breaker.half_open(now)
        if has_failed and worker.is_ready and not self._is_needed(worker):
            cause = Cause.UNREACHABLE if breaker.is_unreachable else Cause.FAILURES
            reason = "it refuses connections" if breaker.is_unreachable else "its requests fail"
            self.eject(worker, cause, reason, breaker.reopens_at)

    def _is_needed(self, worker: Worker) -> bool:
        """Even though its breaker is open."""
        if worker.breaker.is_unreachable:
            return self._is_last(worker)
        members = [one for one in self.workers if one.state not in {State.DRAINING, State.GONE}]
        failing = [one for one in members if not one.is_ready and one.breaker.is_open]
        return self._is_last(worker) or 2 * (len(failing) + 1) > len(members)

    def _is_last(self, worker: Worker) -> bool:
        return not any(one.is_ready and one is not worker for one in self.workers)

    # --- who belongs to it

    def add(self, url: str) -> Worker:
        """Take in one more worker, or one anew that has gone. Raises ValueError where it is there already."""
        name = short(url)
        known = self.find(name)
        if known is not None and known.state is not State.GONE:
            raise ValueError(f"the pool {self.name!r} has a worker {name!r} already; it is {known.state}")
        if known is not None:
            self.remove(known)
        worker = self._connect(name, url)
        self.workers = [*self.workers, worker]
        log.info("worker added", pool=self.name, worker=name)
        if self.listener is not None:
            self.listener.moved(self.name, worker)
        return worker

    def find(self, name: str) -> Worker | None:
        """By its name or its address."""
        return next((worker for worker in self.workers if name in (worker.name, worker.url)), None)

    def drain(self, worker: Worker) -> None:
        """Nothing new for it; it is gone once its last leg has ended."""
        self.move(worker, State.DRAINING, "it is drained")
        self.let_go_if_empty(worker)

    def remove(self, worker: Worker) -> None:
        """Forget it now; legs that run there break off."""
        self.move(worker, State.GONE, "it was removed")
        self.workers = [one for one in self.workers if one is not worker]
        worker.client.close()
        worker.meter.close()
        if self.listener is not None:
            self.listener.removed(self.name, worker)

    def adopt(self, name: str, url: str) -> None:
        """Take in a worker that is not in the config: the embedded engine's, once it listens."""
        for worker in self.workers:
            self.move(worker, State.GONE, "its engine was started anew")
            worker.meter.close()
        self.close()
        self.workers = [self._connect(name, url)]
        self._got_ready.clear()

    def close(self) -> None:
        for worker in self.workers:
            worker.client.close()

    def settle(self) -> None:
        """From now on these settings are its workers', without a change of their states."""
        for worker in self.workers:
            worker.weight = self.config.weights.get(worker.url, 1.0)
            worker.client.retune(terms_of(self.config))
            worker.on_verdict = self._on_end
            worker.meter.gpus = gpus_of(self.config, worker.url)
            worker.meter.on_use = self._on_use

    def let_go_if_empty(self, worker: Worker) -> None:
        """One that drains has gone when nothing runs there, an aborted leg included: a request whose thought was cut
        comes back for its answer at once."""
        if worker.state is State.DRAINING and not worker.in_flight and not worker.leaving:
            self.move(worker, State.GONE, "it was drained")

    def _connect(self, name: str, url: str) -> Worker:
        worker = connect(name, url, self.config, self.clock())
        worker.departed = self.departed
        worker.on_verdict = self._on_end
        worker.meter = Meter(gpus_of(self.config, url), lambda: self.clock())  # noqa: PLW0108 - a test changes it later
        worker.meter.on_use = self._on_use
        return worker

    def _on_use(self, use: Use) -> None:
        if self.crew.accounts is not None:
            self.crew.accounts(self.name, use)

    def _on_end(self, worker: Worker, verdict: Verdict, stamp: int) -> None:
        self.judge(worker, verdict, stamp)
        self.let_go_if_empty(worker)


def short(url: str) -> str:
    """A worker's name: its address without the scheme."""
    return url.split("://", 1)[-1]
