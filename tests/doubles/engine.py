"""A double: an engine's routes, its manners, its memory of every request, and the waits a test may use."""

from __future__ import annotations

import asyncio
import errno
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, ClassVar, Final

from tests.doubles.checks import check_headers
from tests.doubles.exchange import End, Exchange
from tests.doubles.http1 import Head
from tests.doubles.ports import ports
from tests.doubles.script import Script
from tests.doubles.server import PATIENCE, Connection, Host, Wire

Handler = Callable[[Exchange, Wire], Awaitable[None]]
OPEN_PATHS: Final = frozenset({"/health", "/metrics", "/ping"})
MAX_POLLS: Final = 50
PORTS: Final = ports()


class Refused(Exception):
    """The engine answers this request with an error of its own."""

    def __init__(self, status: int, message: str, *, kind: str = "", param: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param, self.more = status, message, kind, param, more


class Double:
    """Subclasses give the routes and the shapes; tests read `requests`, `active`, `aborted`, `violations` and wait."""

    kind: ClassVar[str]
    expected: ClassVar[frozenset[str]] = frozenset()
    """Fields and headers that are dangerous elsewhere and belong here, in a leg of a pair."""
    streamed: ClassVar[bool] = True
    """Its legs should be streamed."""
    speaks: ClassVar[bool] = True
    """What it says reaches a client, so the faults of a script are its own. A prefill worker's token does not."""
    host: Host

    def __init__(
        self,
        model: str = "double",
        *,
        default: Script | None = None,
        api_key: str | None = None,
        idle_close: float | None = None,
        context: int = 32_768,
        opens: bool = False,
    ) -> None:
        self.model = model
        self.default = default or Script()
        self.api_key = api_key
        self.idle_close = idle_close
        self.context = context
        self.opens = opens
        """The chat template's generation prompt ends inside a thought."""
        self.health = 200
        self.violations: list[str] = []
        self.requests: list[Exchange] = []
        self.polls: Counter[str] = Counter()
        self.connections: set[Connection] = set()
        self.finished: Counter[str] = Counter()
        self.generated = 0
        self.seconds_worked = 0.0
        """Of all requests that came to their end, added up; not of those that were aborted."""
        self._lingering: int | None = None
        self.port = 0
        self._drop_reused = 0
        self._server: asyncio.Server | None = None
        self._is_down = False
        self._numbers = count(1)
        self._waiters: list[tuple[Callable[[], bool], asyncio.Event]] = []

    # Shapes a subclass gives

    def routes(self) -> dict[tuple[str, str], Handler]:
        raise NotImplementedError

    def headers(self) -> tuple[tuple[str, str], ...]:
        raise NotImplementedError

    def error_body(self, refused: Refused) -> bytes:
        raise NotImplementedError

    # What a test reads

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def generations(self) -> list[Exchange]:
        return [exchange for exchange in self.requests if exchange.is_generation]

    @property
    def active(self) -> list[Exchange]:
        return [exchange for exchange in self.requests if exchange.is_generation and exchange.end is End.RUNNING]

    @property
    def aborted(self) -> list[Exchange]:
        return [exchange for exchange in self.requests if exchange.end is End.ABORTED]

    @property
    def running(self) -> int:
        """What its gauges and slots say."""
        return len(self.active) + (0 if self._lingering is None else len(self.aborted) - self._lingering)

    def linger(self, *, on: bool) -> None:
        """From now on, requests whose clients leave seem to run on."""
        self._lingering = len(self.aborted) if on else None

    def of(self, key: str) -> list[Exchange]:
        """The generations of this key, in the order they came."""
        return [exchange for exchange in self.requests if exchange.key == key]

    def pardon(self, code: str) -> list[str]:
        """Take out the violations with this code; there must be some."""
        found = [said for said in self.violations if said.startswith(f"{code}:")]
        assert found, f"no violation {code!r} among {self.violations}"
        self.violations[:] = [said for said in self.violations if said not in found]
        return found

    def forget(self, *, keep: int) -> None:
        """Remember no more of what is over than the last `keep`, for tests of thousands."""
        if len(self.requests) > 2 * keep:
            recent = self.requests[-keep:]
            running = [one for one in self.requests[:-keep] if one.end is End.RUNNING]
            self.requests[:] = running + recent

    # What a test waits for

    async def until(self, predicate: Callable[[], bool], what: str) -> None:
        """Until this holds, looked at on every change; not longer than `PATIENCE`."""
        await self.host.wait(self._until(predicate, what))

    async def wait_idle(self) -> None:
        """Until nothing is being generated."""
        await self.until(lambda: not self.active, "no generation")

    async def wait_closed(self) -> None:
        """Until no connection is left, idle ones included."""
        await self.until(lambda: not self.connections, "no connection")

    async def wait_for(self, key: str, tokens: int = 0, legs: int = 1) -> Exchange:
        """Until the `legs`-th generation of this key has said so many tokens."""
        await self.until(lambda: len(self.of(key)) >= legs, f"generation {legs} of {key}")
        exchange = self.of(key)[legs - 1]
        await self.until(lambda: exchange.tokens >= tokens, f"{tokens} tokens of {key}")
        return exchange

    async def wait_end(self, exchange: Exchange) -> Exchange:
        """Until this exchange is over, whichever way."""
        await self.until(lambda: exchange.end is not End.RUNNING, f"the end of {exchange.key or exchange.target}")
        return exchange

    # What a test does to the engine

    def down(self) -> None:
        """As if the process were killed: connections reset, new ones refused."""
        self.host.run(self._down())

    def up(self) -> None:
        """Listen again, on the same port."""
        self.host.run(self.listen())

    def close_idle(self) -> int:
        """Close every idle connection now, as an engine does after its keep-alive; how many there were."""
        return self.host.run(self._close_idle())

    def drop_reused(self, requests: int) -> None:
        """Close the connection, without a byte, under the next so many requests that come on a used one."""
        self._drop_reused = requests

    # The server's side

    async def listen(self) -> None:
        self._is_down = False
        while self._server is None:
            port = self.port or next(PORTS)
            try:
                self._server = await self._listen(port)
            except OSError as error:
                if self.port or error.errno != errno.EADDRINUSE:
                    raise
            else:
                self.port = port

    async def _listen(self, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: Connection(self, next(self._numbers)), "127.0.0.1", port, backlog=1024)

    async def close(self) -> None:
        await self._down()
        await self._until(lambda: not self.connections, "no connection")

    async def _down(self) -> None:
        self._is_down = True
        if self._server is not None:
            server, self._server = self._server, None
            # asyncio loses a socket that is accepted and not yet a connection when its server closes: nobody would
            # ever answer on it, or close it. So no more are accepted first, and then those become connections.
            for listener in server.sockets:
                asyncio.get_running_loop().remove_reader(listener.fileno())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            server.close()
        for connection in list(self.connections):
            connection.reset()

    async def _close_idle(self) -> int:
        idle = [connection for connection in self.connections if connection.idle and connection.served]
        for connection in idle:
            connection.transport.close()
        await self._until(lambda: not self.connections.intersection(idle), "idle connections closed")
        return len(idle)

    def opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        self.changed()
        if self._is_down:
            connection.reset()

    def lost(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.changed()

    def received(self, head: Head, body: bytes, connection: Connection) -> Exchange:
        exchange = Exchange(
            double=self,
            method=head.method,
            target=head.target,
            headers=dict(head.headers),
            body=body,
            connection=connection.number,
            number=connection.served,
        )
        if head.method == "GET":
            self.polls[exchange.path] += 1
        if head.method != "GET" or self.polls[exchange.path] <= MAX_POLLS:
            self.requests.append(exchange)
        for said in check_headers(exchange, head, self.api_key):
            self.violate(*said)
        self.changed()
        return exchange

    async def serve(self, exchange: Exchange, wire: Wire) -> None:
        if self._drop_reused and exchange.number > 1 and exchange.is_generation:
            self._drop_reused -= 1
            exchange.end = End.BROKEN
            wire.close()
            return
        try:
            await self._route(exchange, wire)
        except Refused as refused:
            exchange.end = End.REFUSED
            more = (("retry-after", refused.more["retry_after"]),) if refused.more.get("retry_after") else ()
            await wire.answer(refused.status, self.error_body(refused), headers=more)

    async def _route(self, exchange: Exchange, wire: Wire) -> None:
        routes = self.routes()
        if self.api_key and exchange.path not in OPEN_PATHS:
            given = exchange.headers.get("authorization", "")
            if given != f"Bearer {self.api_key}":
                raise Refused(401, "Unauthorized")
        handler = routes.get((exchange.method, exchange.path))
        if handler is None:
            known = any(path == exchange.path for _, path in routes)
            raise Refused(405 if known else 404, "Method Not Allowed" if known else "Not Found", kind="route")
        await handler(exchange, wire)

    def violate(self, code: str, detail: str) -> None:
        self.violations.append(f"{code}: {detail}")

    def changed(self) -> None:
        """Something a test may wait for has happened."""
        if self._waiters:
            for predicate, event in self._waiters:
                if predicate():
                    event.set()

    async def _until(self, predicate: Callable[[], bool], what: str) -> None:
        if predicate():
            return
        waiter = (predicate, asyncio.Event())
        self._waiters.append(waiter)
        try:
            await asyncio.wait_for(waiter[1].wait(), PATIENCE)
        except TimeoutError:
            raise AssertionError(f"{self.kind}: waited {PATIENCE} s in vain for {what}") from None
        finally:
            self._waiters.remove(waiter)


def dumps(value: Any) -> str:
    """Compact JSON with raw UTF-8, as the engines write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


async def answer_json(wire: Wire, value: Any, status: int = 200) -> None:
    await wire.answer(status, dumps(value).encode())
