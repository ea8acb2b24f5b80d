"""One request that is passed through to one worker: bytes as they are, seen only as far as telling its end needs.

The counterpart of a leg for routes that carry no thoughts. Which worker is asked is `attempts`' business, who is told
`api.relay`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from gateway import sse
from gateway.config import Timeouts
from gateway.edge.errors import ApiError, engine_broke_off, engine_failed, engine_silent
from gateway.leg import LegFailed, failed_before, late_failure, refusal_of
from gateway.pools import Worker
from gateway.pools.handoff import HandOff, TransferFailed
from gateway.pools.pressure import BYTES_A_TOKEN
from gateway.pools.verdict import NEUTRAL, SUCCESS, judge_transport
from gateway.reading import failure_in, without_internals
from gateway.upstream import End, Response, UpstreamError, read_whole


@dataclass(frozen=True, slots=True)
class Question:
    """What every worker that is tried is sent."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    raw: bytes
    """The body, encoded."""
    is_streamed: bool


class Passage:
    """Made by `begin`. An answer is either `whole`, or a stream to be `read`; `end` lets the worker go at any time."""

    def __init__(self, worker: Worker, question: Question, hand_off: HandOff | None = None) -> None:
        self.whole: bytes | None = None
        self._worker = worker
        self._question = question
        self._hand_off = hand_off
        tokens = len(question.raw) // BYTES_A_TOKEN
        self._seat = worker.seat(tokens, prompt=tokens)
        self._verdict = NEUTRAL
        self._response: Response | None = None
        self._splitter = sse.Splitter()
        self._first = b""
        self._is_asked = False
        self._is_over = False
        self._is_let_go = False
        self._failed: LegFailed | None = None

    @classmethod
    async def begin(
        cls, worker: Worker, question: Question, patience: Timeouts, hand_off: HandOff | None = None
    ) -> Passage:
        """Wait for the whole answer, or for the first event of a stream. With a `hand_off` another worker prefills.
        Raises LegFailed.

        An engine that answers in one piece has nothing to say before it is done, so only the request's whole time
        limits that.
        """
        passage = cls(worker, question, hand_off)
        try:
            async with asyncio.timeout(patience.first_token if question.is_streamed else None):
                await passage._begin()
        except TimeoutError as error:
            failed = late_failure(engine_silent(patience.first_token), hand_off)
            passage._verdict = failed.verdict if failed.culprit is None else NEUTRAL
            passage.end()
            raise failed from error
        except LegFailed as failed:
            passage._verdict = failed.verdict if failed.culprit is None else NEUTRAL
            passage.end()
            raise
        except BaseException:
            passage.end()
            raise
        if passage.whole is None and passage._response is not None:
            passage._response.watch(patience.idle)
        return passage

    @property
    def is_complete(self) -> bool:
        """Has a stream said all, `[DONE]` with it?"""
        return self._is_over and self._failed is None

    @property
    def failure(self) -> ApiError | None:
        """Why a stream has ended badly, once `read` has given None."""
        return None if self._failed is None else self._failed.error

    async def read(self) -> bytes | None:
        """Whole events, as many as have come; None at the end. `[DONE]` is the last of a good one."""
        first, self._first = self._first, b""
        if first:
            return first
        while not self._is_over:
            if told := await self._hear():
                return told
        return None

    def end(self) -> None:
        """Let the worker go; an engine that is not done stops. Safe to call twice."""
        if self._is_let_go:
            return
        self._is_let_go = True
        is_over = self._is_over or self.whole is not None
        how = End.FINISHED if self.is_complete or self.whole is not None else End.ABANDONED
        verdict = self._verdict if self._hand_off is None else self._hand_off.end(how, self._verdict)
        is_there = self._is_asked and (self._hand_off is None or self._hand_off.has_asked)
        self._worker.let_go(self._seat, verdict, aborted=is_there and not is_over)
        if self._response is not None:
            self._response.end(how)

    async def _begin(self) -> None:
        question = self._question
        self._is_asked = True
        try:
            self._response = response = await self._post()
        except (UpstreamError, TransferFailed) as error:
            self._is_asked = False
            raise self._failure_of(error, is_told=False) from error
        if response.status != 200:
            self._is_asked = False
            raise await refusal_of(response)
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if is_stream is not question.is_streamed:
            raise _broken(f"The engine did not answer with {'a stream' if question.is_streamed else 'one body'}.")
        if is_stream:
            while not self._first and not self._is_over:
                self._first = await self._hear()
            if self._failed is not None and not self._first:
                raise self._failed
            await self._confirm()
            self._worker.meter.generates(self._seat.stint)
            return
        try:
            whole = await read_whole(response)
            msgspec.json.decode(whole, type=dict[str, msgspec.Raw])
        except UpstreamError as error:
            raise self._failure_of(error, is_told=False) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise _broken("The engine's answer is not a JSON object.") from error
        await self._confirm()
        self.whole, self._verdict = self._shown(whole), SUCCESS

    def _shown(self, told: bytes) -> bytes:
        """As the client is told it: without what engines tell each other, and with the cached tokens of the worker that
        has prefilled; the other one takes the whole prompt for cached."""
        told = without_internals(told)
        report = None if self._hand_off is None else self._hand_off.report
        if report is None or report.cached is None or b'"usage"' not in told:
            return told
        fields = msgspec.json.decode(told, type=dict[str, Any])
        if not isinstance(fields.get("usage"), dict):
            return told
        usage = cast("dict[str, Any]", fields["usage"])
        return msgspec.json.encode(
            {**fields, "usage": {**usage, "prompt_tokens_details": {"cached_tokens": report.cached}}}
        )

    async def _post(self) -> Response:
        question = self._question
        if self._hand_off is None:
            return await self._worker.client.post(question.path, question.headers, question.raw)
        return await self._hand_off.post(question.path, question.headers, question.body)

    async def _confirm(self) -> None:
        if self._hand_off is not None:
            try:
                await self._hand_off.confirm()
            except TransferFailed as failed:
                raise failed_before(failed, is_told=False) from failed

    def _failure_of(self, error: UpstreamError | TransferFailed, *, is_told: bool) -> LegFailed:
        """A transfer that failed is why the answer of the decode worker broke off."""
        failed = error if isinstance(error, TransferFailed) else self._hand_off.failure if self._hand_off else None
        if failed is not None:
            return failed_before(failed, is_told=is_told)
        assert isinstance(error, UpstreamError)
        return _lost(error)

    async def _hear(self) -> bytes:
        """The events of one read, framed anew: half of one that broke off must not run into the error that follows."""
        assert self._response is not None
        try:
            data = await self._response.read()
            events = self._splitter.feed(data) if data else self._splitter.finish()
        except UpstreamError as error:
            self._fail(self._failure_of(error, is_told=bool(self._first)))
            return b""
        except sse.EventTooLong as error:
            self._fail(_broken(f"The engine's stream is not readable: {error}."))
            return b""
        told: list[bytes] = []
        for event in events:
            if event == sse.DONE:
                self._is_over, self._verdict = True, SUCCESS
                told.append(sse.DONE_EVENT)
            elif (failure := failure_in(event)) is not None:
                self._fail(LegFailed(failure, retryable=failure.status == 429 or failure.status >= 500))
            else:
                told.append(sse.event(self._shown(event)))
            if self._is_over:
                break
        if not data and not self._is_over:
            self._fail(_broken("The engine's stream ended in the midst of the answer."))
        return b"".join(told)

    def _fail(self, failed: LegFailed) -> None:
        self._is_over = True
        self._failed, self._verdict = failed, failed.verdict if failed.culprit is None else NEUTRAL


def _broken(message: str) -> LegFailed:
    return LegFailed(engine_broke_off(message), retryable=True)


def _lost(error: UpstreamError) -> LegFailed:
    return LegFailed(engine_failed(error), retryable=True, verdict=judge_transport(error))
