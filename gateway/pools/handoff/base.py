"""What every way of moving a prompt's KV cache between two workers has in common: one transfer a leg, used once.

A transfer sends the prompt to the worker that prefills, gets its cache to the one that decodes, and gives back the
latter's answer; who takes part is `pairing`'s to choose, what the answer means is the leg's. Not a word of what it
tells the engines comes from a client, and not a word of what they tell each other goes to one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from gateway.confighandoff import PrefillWorker
from gateway.edge.errors import ApiError, engine_failed, engine_refused
from gateway.pools.handoff.errands import Errands
from gateway.pools.meter import Bill
from gateway.pools.verdict import NEUTRAL, SUCCESS, Verdict, judge, judge_transport
from gateway.pools.worker import Seat, Worker
from gateway.upstream import End, Response, UpstreamError, read_whole
from gateway.wire import read_error


class Side(StrEnum):
    """Whose doing a failure was."""

    ENCODE = "encode"
    PREFILL = "prefill"
    TRANSFER = "transfer"
    """Neither's: what one has sent has not come to the other."""


class TransferFailed(Exception):
    """One of those before the decode worker has failed; the decode worker is not to blame. `error` is for the client,
    `verdict` says what it means for `worker`, which has been told."""

    def __init__(self, worker: Worker, error: ApiError, verdict: Verdict, side: Side = Side.PREFILL) -> None:
        super().__init__(error.message)
        self.worker = worker
        self.error = error
        self.verdict = verdict
        self.side = side


@dataclass(slots=True)
class Report:
    """What a transfer was, for the ledger and for metrics. Times in seconds of the loop's clock."""

    prefill: str
    decode: str
    began: float
    prefilled: float | None = None
    """When the prefill worker had answered."""
    prompt: int | None = None
    """Tokens of the prompt, as the prefill worker counted them."""
    cached: int | None = None
    """Those of them it had in its cache: the decode worker calls all of them cached."""
    is_missing: bool = False
    """Has the prefill worker answered, and handed nothing off?"""
    is_local: bool = False
    """Did the decode worker have to prefill after all, for that?"""
    is_handed: bool = False
    """Has the decode worker generated from it?"""


class Place:
    """A leg's seat on one of the workers before the decode worker; given up once, whatever comes."""

    def __init__(self, worker: Worker, tokens: int, bill: Bill | None = None) -> None:
        """`tokens` of prompt, as estimated; `bill`: whose it is."""
        self.worker = worker
        self._seat: Seat | None = worker.seat(tokens, bill, tokens)

    def leave(self, verdict: Verdict, *, aborted: bool = False) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            self.worker.let_go(seat, verdict, aborted=aborted)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two workers that meet for one leg. `place` is the prefill worker's seat, `source` how it is reached."""

    source: PrefillWorker
    place: Place
    decode: Worker
    report: Report
    errands: Errands
    lease: float
    """Seconds that a cache is kept for whoever has not fetched it."""
    may_be_local: Callable[[], bool]
    """Where nothing was handed off: may the decode worker prefill the prompt once more?"""


class Transfer(Protocol):
    """One generation of a pair. `post` once, then `confirm` before the first delta is passed on; `end` always."""

    report: Report

    async def post(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any], extra: Mapping[str, Any]
    ) -> Response:
        """The decode worker's answer, its head read. `body` is what a unified worker would be sent, `extra` what
        the prefill worker alone is told besides. Raises TransferFailed for the prefill worker's doing, UpstreamError
        for the decode worker's."""
        ...

    @property
    def failure(self) -> TransferFailed | None:
        """What the prefill side has come to since: it may be why the decode worker's answer broke off."""
        ...

    async def confirm(self, *, strictly: bool = False) -> None:
        """Until it is known how the prefill side has ended, or long enough; `strictly`: however long that takes. Raises
        TransferFailed."""
        ...

    def blame(self, verdict: Verdict) -> None:
        """This is the prefill worker's, unless it is known what came of it."""
        ...

    @property
    def has_asked(self) -> bool:
        """Has the decode worker been sent anything?"""
        ...

    def end(self, how: End) -> None:
        """Let the prefill side go, and tell both engines where a closed connection says nothing. Safe to call twice;
        never waits."""
        ...


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class Answer(msgspec.Struct):
    """Of a prefill or encode worker, as far as anybody needs it."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    error: msgspec.Raw | None = None


BROKEN_OFF = frozenset({"abort", "error"})


def broke_off(answer: Answer) -> bool:
    """Has it ended without its token? Then there is no cache, whatever the status says (sglang#30233)."""
    return any(choice.finish_reason in BROKEN_OFF for choice in answer.choices or ())


def refused(place: Place, status: int, body: bytes, headers: Mapping[str, str], side: Side) -> TransferFailed:
    """Not 200: a 4xx keeps its status, since it is the client's fault on whichever leg it is noticed."""
    error = engine_refused(status, read_error(body), headers)
    verdict = judge(error, headers)
    place.leave(verdict)
    return TransferFailed(place.worker, error, verdict, side)


def broken(place: Place, error: UpstreamError, side: Side = Side.PREFILL) -> TransferFailed:
    """A connection that was refused, or broke."""
    verdict = judge_transport(error)
    place.leave(verdict)
    return TransferFailed(place.worker, engine_failed(error), verdict, side)


def senseless(place: Place, message: str, side: Side = Side.PREFILL) -> TransferFailed:
    """An answer that is none."""
    error = ApiError(502, message, "server_error", code="engine_stream_broken")
    verdict = judge(error)
    place.leave(verdict)
    return TransferFailed(place.worker, error, verdict, side)


async def ask_whole(
    place: Place, path: str, headers: Mapping[str, str], body: bytes, side: Side = Side.PREFILL
) -> Answer:
    """An unstreamed answer, read to its end: an unread one would spoil its connection. Raises TransferFailed; the place
    is given up in every case."""
    response: Response | None = None
    verdict, is_whole = NEUTRAL, False
    try:
        response = await place.worker.client.post(path, headers, body, asyncio.Event())
        whole = await read_whole(response)
        response.end(End.FINISHED)
        is_whole = True
        if response.status != 200:
            raise refused(place, response.status, whole, response.headers, side)
        answer = msgspec.json.decode(whole, type=Answer)
        if broke_off(answer):
            raise senseless(place, f"The {side} worker broke off.", side)
        verdict = SUCCESS
    except UpstreamError as error:
        raise broken(place, error, side) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise senseless(place, f"The {side} worker's answer makes no sense.", side) from error
    finally:
        if response is not None:
            response.end(End.ABANDONED)
        place.leave(verdict, aborted=not is_whole)
    return answer


def note_usage(report: Report, answer: Answer) -> None:
    """Prompt and cached tokens are the prefill worker's to tell. One that counts its cache says nothing where there is
    nothing; it is 0 then."""
    usage = answer.usage
    if usage is None:
        return
    report.prompt = usage.prompt_tokens
    details = usage.prompt_tokens_details
    told = details.cached_tokens if details is not None else None
    report.cached = min(told or 0, usage.prompt_tokens or 0)
