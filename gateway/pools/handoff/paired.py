"""Questions to a worker that cannot, or need not, generate alone: put to a pair, by the way that requests take.

For canaries and probes. What is asked is theirs; what is not a generation goes to the worker itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.engines.capabilities import Ask
from gateway.pools.handoff.base import TransferFailed
from gateway.pools.handoff.handoff import HandOff
from gateway.pools.verdict import NEUTRAL, SUCCESS
from gateway.pools.worker import Worker
from gateway.upstream import End, UpstreamError, read_whole


class OthersFailure(httpx.HTTPError):
    """It was not the worker that is tried."""


GENERATES = frozenset({"/v1/chat/completions", "/v1/completions"})


def paired(ask: Ask, begin: Callable[[], HandOff], headers: Mapping[str, str], patience: float, tried: Worker) -> Ask:
    """`patience`: seconds for a whole answer; `tried`: whom it is about. Raises httpx.HTTPError, like `ask`, and
    OthersFailure where the other of the two has failed."""

    async def put(method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        if method != "POST" or path not in GENERATES or body is None:
            return await ask(method, path, body)
        try:
            async with asyncio.timeout(patience):
                return await _generate(begin(), path, {**headers, REQUEST_ID: request_id(None)}, dict(body), tried)
        except TimeoutError as error:
            raise httpx.ReadTimeout("no whole answer in time") from error
        except UpstreamError as error:
            raise httpx.ReadError(str(error)) from error

    return put


async def _generate(
    hand_off: HandOff, path: str, headers: Mapping[str, str], body: dict[str, Any], tried: Worker
) -> tuple[int, bytes]:
    how, verdict = End.ABANDONED, NEUTRAL
    try:
        response = await hand_off.post(path, headers, body)
        if response.status != 200 and hand_off.prefill is tried:
            raise OthersFailure(f"the decode worker answers {response.status}")
        try:
            answer = await read_whole(response)
            response.end(End.FINISHED)
        finally:
            response.end(End.ABANDONED)
        if response.status == 200:
            await hand_off.confirm(strictly=True)
            how, verdict = End.FINISHED, SUCCESS
        return response.status, answer
    except TransferFailed as failed:
        if failed.worker is not tried:
            raise OthersFailure(f"{failed.worker.name}: {failed.error.message}") from failed
        return failed.error.status, failed.error.body()
    finally:
        hand_off.end(how, verdict)
