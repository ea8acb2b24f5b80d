"""The life of one request: a flight of one or more legs that the client sees as one answer.

The only place that starts a second leg. Cutting a thought and going on to the answer is the same act as any other
change of legs: end this one, start another from what the client already has. How a leg speaks to an engine, how
deltas become bytes and what a verdict means are other rooms' business.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Protocol

from budgets import How, Plan, Ruling, native_limit
from gateway.account import Account
from gateway.bands import band_of
from gateway.closing import Limit
from gateway.config import LoopAction
from gateway.continuation import Afresh, Continuation, Situation, past_thought
from gateway.deltas import Delta, Text
from gateway.edge.errors import INTERNAL, SHUTTING_DOWN, ApiError, bad_request, deadline_passed
from gateway.engines import Call
from gateway.landing import Landing, finishes_of, outcome_of, report_of
from gateway.launch import Launcher
from gateway.ledger import Books, EndedBy, Entry, Outcome
from gateway.leg import Leg, LegFailed
from gateway.legwatch import LegWatch, Orders, Transcript
from gateway.orders import Flown, loop_orders
from gateway.pools import Pool, Worker
from gateway.pools.affinity import conversation_of
from gateway.query import Query
from gateway.reading import Identity
from gateway.steps import MAX_MOVES, Steps
from gateway.upstream import End
from parsers import Field
from router import Decision


class Sink(Protocol):
    """Where a flight's deltas go: a stream, or one unary body."""

    async def write(self, deltas: list[Delta], identity: Identity) -> None: ...
    async def land(self, landing: Landing) -> None: ...
    async def fail(self, error: ApiError) -> None: ...


class Flight:
    """One client request on its way. `run` once."""

    def __init__(self, query: Query, decision: Decision, plan: Plan, pool: Pool, books: Books) -> None:
        self._query = query
        self._decision = decision
        self._plan = plan
        self._pool = pool
        self._books = books
        self._loop = asyncio.get_running_loop()
        self._entry = Entry(
            request_id=query.request_id,
            caller=query.caller,
            route=decision.route,
            pool=pool.name,
            complexity=decision.complexity,
            started=self._loop.time(),
            band=band_of(decision),
            cap=plan.cap,
            gpu_hour_price=pool.config.gpu_hour_price,
            trace=query.trace,
        )
        total = plan.deadlines.total
        self._limit = Limit(total, deadline_passed(total))
        self._launcher = Launcher(pool, self._entry, plan.deadlines, conversation_of(query.messages))
        self._leg: Leg | None = None
        self._capped: Leg | None = None
        """The leg whose engine was told the cap."""
        self._flooded: list[Worker] = []
        self._identity = Identity("", 0, "")
        self._first: Call | None = None
        """The chat request that the engine is asked first, and that all later legs go on from."""
        self._told = Transcript()
        self._account = Account()
        self._steps = Steps(loop_orders(query, pool))
        self._watch = LegWatch(self._told, Orders(), choices=query.choices)

    async def run(self, sink: Sink) -> None:
        """Fly to the end. Errors go to the sink; a cancellation means that the client is gone."""
        self._books.begin(self._entry)
        try:
            async with self._limit:
                await self._fly(sink)
        except LegFailed as failed:
            await self._fail(sink, failed.error)
        except ApiError as error:
            await self._fail(sink, error)
        except asyncio.CancelledError:
            self._entry.outcome = Outcome.CLIENT_GONE
            raise
        except Exception:
            self._entry.status, self._entry.problem = 500, INTERNAL
            raise
        finally:
            # Nothing here awaits, so no cancellation can come between: the engine stops, the entry is written.
            if self._leg is not None:
                self._leg.end(End.ABANDONED)
            self._settle_leg()
            self._settle_entry()
            self._books.close(self._entry, self._loop.time())

    def break_off(self, error: ApiError) -> None:
        """End it with this error, unless it is over."""
        self._limit.break_off(error)

    async def _fly(self, sink: Sink) -> None:
        leg = await self._take_off()
        while True:
            try:
                ruling = await self._stream(leg, sink)
            except LegFailed as failed:
                leg = await self._move(leg, failed)
                continue
            if ruling is Ruling.SICK:
                leg = await self._elsewhere(leg)
                continue
            self._settle_leg()
            now = self._situation(leg)
            step = self._steps.after(now, self._watch, ruling)
            self._note_overrun_of(leg, ruling)
            if step is None:
                break
            if isinstance(step, Continuation):
                self._tell(step)
                await sink.write(step.spoken, self._identity)
            stay = leg.worker if self._keeps_worker(step) else None
            leg = await self._follow(step, now, stay)
        await sink.land(self._landing())

    async def _follow(self, step: Continuation | Afresh, now: Situation, stay: Worker | None) -> Leg:
        """The next leg: on `stay` if it can, else on a worker that can go on, and another one than the last if any."""

        def fits(worker: Worker) -> bool:
            return not isinstance(step, Continuation) or step.path_on(worker, now) is not None

        make = partial(step.call_for, now=now)
        return self._begin(await self._launcher.launch(make, step.kind, stay=stay, avoid=now.worker, fits=fits))

    async def _move(self, leg: Leg, failed: LegFailed) -> Leg:
        """The worker was lost in mid-stream. Raises LegFailed where the flight cannot go on from what was told, and for
        what is the request's own fault."""
        leg.end(End.ABANDONED)
        told = self._told
        if not failed.is_workers_failure and not failed.is_back_pressure:
            raise failed
        has_told = bool(told.thought or told.said or told.has_called)
        if failed.culprit is not None and has_told:
            raise failed  # what was told came from a cache that was never whole
        self._launcher.note_lost(failed.culprit or leg.worker)
        if not has_told:
            if self._steps.restarts >= MAX_MOVES:
                raise failed
            self._steps.restarts += 1
            self._leg = None
            return await self._take_off(avoid=leg.worker)  # nothing was told: it begins anew
        self._settle_leg()
        now = self._situation(leg)
        step = self._steps.elsewhere(now, self._watch, self._query)
        if isinstance(step, str):
            failed.error.message = f"{failed.error.message} The request could not go on elsewhere: {step}."
            raise failed
        told.matchers.clear()  # what a stop string held back was not told, and is said again
        return await self._follow(step, now, None)

    def _note_flood(self, worker: Worker) -> None:
        """Two workers in one flight: then it is the prompt's doing, and neither is sick."""
        self._flooded.append(worker)
        if len(self._flooded) == 1:
            self._pool.note_flood(worker)
        else:
            for one in self._flooded:
                self._pool.note_well(one)

    def _keeps_worker(self, step: Continuation | Afresh) -> bool:
        """The next leg goes where its prefix is cached, but not back to a worker that is sick."""
        return isinstance(step, Continuation) and not self._watch.has_flooded

    async def _elsewhere(self, leg: Leg) -> Leg:
        """The worker is sick, and nothing it said was told: the leg never was, and another worker is asked."""
        self._steps.note_flood(self._situation(leg), self._watch)
        self._entry.wasted += self._watch.held_tokens
        self._note_flood(leg.worker)
        self._leg = None
        return await self._take_off(avoid=leg.worker)

    async def _take_off(self, avoid: Worker | None = None) -> Leg:
        """The first leg. An engine that refuses to be told a cap (vLLM without a reasoning parser) is not told again:
        its thoughts are cut from now on, this request's too."""
        pool, body = self._pool, self._query.body

        def fits(worker: Worker) -> bool:
            if self._plan.closes:
                return pool.path(worker, body) is not None
            return self._plan.how is How.OFF or pool.means(worker, body) is not How.NONE

        def make(worker: Worker) -> Call:
            if self._plan.how is not How.OFF:
                self._plan = replace(self._plan, how=pool.means(worker, body))
            if self._plan.how is How.NONE and self._query.intent.cap is not None:
                raise self._cannot_hold()
            self._first = call = pool.dialect.chat(body, pool.profile, self._plan)
            if call.engine_splits is None and worker.capabilities is not None:
                call = replace(call, engine_splits=worker.capabilities.splits)
            return past_thought(call, worker, pool, self._plan) if self._plan.closes else call

        kind = "first" if avoid is None else "retry"

        try:
            return self._begin(await self._launcher.launch(make, kind, avoid=avoid, fits=fits))
        except LegFailed as failed:
            worker = self._launcher.worker
            refused = pool.dialect.refuses_cap(failed.error.status, failed.error.message)
            if self._plan.how is not How.NATIVE or not refused or worker is None:
                raise
            pool.note_overrun(worker)
        return self._begin(await self._launcher.launch(make, "first", stay=worker, fits=fits))

    def _begin(self, leg: Leg) -> Leg:
        self._leg = leg
        if self._steps.is_first:
            self._identity = leg.identity
        if self._plan.how is How.NATIVE and self._steps.is_first:
            self._capped = leg
        self._told.begin_leg()
        self._watch = LegWatch(self._told, self._flown.orders(leg), choices=self._query.choices)
        return leg

    async def _stream(self, leg: Leg, sink: Sink) -> Ruling | None:
        """Pass a leg on until it is done (None) or a thought must end (the ruling)."""
        late = self._entry.started + self._plan.deadlines.thought if self._flown.is_held(leg.worker) else float("inf")
        while (deltas := await leg.read()) is not None:
            passed, ruling = self._watch.take(deltas)
            self._note_first_tokens()
            if ruling is None and self._watch.is_thinking and self._loop.time() > late and not self._watch.is_in_call:
                ruling = Ruling.DEADLINE
            if ruling is not None or self._watch.is_stopped:
                if ruling is not None and leg.trace is not None:
                    leg.trace.cut(ruling)
                leg.end(End.ABANDONED)  # first the engine stops, then the client hears of it
            if passed:
                await sink.write(passed, leg.identity)
            if ruling is not None:
                return ruling
            if self._watch.is_stopped:
                return None
        leg.end(End.FINISHED)
        return None

    def _note_first_tokens(self) -> None:
        entry, told = self._entry, self._told
        if entry.first_token is None and (told.thought or told.is_answered):
            entry.first_token = self._loop.time()
            entry.began_with_thought = bool(told.thought)
        if entry.first_answer_token is None and told.is_answered:
            entry.first_answer_token = self._loop.time()

    def _situation(self, leg: Leg) -> Situation:
        account = self._account
        assert self._first is not None
        return Situation(
            first=self._first,
            query=self._query.body,
            told=self._told,
            leg_ids=leg.sent_ids,
            pool=self._pool,
            plan=self._plan,
            used=account.completion,
            reasoning=account.reasoning,
            worker=leg.worker,
            can_hold=self._flown.can_follow(leg.worker),
        )

    def _note_overrun_of(self, leg: Leg, ruling: Ruling | None) -> None:
        """Was a leg that was told its cap cut by the gateway? A later leg is not told."""
        if ruling is Ruling.CAP and self._plan.how is How.NATIVE and leg is self._capped:
            self._note_overrun(leg.worker)

    def _tell(self, onward: Continuation) -> None:
        """The words put in become part of what was told."""
        self._entry.trimmed += self._trimmed_by(onward)
        self._account.inject(onward.thought_tokens, onward.answer_tokens)
        said = [d.text for d in onward.spoken if isinstance(d, Text) and d.field is Field.CONTENT]
        self._told.go_on_from(onward.prefix.thought or "", said)

    def _trimmed_by(self, onward: Continuation) -> int:
        """Tokens of thought that were told and are not gone on from, by their share of its characters."""
        whole = sum(map(len, self._told.thought))
        return round(self._account.reasoning * onward.dropped / whole) if whole else 0

    def _cannot_hold(self) -> ApiError:
        """No worker that is left can hold a number that the plan was made for."""
        return bad_request(
            "No worker that is ready can hold this request to a number of thinking tokens.",
            param=self._query.intent.source,
            code="unsupported_value",
        )

    def _note_overrun(self, worker: Worker | None) -> None:
        if worker is not None:
            if worker in self._pool.workers:  # of one that was removed no series may come back
                self._entry.overran_on = worker.name
            self._pool.note_overrun(worker)

    def _settle_leg(self) -> None:
        """Book the leg that is over; once each."""
        leg, self._leg = self._leg, None
        if leg is None:
            return
        self._account.book(leg, self._watch, is_first=self._steps.is_first)
        if self._steps.loops.action is LoopAction.RESCUE and self._watch.has_flooded:
            self._note_flood(leg.worker)

    def _settle_entry(self) -> None:
        entry, account = self._entry, self._account
        entry.prompt, entry.cached = account.prompt, account.cached or 0
        entry.reasoning, entry.answer = account.reasoning, max(0, account.completion - account.reasoning)
        entry.injected = account.injected

    def _landing(self) -> Landing:
        entry, told = self._entry, self._told
        finishes = finishes_of(told, self._watch)
        entry.ended_by = self._steps.ended_by
        if told.thought and entry.ended_by is None:
            entry.ended_by = EndedBy.CAP if self._is_at_native_cap else EndedBy.MODEL
        if self._is_native_overrun:
            self._note_overrun(self._launcher.worker)
        entry.loops = self._steps.notes
        entry.outcome = outcome_of(entry, finishes, was_cut=bool(self._steps.cuts))
        if self._launcher.worker is not None and not self._watch.has_flooded:
            self._pool.note_well(self._launcher.worker)
        report = report_of(entry, self._decision, self._pool, self._plan, self._account)
        return Landing(finishes, self._account, report)

    @property
    def _flown(self) -> Flown:
        return Flown(self._query, self._plan, self._pool, self._account, self._steps)

    @property
    def _is_native_overrun(self) -> bool:
        """Did a thought that could not be cut go on past the cap its engine was told? Seen only when it is over."""
        cap = self._plan.cap
        worker = self._launcher.worker
        if self._plan.how is not How.NATIVE or cap is None or self._query.choices > 1 or worker is None:
            return False
        if self._flown.is_held(worker):
            return False
        return self._account.reasoning >= native_limit(cap)

    @property
    def _is_at_native_cap(self) -> bool:
        """vLLM does not say that its cap has acted; it counts a newline that the prompt put after the open marker."""
        cap = self._plan.cap
        return self._plan.how is How.NATIVE and cap is not None and self._account.reasoning >= cap - 1

    async def _fail(self, sink: Sink, error: ApiError) -> None:
        self._entry.outcome = _outcome_of(error)
        self._entry.status = error.status
        self._entry.problem = error.code or str(error.status)
        if self._entry.first_token is not None:
            error.headers.setdefault("x-should-retry", "false")  # an SDK's retry would burn the same GPU time again
        if self._leg is not None:
            self._leg.end(End.ABANDONED)
        await sink.fail(error)


def _outcome_of(error: ApiError) -> Outcome:
    if error.code == SHUTTING_DOWN:
        return Outcome.SHUT_DOWN
    return Outcome.REJECTED if error.status < 500 or error.status == 503 else Outcome.FAILED
