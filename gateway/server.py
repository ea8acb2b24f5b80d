"""Runs the app under uvicorn: one process, uvloop and httptools, one socket, a clean end.

The socket is bound here, so that port 0 is known before anything is printed; the one line that announces the address
is printed once the socket accepts.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from types import FrameType

import uvicorn

from gateway.app import Thinkgate
from gateway.config import Config
from gateway.configsource import Source
from gateway.embedded import EmbeddedUnavailable
from gateway.observe.logs import configure_logs
from gateway.observe.multiprocess import bury_the_dead
from gateway.observe.trace import TracingUnavailable
from router import RouterUnavailable

KEEP_ALIVE = 930
"""Seconds an idle client connection is kept: above what load balancers keep theirs for (ALB 60, Google 600, Cloudflare
900; docs/proxies.md), so that they close first. Else a request may come on a connection that is just being closed."""

BACKLOG = 2_048


class StartFailed(Exception):
    """The service could not start; the message is one line for a person."""


LAST_BYTES = 5
"""Seconds that answers which are complete may still take to leave."""


class _Server(uvicorn.Server):
    """Goes on listening while it drains: who comes is told to go elsewhere, and a load balancer sees why. The first
    signal drains, the second ends the drain."""

    def __init__(self, config: uvicorn.Config, app: Thinkgate, address: str) -> None:
        super().__init__(config)
        self._app = app
        self._address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(f"thinkgate is listening on {self._address}", flush=True)  # noqa: T201 - the promise scripts wait for

    async def main_loop(self) -> None:
        ticking = asyncio.create_task(super().main_loop())
        are_told = await self._app.drained()
        self.should_exit = True
        await ticking
        if not are_told:
            for connection in tuple(self.server_state.connections):
                connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Also before it serves; the loop, if there is one, notices with its next tick."""
        self._app.service.closing.begin()


def run(config: Config, source: Source) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP reloads the config from its source. Raises StartFailed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # before there is anything to reload, it must not end it
    configure_logs(config.logs)
    bury_the_dead()
    try:
        app = Thinkgate(config, source)
    except (RouterUnavailable, TracingUnavailable) as error:
        raise StartFailed(str(error)) from error
    listening = _bind(config)
    settings = uvicorn.Config(
        app,
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=LAST_BYTES,
        backlog=BACKLOG,
    )
    server = _Server(settings, app, _url(listening))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    with asyncio.Runner(loop_factory=settings.get_loop_factory()) as runner:
        runner.run(_serve(app, server, listening))


async def _serve(app: Thinkgate, server: _Server, listening: socket.socket) -> None:
    try:
        async with app.running():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, app.reloader.ask)
            await server.serve([listening])
    except EmbeddedUnavailable as error:
        raise StartFailed(str(error)) from error


def _bind(config: Config) -> socket.socket:
    host, port = config.server.host, config.server.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise StartFailed(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listening.setblocking(False)
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
