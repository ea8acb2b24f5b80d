"""How a dialect's questions reach a worker outside the streaming path: over httpx, with an id of their own.

Whatever listens there, an answer is bounded in time and in size, and a redirect is an answer like any other.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from gateway.config import Pool as PoolConfig
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.engines.capabilities import Ask
from gateway.pools.worker import Worker

MAX_ANSWER = 4 * 1024 * 1024
"""Bytes. The /metrics of a large vLLM deployment have some 200 kB."""


class TooLong(httpx.HTTPError):
    """More than `MAX_ANSWER` bytes came."""


def asking_client(config: PoolConfig, headers: Mapping[str, str]) -> httpx.AsyncClient:
    """For the questions to one pool's workers."""
    return httpx.AsyncClient(
        timeout=config.health.timeout, headers=dict(headers), verify=config.tls_verify, trust_env=False
    )


def asker(client: httpx.AsyncClient, worker: Worker, patience: float) -> Ask:
    """`patience`: seconds for a whole answer. What is asked raises httpx.HTTPError where there is none."""

    async def ask(method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        headers = {REQUEST_ID: request_id(None)}
        request = client.build_request(method, f"{worker.url}{path}", json=body, headers=headers, timeout=patience)
        try:
            async with asyncio.timeout(patience):
                return await _answer(client, request)
        except TimeoutError as error:
            raise httpx.ReadTimeout("no whole answer in time") from error

    return ask


def problem_of(error: httpx.HTTPError) -> str:
    """Why there was no answer, as an operator reads it. Of what was answered 120 characters at most are shown."""
    if isinstance(error, httpx.TimeoutException):
        return "it does not answer in time"
    if not isinstance(error, httpx.ConnectError):
        return f"its answer is broken: {str(error)[:120] or type(error).__name__}"
    causes = tuple(_causes(error))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return f"no TLS connection can be made: {str(error)[:120]}"
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "its name cannot be resolved"
    return "it refuses connections"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


async def _answer(client: httpx.AsyncClient, request: httpx.Request) -> tuple[int, bytes]:
    answer = await client.send(request, stream=True)
    try:
        parts: list[bytes] = []
        size = 0
        async for part in answer.aiter_bytes():
            size += len(part)
            if size > MAX_ANSWER:
                raise TooLong(f"the answer is longer than {MAX_ANSWER} bytes")
            parts.append(part)
        return answer.status_code, b"".join(parts)
    finally:
        await answer.aclose()
