"""Both legs at once, for connectors whose prefill worker sends the cache to a decode worker that waits for it.

The first leg that fails decides: the other is ended, and told so. Awaiting the prefill leg first would wait for ever on
SGLang, and for a lease on vLLM's pushing connectors. What the two are sent is the subclasses'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway import sse
from gateway.edge.errors import ApiError
from gateway.pools.handoff.base import (
    Answer,
    Pair,
    Side,
    TransferFailed,
    broke_off,
    broken,
    note_usage,
    refused,
    senseless,
)
from gateway.pools.verdict import NEUTRAL, SUCCESS, Verdict
from gateway.pools.worker import Worker
from gateway.query import encode_object
from gateway.upstream import End, Response, UpstreamError, read_whole

CONFIRMED_WITHIN = 1.0
"""Seconds that the first delta is held back for the prefill leg's end: a decode worker may stream nonsense over a
cache that never came (sglang#30233). A prefill worker that is well has answered before there is a delta."""


class Beside:
    """`_bodies` gives what each of the two is sent, `_told_off` what an engine is told when its leg is given up."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._place = pair.place
        self._decode = pair.decode
        self._prefilling: asyncio.Task[None] | None = None
        self._decoding: asyncio.Task[Response] | None = None
        self._response: Response | None = None
        self._failure: TransferFailed | None = None
        self._is_sent = asyncio.Event()
        """Is the prefill worker's request on its way?"""
        self._is_streamed = False
        """Does the decode worker answer with its first token, and not only with its last?"""
        self._lateness: asyncio.TimerHandle | None = None
        self._is_over = False
        self.report = pair.report

    def _bodies(self, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    def _prefill_headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        return headers

    def _tell_off(self, worker: Worker) -> None:
        """This worker's leg is given up. vLLM sees it by the closed connection."""

    async def post(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any], extra: Mapping[str, Any]
    ) -> Response:
        loop = asyncio.get_running_loop()
        self._is_streamed = bool(body.get("stream"))
        first, second = self._bodies(headers, body)
        first = {**first, **extra}
        self._prefilling = loop.create_task(self._prefill(path, self._prefill_headers(headers), encode_object(first)))
        self._decoding = loop.create_task(self._ask_decode(path, headers, encode_object(second)))
        try:
            await asyncio.wait({self._prefilling, self._decoding}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure is None:
                await asyncio.wait({self._decoding})
            if self._failure is not None:
                raise self._failure
            self._response = self._decoding.result()
        except BaseException:
            self.end(End.ABANDONED)
            raise
        return self._response

    async def _ask_decode(self, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Once the prefill worker has been reached: alone, a decode worker would wait for its time-out."""
        await self._is_sent.wait()
        return await self._decode.client.post(path, headers, body, asyncio.Event())

    @property
    def failure(self) -> TransferFailed | None:
        return self._failure

    async def confirm(self, *, strictly: bool = False) -> None:
        self._stop_waiting()
        task = self._prefilling
        if task is not None and not task.done():
            await asyncio.wait({task}, timeout=None if strictly else CONFIRMED_WITHIN)
        if self._failure is not None:
            raise self._failure

    def blame(self, verdict: Verdict) -> None:
        self._place.leave(verdict, aborted=True)

    @property
    def has_asked(self) -> bool:
        return self._is_sent.is_set()

    def end(self, how: End) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._stop_waiting()
        prefilling, decoding = self._prefilling, self._decoding
        if prefilling is not None and not prefilling.done():
            prefilling.cancel()
            self._tell_off(self._place.worker)
        if decoding is not None and not decoding.done():
            decoding.add_done_callback(_close)
            decoding.cancel()
        elif decoding is not None and self._response is None:
            _close(decoding)
        if decoding is not None and how is End.ABANDONED and self._is_sent.is_set():
            self._tell_off(self._decode)
        if prefilling is None:
            self._place.leave(NEUTRAL)

    async def _prefill(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Read to the end whatever comes of it. A failure ends the decode leg, whose reader then asks why."""
        loop = asyncio.get_running_loop()
        response: Response | None = None
        is_whole = False
        try:
            response = await self._place.worker.client.post(path, headers, body, self._is_sent)
            whole = await read_whole(response)
            response.end(End.FINISHED)
            is_whole = True
            self._take(response, whole)
        except UpstreamError as error:
            self._fail(broken(self._place, error))
        except TransferFailed as failed:
            self._fail(failed)
        finally:
            if response is not None:
                response.end(End.ABANDONED)
            self._place.leave(NEUTRAL, aborted=not is_whole)
        self.report.prefilled = loop.time()

    def _stop_waiting(self) -> None:
        if self._lateness is not None:
            self._lateness.cancel()
            self._lateness = None

    def _take(self, response: Response, whole: bytes) -> None:
        if response.status != 200:
            raise refused(self._place, response.status, whole, response.headers, Side.PREFILL)
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        texts = [event for event in sse.Splitter().feed(whole) if event != sse.DONE] if is_stream else [whole]
        try:
            answers = [msgspec.json.decode(text, type=Answer) for text in texts]
        except (msgspec.DecodeError, sse.EventTooLong, RecursionError) as error:
            raise senseless(self._place, "The prefill worker's answer makes no sense.") from error
        if any(answer.error is not None or broke_off(answer) for answer in answers):
            raise senseless(self._place, "The prefill worker failed.")
        for answer in answers:
            note_usage(self.report, answer)
        self._place.leave(SUCCESS)
        if self._is_streamed and not self._is_over:
            loop = asyncio.get_running_loop()
            self._lateness = loop.call_later(self._pair.lease, self._give_up)

    def _give_up(self) -> None:
        """The prefill worker is done, and its cache has never arrived: an engine would wait for minutes."""
        message = f"The KV cache did not arrive within {self._pair.lease:g} s."
        error = ApiError(504, message, "server_error", code="engine_timeout")
        self._fail(TransferFailed(self._place.worker, error, NEUTRAL, Side.TRANSFER))

    def _fail(self, failed: TransferFailed) -> None:
        self._failure = failed
        if self._is_sent.is_set():
            self._tell_off(self._decode)
        if self._response is not None:
            self._response.end(End.ABANDONED)
        elif self._decoding is not None:
            self._decoding.add_done_callback(_close)
            self._decoding.cancel()


def _close(task: asyncio.Task[Response]) -> None:
    """An answer that came in the moment its request was given up."""
    if not task.cancelled() and task.exception() is None:
        task.result().end(End.ABANDONED)
