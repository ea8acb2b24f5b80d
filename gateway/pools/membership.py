"""Workers by a DNS name: whoever it resolves to belongs to the pool, for as long as it does.

Made for headless services, whose name has one address a pod. A worker that is no longer named is drained, not cut off:
what runs there may finish. Where the name cannot be resolved, nothing changes: that is the resolver's trouble.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import structlog

from gateway.pools.roster import Roster, short
from gateway.pools.states import State

log = structlog.get_logger("thinkgate.membership")

INTERVAL = 5.0
"""Seconds between two look-ups; the TTL of cluster DNS is 5 s or 30 s."""

MISSES = 3
"""Look-ups in a row without a worker's address before it is drained: an answer may be cut short."""

Resolve = Callable[[str, int], Awaitable[set[str]]]


async def resolve(host: str, port: int) -> set[str]:
    """All addresses of a name. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return {str(address[0]) for *_, address in found}


class Membership:
    """Keeps one pool to what its name says; workers that came otherwise are not its business."""

    def __init__(
        self, pool: Roster, url: str, resolve: Resolve = resolve, missed: dict[str, int] | None = None
    ) -> None:
        self._pool = pool
        self._parts = urlsplit(url)
        self._resolve = resolve
        self.missed: dict[str, int] = {} if missed is None else missed
        """Of each worker's address: look-ups in a row that did not name it."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:  # what nobody has thought of ends neither this watch nor the gateway
                log.exception("a pool's name cannot be followed", pool=self._pool.name, name=self._parts.hostname)
            await asyncio.sleep(INTERVAL)

    async def look(self) -> None:
        """One look-up."""
        host, port = self._parts.hostname or "", self._parts.port or 80
        try:
            named = {self._url(address, port) for address in await self._resolve(host, port)}
        except (OSError, UnicodeError) as error:  # the latter: a label that is empty, or longer than 63 characters
            log.warning("cannot resolve a pool's name", pool=self._pool.name, name=host, problem=str(error))
            return
        for url in sorted(named):
            self._note_named(url)
        for url in [url for url in self.missed if url not in named]:
            self._note_missing(url)

    def _url(self, address: str, port: int) -> str:
        host = f"[{address}]" if ":" in address else address
        return f"http://{host}:{port}{self._parts.path}"

    def _note_named(self, url: str) -> None:
        self.missed[url] = 0
        known = self._pool.find(url) or self._pool.find(short(url))  # the file may name it by another scheme
        if known is None or known.state is State.GONE:
            self._pool.add(url)

    def _note_missing(self, url: str) -> None:
        self.missed[url] += 1
        known = self._pool.find(url)
        if known is not None and self.missed[url] == MISSES:
            self._pool.drain(known)
        if known is None or known.state is State.GONE:
            del self.missed[url]
            if known is not None:
                self._pool.remove(known)
