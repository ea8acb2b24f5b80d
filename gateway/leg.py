"""One generation on one worker: started, read as deltas, ended or abandoned.

Whether to end early and what comes next is the flight's to decide; what the bytes mean is `reading`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from budgets import Deadlines
from gateway.deltas import Begin, Delta, Opaque, Text
from gateway.edge.errors import ApiError, engine_broke_off, engine_failed, engine_refused, engine_silent
from gateway.engines import Call, Profile
from gateway.engines.ids import TOKENIZE_PATH
from gateway.observe.trace import LegTrace
from gateway.pools import Worker
from gateway.pools.handoff import HandOff, TransferFailed
from gateway.pools.meter import Bill
from gateway.pools.pressure import prompt_tokens_of, tokens_of
from gateway.pools.verdict import NEUTRAL, SUCCESS, Kind, Verdict, judge, judge_transport
from gateway.query import encode_object
from gateway.reading import AnswerReader, Identity, Prompt
from gateway.upstream import End, Response, UpstreamError, read_whole
from gateway.wire import read_error


class LegFailed(Exception):
    """The leg cannot go on. `retryable`: nothing was generated, so another worker may be asked. `verdict`: what it says
    of the worker, which its pool has been told."""

    def __init__(
        self, error: ApiError, *, retryable: bool, verdict: Verdict | None = None, culprit: Worker | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.retryable = retryable
        self.verdict = verdict or judge(error)
        self.culprit = culprit
        """Whose doing it was, if not the worker's that decodes."""

    @property
    def is_back_pressure(self) -> bool:
        """The worker is well but full: not to be asked again now."""
        return self.verdict.kind is Kind.BACK_PRESSURE

    @property
    def is_workers_failure(self) -> bool:
        """Is the worker to blame, so that another one could go on?"""
        return self.verdict.kind is Kind.FAILURE


class Leg:
    """Made by `launch`. `read` until it gives None; `end` lets the worker go, and stops the engine at any time."""

    def __init__(
        self,
        worker: Worker,
        call: Call,
        profile: Profile,
        headers: Mapping[str, str],
        *,
        hand_off: HandOff | None = None,
        bill: Bill | None = None,
        trace: LegTrace | None = None,
    ) -> None:
        self.worker = worker
        self.call = call
        self.trace = trace
        self._headers = headers
        self._hand_off = hand_off
        self._reader = AnswerReader(call, profile.format)
        self._response: Response | None = None
        self._own_prompt: Prompt | None = None
        self._first: list[Delta] = []
        self._is_let_go = False
        self._verdict = NEUTRAL
        self._seat = worker.seat(tokens_of(call), bill, prompt_tokens_of(call))
        self._sent_ids: tuple[int, ...] = ()
        self._is_launched = False
        self._is_asked = False
        """Has the engine been asked to generate? Some answer nothing at all before their first token."""

    @classmethod
    async def launch(
        cls,
        worker: Worker,
        call: Call,
        profile: Profile,
        deadlines: Deadlines,
        headers: Mapping[str, str],
        *,
        hand_off: HandOff | None = None,
        bill: Bill | None = None,
        trace: LegTrace | None = None,
    ) -> Leg:
        """Send the call and wait for the first delta that means something. With a `hand_off` another worker prefills.
        `bill`: whose it is. Raises LegFailed.

        An engine may answer 200 before it has looked at the request (vLLM), and may name the role before it fails:
        only a delta beyond that says that it generates.
        """
        leg = cls(worker, call, profile, headers, hand_off=hand_off, bill=bill, trace=trace)
        try:
            async with asyncio.timeout(deadlines.first_token):
                await leg._begin()
        except TimeoutError as error:
            failed = late_failure(engine_silent(deadlines.first_token), hand_off)
            leg._verdict = failed.verdict if failed.culprit is None else NEUTRAL
            leg.end(End.ABANDONED)
            raise failed from error
        except LegFailed as failed:
            leg._verdict = failed.verdict if failed.culprit is None else NEUTRAL
            leg.end(End.ABANDONED)
            raise
        except BaseException:
            leg.end(End.ABANDONED)
            raise
        assert leg._response is not None
        leg._response.watch(deadlines.idle)
        leg._is_launched = True
        worker.meter.generates(leg._seat.stint)
        if trace is not None:
            trace.generates()
        return leg

    @property
    def identity(self) -> Identity:
        return self._reader.identity or Identity("", 0, "")

    @property
    def prompt(self) -> Prompt | None:
        """The client's own prompt, where the engine tells its length before it is done."""
        return self._own_prompt or self._reader.prompt or self.handed_prompt

    @property
    def handed_prompt(self) -> Prompt | None:
        """As the worker that prefilled it has counted: the one that decodes calls all of it cached."""
        report = None if self._hand_off is None else self._hand_off.report
        return None if report is None or report.prompt is None else Prompt(report.prompt, report.cached)

    @property
    def sent_ids(self) -> tuple[int, ...]:
        """The token ids of all it was given, where they are known."""
        told = self._reader.prompt
        return self._sent_ids or (() if told is None else told.ids)

    async def read(self) -> list[Delta] | None:
        """The deltas of one read, which may be none; None once the engine is done. Raises LegFailed."""
        if self._first:
            deltas, self._first = self._first, []
            return deltas
        if not self._reader.is_over:
            return await self._hear()
        if self._reader.failure is not None:
            failed = LegFailed(self._reader.failure, retryable=False)
            self._verdict = failed.verdict
            raise failed
        self._verdict = SUCCESS
        return None

    def end(self, how: End) -> None:
        """Let the worker go: FINISHED keeps the connection, ABANDONED stops the engine. Safe to call twice."""
        if self._is_let_go:
            return
        self._is_let_go = True
        if self.trace is not None:
            self.trace.end(how)
        is_there = self._is_asked and (self._hand_off is None or self._hand_off.has_asked)
        aborted = how is End.ABANDONED and is_there and not self._reader.is_over
        verdict = self._verdict if self._hand_off is None else self._hand_off.end(how, self._verdict)
        self.worker.let_go(self._seat, verdict, aborted=aborted)
        if self._response is not None:
            self._response.end(how)

    async def _begin(self) -> None:
        body = await self._by_ids() if self.call.tokenize or self.call.prompt_ids else self.call.body
        self._is_asked = True
        try:
            self._response = response = await (
                self._post(self.call.path, body) if self._hand_off is None else self._hand_over(self._hand_off, body)
            )
        except LegFailed:
            self._is_asked = False
            raise
        if response.status != 200:
            raise await refusal_of(response)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise LegFailed(engine_broke_off("The engine did not answer with a stream."), retryable=True)
        while not self._reader.is_over and all(isinstance(delta, Begin | Opaque) for delta in self._first):
            self._first += await self._fill()
        failure = self._reader.failure
        if failure is not None and all(isinstance(delta, Begin | Opaque) for delta in self._first):
            raise LegFailed(failure, retryable=failure.status == 429 or failure.status >= 500)
        if self._hand_off is not None:
            try:
                await self._hand_off.confirm()
            except TransferFailed as failed:
                raise failed_before(failed, is_told=False) from failed

    async def _hear(self) -> list[Delta]:
        """One read, timed: how long an engine that generates lets its streams wait."""
        stride = self.worker.stride
        began, size = stride.wait(), 0
        try:
            deltas = await self._fill()
            size = sum(len(delta.text) for delta in deltas if isinstance(delta, Text))
            return deltas
        finally:
            stride.heard(began, size)
            self._seat.stint.said += size

    async def _fill(self) -> list[Delta]:
        assert self._response is not None
        try:
            data = await self._response.read()
        except UpstreamError as error:
            if self._hand_off is not None and (failed := self._hand_off.failure) is not None:
                raise failed_before(failed, is_told=self._is_launched) from error
            self._reader.fail(engine_failed(error))
            return []
        return self._reader.feed(data)

    async def _by_ids(self) -> dict[str, Any]:
        """The body with the ids it goes on from, asking for no more tokens than fit: vLLM refuses a `max_tokens` beyond
        its context. (SGLang tells the tokenizer's length, which may be more than it serves: there it is no help.)"""
        ids = list(self.call.prompt_ids)
        known = self.worker.capabilities
        context = None if known is None else known.context
        for question in self.call.tokenize:
            response = await self._post(TOKENIZE_PATH, question)
            try:
                if response.status != 200:
                    raise await refusal_of(response)
                found = msgspec.json.decode(await read_whole(response), type=_Tokenized)
                response.end(End.FINISHED)
            except (msgspec.DecodeError, UpstreamError) as error:
                raise LegFailed(engine_broke_off("The engine could not tokenize."), retryable=True) from error
            finally:
                response.end(End.ABANDONED)
            ids += found.tokens
            context = context or found.max_model_len
            if not self.call.prompt_ids:
                self._own_prompt = self._own_prompt or Prompt(len(ids))
        self._sent_ids = tuple(ids)
        body = {**self.call.body, self.call.ids_field: ids}
        if context is not None and "max_tokens" in body:
            body["max_tokens"] = max(1, min(body["max_tokens"], context - len(ids)))
        return body

    async def _hand_over(self, hand_off: HandOff, body: dict[str, Any]) -> Response:
        try:
            return await hand_off.post(self.call.path, self._headers, body)
        except TransferFailed as failed:
            raise failed_before(failed, is_told=False) from failed
        except UpstreamError as error:
            raise LegFailed(engine_failed(error), retryable=True, verdict=judge_transport(error)) from error

    async def _post(self, path: str, body: dict[str, Any]) -> Response:
        try:
            return await self.worker.client.post(path, self._headers, encode_object(body))
        except ApiError as error:
            raise LegFailed(error, retryable=False, verdict=NEUTRAL) from error
        except UpstreamError as error:
            raise LegFailed(engine_failed(error), retryable=True, verdict=judge_transport(error)) from error


def late_failure(error: ApiError, hand_off: HandOff | None) -> LegFailed:
    """Nothing came in all the time there is."""
    late = None if hand_off is None else hand_off.late(error)
    if late is None:
        return LegFailed(error, retryable=False)
    return LegFailed(error, retryable=False, verdict=late.verdict, culprit=late.worker)


def failed_before(failed: TransferFailed, *, is_told: bool) -> LegFailed:
    """The workers before the one that decodes have failed."""
    status = failed.error.status
    retryable = not is_told and (status == 429 or status >= 500)
    return LegFailed(failed.error, retryable=retryable, verdict=failed.verdict, culprit=failed.worker)


async def refusal_of(response: Response) -> LegFailed:
    """An engine's answer that is none: read to its end, so that its connection can be used again."""
    try:
        body = read_error(await read_whole(response))
    except UpstreamError:
        body = read_error(b"{}")
    response.end(End.FINISHED)
    error = engine_refused(response.status, body, response.headers)
    retryable = error.status == 429 or error.status >= 500  # a redirect, or a refused key, is the worker's doing
    return LegFailed(error, retryable=retryable, verdict=judge(error, response.headers))


class _Tokenized(msgspec.Struct):
    tokens: list[int]
    max_model_len: int | None = None
