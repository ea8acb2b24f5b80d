"""The life of one request: a flight of one or more legs that the client sees as one answer.

The only place that starts a second leg. Cutting a thought and going on to the answer is the same act as any other
change of legs: end this one, start another from what the client already has. How a leg speaks to an engine, how
deltas become bytes and what a verdict means are other rooms' business.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from budgets import How, Plan, Ruling, native_limit
from gateway.continuation import Continuation, continue_to_answer
from gateway.deltas import Delta, Finish, Text
from gateway.edge.errors import ApiError, deadline_passed, engine_broke_off
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import leg_id
from gateway.engines import Call
from gateway.ledger import EndedBy, Entry, Ledger, Outcome
from gateway.leg import Leg, LegFailed
from gateway.legwatch import LegWatch, Transcript
from gateway.pools import Pool, Worker
from gateway.query import Query
from gateway.reading import Identity
from gateway.upstream import End
from parsers import Field
from router import Decision

ATTEMPTS = 3
"""Launches of a leg, over all workers, before the client is told; only while nothing was generated."""

MAX_CUTS = 2
"""Thoughts cut in one flight. A model that thinks again after the second gets no third chance."""

SECOND_THOUGHT = 4
"""A model that reopens its thought in the answer leg gets this fraction of the cap for it."""

_PUBLIC_REASONS = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})
"""What a client may be told. vLLM's `repetition` becomes `length`: not complete, in a word that SDKs know."""


@dataclass(slots=True)
class Account:
    """A flight's usage in tokens, over all its legs: what an OpenAI client reads."""

    prompt: int = 0
    completion: int = 0
    reasoning: int = 0
    cached: int | None = None


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

    def __init__(self, query: Query, decision: Decision, plan: Plan, pool: Pool, ledger: Ledger) -> None:
        self._query = query
        self._decision = decision
        self._plan = plan
        self._pool = pool
        self._ledger = ledger
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
        self._leg: Leg | None = None
        self._worker: Worker | None = None
        self._identity = Identity("", 0, "")
        self._told = Transcript()
        self._prompt_ids: tuple[int, ...] = ()
        self._account = Account()
        self._cuts = 0
        self._phrase_tokens = 0
        self._watch = self._new_watch(())

    async def run(self, sink: Sink) -> None:
        """Fly to the end. Errors go to the sink; a cancellation means that the client is gone."""
        self._ledger.begin(self._entry)
        total = self._pool.config.timeouts.total
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
            self._ledger.close(self._entry, self._loop.time())

    async def _fly(self, sink: Sink) -> None:
        call, leg = await self._take_off()
        self._identity = leg.identity
        while True:
            ruling = await self._stream(leg, sink)
            self._settle_leg()
            onward = self._onward(call, ruling)
            if onward is None:
                break
            await sink.write(onward.spoken, self._identity)
            leg = await self._launch(onward.call, "answer", stay=leg.worker)
        await sink.land(self._landing())

    async def _take_off(self) -> tuple[Call, Leg]:
        """The first leg. An engine that refuses to be told a cap (vLLM without a reasoning parser) is not told again:
        this pool's thoughts are cut from now on, this request's too."""
        pool = self._pool
        call = pool.dialect.chat(self._query.body, pool.profile, self._plan)
        try:
            return call, await self._launch(call, "first")
        except LegFailed as failed:
            if not (
                self._plan.how is How.NATIVE and pool.dialect.refuses_cap(failed.error.status, failed.error.message)
            ):
                raise
            pool.native_cap_failed(self._worker)
            self._plan = replace(self._plan, how=pool.policy(self._query.body).how)
            if self._plan.how is How.NONE and self._query.intent.cap is not None:
                raise
        call = pool.dialect.chat(self._query.body, pool.profile, self._plan)
        return call, await self._launch(call, "first")

    async def _launch(self, call: Call, kind: str, *, stay: Worker | None = None) -> Leg:
        """A leg that generates: on `stay`, whose cache is warm, if it can; else elsewhere, while nothing was generated.

        Back-pressure is honoured: a worker that says 429 or 503 is not asked again, another one may be.
        """
        tried: list[Worker] = []

        async def attempt() -> Leg:
            worker = stay if stay is not None and stay.is_ready and not tried else self._pool.pick(tried)
            tried.append(worker)
            self._entry.kinds.append(kind if len(tried) == 1 else "retry")
            self._entry.legs += 1
            self._entry.worker = worker.name
            self._worker = worker
            names = {REQUEST_ID: leg_id(self._query.request_id, self._entry.legs), "accept": "text/event-stream"}
            return await Leg.launch(
                worker, call, self._pool.profile, self._pool.config.timeouts, {**self._pool.headers, **names}
            )

        def worth_another_try(error: BaseException) -> bool:
            if not isinstance(error, LegFailed) or not error.retryable:
                return False
            untried = any(worker.is_ready and worker not in tried for worker in self._pool.workers)
            return untried or not error.is_back_pressure

        leg: Leg
        try:
            leg = await attempt()
        except LegFailed as failed:
            if not worth_another_try(failed):
                raise
            retrying = AsyncRetrying(
                retry=retry_if_exception(worth_another_try),
                stop=stop_after_attempt(ATTEMPTS - 1),
                wait=wait_random_exponential(multiplier=0.05, max=0.5),
                reraise=True,
            )
            leg = await retrying(attempt)
        self._leg = leg
        self._watch = self._new_watch(call.stops)
        return leg

    async def _stream(self, leg: Leg, sink: Sink) -> Ruling | None:
        """Pass a leg on until it is done (None) or a thought must end (the ruling)."""
        while (deltas := await leg.read()) is not None:
            passed, ruling = self._watch.take(deltas)
            self._note_first_tokens()
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

    def _new_watch(self, stops: tuple[str, ...]) -> LegWatch:
        """For the next leg: the whole cap for a first thought, a part of it for one that is taken up again."""
        cap = self._plan.cap if self._is_held else None
        if cap is not None and self._cuts:
            cap = max(1, cap // SECOND_THOUGHT)
        return LegWatch(
            self._told,
            cap=cap,
            native=self._plan.how is How.NATIVE and not self._cuts,
            choices=self._query.choices,
            stops=stops,
        )

    def _note_first_tokens(self) -> None:
        entry, told = self._entry, self._told
        if entry.first_token is None and (told.thought or told.is_answered):
            entry.first_token = self._loop.time()
        if entry.first_answer_token is None and told.is_answered:
            entry.first_answer_token = self._loop.time()

    def _onward(self, first: Call, ruling: Ruling | None) -> Continuation | None:
        """The leg after one that is over: to the answer, if the thought was cut or the model stopped inside it."""
        finish = self._watch.finishes.get(0)
        if ruling is not None:
            self._entry.ended_by = EndedBy.CAP
            if self._plan.how is How.NATIVE and not self._cuts:  # a second leg is not told the cap
                self._note_overrun()
        elif finish is not None and finish.reason == "stop" and self._is_inside_thought:
            self._entry.ended_by = EndedBy.STOP
        else:
            return None
        onward = None
        if self._cuts < MAX_CUTS and self._is_held:
            onward = continue_to_answer(
                first,
                self._told,
                self._prompt_ids,
                self._pool,
                self._plan,
                used=self._account.completion,
            )
        if onward is None:
            if ruling is not None:
                self._watch.finishes[0] = Finish(0, "length")
            return None
        self._cuts += 1
        self._entry.injected += onward.tokens
        self._account.completion += onward.tokens
        self._account.reasoning += onward.thought_tokens
        self._phrase_tokens += onward.thought_tokens
        self._told.thought.append(onward.phrase)
        self._told.thought_ids.append(None)
        self._told.said += [d.text for d in onward.spoken if isinstance(d, Text) and d.field is Field.CONTENT]
        return onward

    @property
    def _is_held(self) -> bool:
        """Does the gateway itself hold the thought to its cap? Behind an engine that was told it, only where an answer
        can follow: a cut without one would be worse than a long thought."""
        if self._query.choices > 1 or self._plan.how not in {How.CUT, How.NATIVE}:
            return False
        return self._plan.how is How.CUT or self._pool.can_continue(self._query.body)

    @property
    def _is_inside_thought(self) -> bool:
        """Has there been nothing but thought? An answer that a stop string ended before its first word is an answer."""
        return bool(self._told.thought) and not self._told.is_answered and not self._told.stopped

    def _note_overrun(self) -> None:
        self._entry.overran = True
        self._pool.native_cap_failed(self._worker)

    def _settle_leg(self) -> None:
        """Book the leg that is over; once each."""
        leg, self._leg = self._leg, None
        if leg is None:
            return
        account, usage = self._account, self._watch.usage
        if not self._cuts and leg.prompt is not None:
            self._prompt_ids = leg.prompt.ids
        completion, reasoning = self._watch.count()
        account.completion += completion
        account.reasoning += reasoning
        if account.prompt:
            return
        if usage is not None and not self._cuts:
            account.prompt, account.cached = usage.prompt, usage.cached
        elif leg.prompt is not None:
            account.prompt, account.cached = leg.prompt.tokens, leg.prompt.cached
        elif usage is not None:
            # The first leg was cut before it could say; what this one read is the prompt and the thought.
            account.prompt = max(1, usage.prompt - account.reasoning)

    def _settle_entry(self) -> None:
        entry, account = self._entry, self._account
        entry.prompt, entry.cached = account.prompt, account.cached or 0
        entry.reasoning, entry.answer = account.reasoning, max(0, account.completion - account.reasoning)

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
            self._note_overrun()
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
                "tokens": self._account.reasoning - self._phrase_tokens,
                "injected_tokens": entry.injected,
                "ended_by": entry.ended_by,
            },
        }
        return Landing(finishes, self._account, report)

    @property
    def _is_native_overrun(self) -> bool:
        """Did a thought that could not be cut go on past the cap its engine was told? Seen only when it is over."""
        cap = self._plan.cap
        if self._plan.how is not How.NATIVE or self._is_held or cap is None or self._query.choices > 1:
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
