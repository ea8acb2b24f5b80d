"""Requests that nobody waits for: telling an engine that a leg is over, where a closed connection does not say it.

They are few, short and may fail: what they save is minutes of a slot, or a cache that waits for its lease to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from gateway.pools.worker import Worker
from gateway.query import encode_object
from gateway.upstream import End, UpstreamError, read_whole

log = structlog.get_logger("thinkgate.handoff")

PATIENCE = 10.0
"""Seconds for one of them."""

AT_ONCE = 64
MOST = 8_192
"""Under way at a time, and waiting for that; beyond, the engine's own time-outs have to do."""


class Errands:
    """Of one pool. `close` ends all that run."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._gate = asyncio.Semaphore(AT_ONCE)

    def send(self, worker: Worker, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """Post this, and forget about it."""
        if len(self._running) >= MOST:
            log.warning("too many errands", worker=worker.name, path=path)
            return
        task = asyncio.get_running_loop().create_task(self._post(worker, path, dict(headers), encode_object(body)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _post(self, worker: Worker, path: str, headers: dict[str, str], body: bytes) -> None:
        try:
            async with self._gate, asyncio.timeout(PATIENCE):
                response = await worker.client.post(path, headers, body)
                try:
                    await read_whole(response)
                    response.end(End.FINISHED)
                finally:
                    response.end(End.ABANDONED)
        except (UpstreamError, TimeoutError) as error:
            log.info("an errand came to nothing", worker=worker.name, path=path, problem=str(error)[:200])

    def close(self) -> None:
        for task in tuple(self._running):
            task.cancel()
