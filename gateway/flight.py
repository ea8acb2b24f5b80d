"""The life of one request: a flight of one or more legs that the client sees as one answer.

The only place that starts a second leg. Cutting a thought and going on to the answer is the same act as any other
change of legs: end this one, start another from what the client already has. How a leg speaks to an engine, how
deltas become bytes and what a verdict means are other rooms' business.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from budgets import How, Plan, Ruling, native_limit
from gateway.account import Account
from gateway.continuation import Continuation, Situation, past_thought, to_answer, to_more_thought
from gateway.deltas import Delta, Finish, Text
from gateway.edge.errors import ApiError, bad_request, deadline_passed, engine_broke_off
from gateway.engines import Call
from gateway.launch import Launcher
from gateway.ledger import Books, EndedBy, Entry, Outcome
from gateway.leg import Leg, LegFailed
from gateway.legwatch import LegWatch, Orders, Transcript
from gateway.pools import Pool, Worker
from gateway.query import Query
from gateway.reading import Identity
from gateway.upstream import End
from parsers import Field
from router import Decision

MAX_CUTS = 2
"""Thoughts cut in one flight. A model that thinks again after the second gets no third chance."""

MAX_MORE = 4
"""Times a model is told to think on. One that ends its thought at once each time has nothing to think about."""

SECOND_THOUGHT = 4
"""A model that reopens its thought in the answer leg gets this fraction of the cap for it."""

_PUBLIC_REASONS = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})
"""What a client may be told. vLLM's `repetition` becomes `length`: not complete, in a word that SDKs know."""


_ENDED_BY = {Ruling.CAP: EndedBy.CAP, Ruling.DEADLINE: EndedBy.DEADLINE, Ruling.SHORT: EndedBy.MODEL}


@dataclass(frozen=True, slots=True)
class Landing:
    """The good end of a flight: finish reasons by choice, usage, and the extension object `thinkgate`."""

    finishes: list[Finish]
    account: Account
    report: dict[str, Any]


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
            cap=plan.cap,
        )
        self._launcher = Launcher(pool, self._entry, plan.deadlines)
        self._leg: Leg | None = None
        self._identity = Identity("", 0, "")
        self._told = Transcript()
        self._prompt_ids: tuple[int, ...] = ()
        self._account = Account()
        self._cuts = 0
        self._more = 0
        self._watch = LegWatch(self._told, Orders(), choices=query.choices)

    async def run(self, sink: Sink) -> None:
        """Fly to the end. Errors go to the sink; a cancellation means that the client is gone."""
        self._books.begin(self._entry)
        total = self._plan.deadlines.total
        try:
            async with asyncio.timeout(total):
                await self._fly(sink)
        except TimeoutError:
            await self._fail(sink, deadline_passed(total))
        except LegFailed as failed:
            await self._fail(sink, failed.error)
        except ApiError as error:
            await self._fail(sink, error)
        except asyncio.CancelledError:
            self._entry.outcome = Outcome.CLIENT_GONE
            raise
        finally:
            # Nothing here awaits, so no cancellation can come between: the engine stops, the entry is written.
            if self._leg is not None:
                self._leg.end(End.ABANDONED)
            self._settle_leg()
            self._settle_entry()
            self._books.close(self._entry, self._loop.time())

    async def _fly(self, sink: Sink) -> None:
        leg = await self._take_off()
        first = leg.call
        self._identity = leg.identity
        while True:
            ruling = await self._stream(leg, sink)
            self._settle_leg()
            now = self._situation(first, leg.worker)
            onward = self._onward(now, ruling)
            if onward is None:
                break
            await sink.write(onward.spoken, self._identity)
            kind = "more" if onward.prefix.is_open else "answer"
            make = partial(onward.call_for, now=now)
            leg = self._begin(await self._launcher.launch(make, kind, stay=leg.worker))
        await sink.land(self._landing())

    async def _take_off(self) -> Leg:
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
            call = pool.dialect.chat(body, pool.profile, self._plan)
            return past_thought(call, worker, pool, self._plan) if self._plan.closes else call

        try:
            return self._begin(await self._launcher.launch(make, "first", fits=fits))
        except LegFailed as failed:
            worker = self._launcher.worker
            refused = pool.dialect.refuses_cap(failed.error.status, failed.error.message)
            if self._plan.how is not How.NATIVE or not refused or worker is None:
                raise
            pool.note_overrun(worker)
        return self._begin(await self._launcher.launch(make, "first", stay=worker, fits=fits))

    def _begin(self, leg: Leg) -> Leg:
        self._leg = leg
        self._watch = LegWatch(self._told, self._orders(leg), choices=self._query.choices)
        return leg

    def _orders(self, leg: Leg) -> Orders:
        """For the next leg: the whole cap for a first thought, what is left of it for one that goes on, a part of it
        for one that is taken up again."""
        plan, record = self._plan, self._pool.profile.format
        is_held = self._is_held(leg.worker)
        cap = plan.cap if is_held else None
        if cap is not None and self._cuts:
            cap = max(1, cap // SECOND_THOUGHT)
        elif cap is not None:
            cap = max(1, cap - self._account.reasoning)
        least = 0
        can_resume = is_held and self._pool.path(leg.worker, self._query.body, resuming=True) is not None
        if plan.least and not self._cuts and self._more < MAX_MORE and can_resume:
            least = max(0, plan.least - self._account.reasoning)
        openers = tuple(dict.fromkeys((*record.interrupts, *(begin for begin, _ in record.spans), "<tool_call>")))
        return Orders(
            cap=cap,
            native=plan.how is How.NATIVE and not self._cuts and not self._more,
            least=least,
            stops=leg.call.stops,
            calls=openers if self._query.body.get("tools") else (),
        )

    async def _stream(self, leg: Leg, sink: Sink) -> Ruling | None:
        """Pass a leg on until it is done (None) or a thought must end (the ruling)."""
        late = self._entry.started + self._plan.deadlines.thought if self._is_held(leg.worker) else float("inf")
        while (deltas := await leg.read()) is not None:
            passed, ruling = self._watch.take(deltas)
            self._note_first_tokens()
            if ruling is None and self._watch.is_thinking and self._loop.time() > late:
                ruling = Ruling.DEADLINE
            if ruling is not None or self._watch.is_stopped:
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
        if entry.first_answer_token is None and told.is_answered:
            entry.first_answer_token = self._loop.time()

    def _situation(self, first: Call, worker: Worker) -> Situation:
        used = self._account.completion
        return Situation(first, self._told, self._prompt_ids, self._pool, self._plan, used, worker)

    def _onward(self, now: Situation, ruling: Ruling | None) -> Continuation | None:
        """What follows a leg that is over: more of the thought if it was too short, the answer if it was cut or if the
        model stopped inside it, else nothing."""
        finish = self._watch.finishes.get(0)
        stopped = finish is not None and finish.reason == "stop" and self._is_inside_thought
        onward: Continuation | None = None
        if ruling is Ruling.SHORT or (ruling is None and stopped and self._watch.is_short):
            onward = to_more_thought(now)
            if onward is not None:
                self._more += 1
                return self._tell(onward)
        if ruling is None and not stopped:
            return None
        self._entry.ended_by = _ENDED_BY.get(ruling) if ruling is not None else EndedBy.STOP
        if ruling is Ruling.CAP and self._plan.how is How.NATIVE and not self._cuts:  # a later leg is not told the cap
            self._note_overrun(now.worker)
        if self._cuts < MAX_CUTS and self._is_held(now.worker) and not self._told.has_called:
            onward = to_answer(now)
        if onward is None:
            if ruling is not None:
                self._watch.finishes[0] = Finish(0, "tool_calls" if self._told.has_called else "length")
            return None
        self._cuts += 1
        return self._tell(onward)

    def _tell(self, onward: Continuation) -> Continuation:
        """The words put in become part of what was told."""
        self._account.inject(onward.thought_tokens, onward.answer_tokens)
        self._told.thought.append(onward.phrase)
        self._told.thought_ids.append(None)
        self._told.said += [d.text for d in onward.spoken if isinstance(d, Text) and d.field is Field.CONTENT]
        return onward

    def _is_held(self, worker: Worker) -> bool:
        """Does the gateway itself hold the thought to its cap? Behind an engine that was told it, only where an answer
        can follow: a cut without one would be worse than a long thought."""
        if self._query.choices > 1 or self._plan.how not in {How.CUT, How.NATIVE}:
            return False
        return self._plan.how is How.CUT or self._pool.path(worker, self._query.body) is not None

    def _cannot_hold(self) -> ApiError:
        """No worker that is left can hold a number that the plan was made for."""
        return bad_request(
            "No worker that is ready can hold this request to a number of thinking tokens.",
            param=self._query.intent.source,
            code="unsupported_value",
        )

    @property
    def _is_inside_thought(self) -> bool:
        """Has there been nothing but thought? An answer that a stop string ended before its first word is an answer."""
        return bool(self._told.thought) and not self._told.is_answered and not self._told.stopped

    def _note_overrun(self, worker: Worker | None) -> None:
        self._entry.overran = True
        if worker is not None:
            self._pool.note_overrun(worker)

    def _settle_leg(self) -> None:
        """Book the leg that is over; once each."""
        leg, self._leg = self._leg, None
        if leg is None:
            return
        is_first = not self._cuts and not self._more
        if is_first and leg.prompt is not None:
            self._prompt_ids = leg.prompt.ids
        self._account.book(leg, self._watch, is_first=is_first)

    def _settle_entry(self) -> None:
        entry, account = self._entry, self._account
        entry.prompt, entry.cached = account.prompt, account.cached or 0
        entry.reasoning, entry.answer = account.reasoning, max(0, account.completion - account.reasoning)
        entry.injected = account.injected

    def _landing(self) -> Landing:
        finishes: list[Finish] = []
        for index in sorted(self._told.begun):
            finish = self._watch.finishes.get(index)
            if finish is None or finish.reason == "abort":
                raise engine_broke_off("The engine aborted the answer.")
            reason = finish.reason if finish.reason in _PUBLIC_REASONS else "length"
            finishes.append(Finish(index, reason, finish.extras))
        entry = self._entry
        if self._told.thought and entry.ended_by is None:
            entry.ended_by = EndedBy.CAP if self._is_at_native_cap else EndedBy.MODEL
        if self._is_native_overrun:
            self._note_overrun(self._launcher.worker)
        if finishes[0].reason == "length":
            entry.outcome = Outcome.LENGTH
        else:
            entry.outcome = Outcome.CUT_ANSWERED if self._cuts else Outcome.ANSWERED
        report = {
            "route": self._decision.route,
            "pool": self._pool.name,
            "complexity": round(self._decision.complexity, 3),
            "legs": entry.legs,
            "thinking": {
                "how": self._plan.how,
                "cap": self._plan.cap,
                "source": self._plan.source,
                "tokens": self._account.reasoning - self._account.phrases,
                "injected_tokens": self._account.injected,
                "ended_by": entry.ended_by,
            },
        }
        return Landing(finishes, self._account, report)

    @property
    def _is_native_overrun(self) -> bool:
        """Did a thought that could not be cut go on past the cap its engine was told? Seen only when it is over."""
        cap = self._plan.cap
        worker = self._launcher.worker
        if self._plan.how is not How.NATIVE or cap is None or self._query.choices > 1 or worker is None:
            return False
        if self._is_held(worker):
            return False
        return self._account.reasoning >= native_limit(cap)

    @property
    def _is_at_native_cap(self) -> bool:
        """vLLM does not say that its cap has acted; it counts a newline that the prompt put after the open marker."""
        cap = self._plan.cap
        return self._plan.how is How.NATIVE and cap is not None and self._account.reasoning >= cap - 1

    async def _fail(self, sink: Sink, error: ApiError) -> None:
        self._entry.outcome = Outcome.REJECTED if error.status < 500 or error.status == 503 else Outcome.FAILED
        self._entry.status = error.status
        self._entry.problem = error.code or str(error.status)
        if self._entry.first_token is not None:
            error.headers.setdefault("x-should-retry", "false")  # an SDK's retry would burn the same GPU time again
        if self._leg is not None:
            self._leg.end(End.ABANDONED)
        await sink.fail(error)
