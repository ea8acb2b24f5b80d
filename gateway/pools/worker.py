"""One engine URL as the gateway knows it: whether it may be chosen, how busy we keep it, and its connections."""

from __future__ import annotations

import asyncio
import ssl
from enum import StrEnum

from gateway.config import Pool as PoolConfig
from gateway.engines.capabilities import Capabilities
from gateway.upstream import Client, PooledClient


class State(StrEnum):
    PENDING = "pending"
    """Not seen yet."""
    READY = "ready"
    SICK = "sick"
    """Answers its health checks and generates nonsense; left alone for a while."""
    DOWN = "down"
    """Was seen, or never came, and does not answer its health checks now."""


class Worker:
    """Mutable on the event loop only. Legs of this gateway are `in_flight` while they run, and `leaving` from their
    abort until the engine runs them no more; `strangers` are the requests of others it was last seen to run."""

    __slots__ = (
        "capabilities",
        "client",
        "departed",
        "failures",
        "floods",
        "has_overrun",
        "in_flight",
        "leaving",
        "name",
        "reason",
        "sick_until",
        "state",
        "strangers",
        "url",
    )

    def __init__(self, name: str, url: str, client: Client) -> None:
        self.name = name
        self.url = url
        self.client = client
        self.state = State.PENDING
        self.reason = "not checked yet"
        self.failures = 0
        self.in_flight = 0
        self.leaving = 0
        self.strangers = 0
        self.floods = 0
        """Generations in a row that were one character from the first token on."""
        self.sick_until = 0.0
        self.departed: asyncio.Event | None = None
        """Set when a leg leaves, for whoever watches."""
        self.capabilities: Capabilities | None = None
        """What it can do, once it was asked."""
        self.has_overrun = False
        """Was it seen not to keep to a cap it was told? It is not told one again."""

    def let_go(self, *, aborted: bool) -> None:
        """A leg is over. One that was aborted is not gone before the engine says so."""
        self.in_flight -= 1
        if aborted and self.departed is not None:
            self.leaving += 1
            self.departed.set()

    @property
    def is_ready(self) -> bool:
        return self.state is State.READY


def connect(name: str, url: str, config: PoolConfig) -> Worker:
    """A worker with a client of its own, patient as its pool says."""
    client = PooledClient(
        url,
        connect_timeout=config.timeouts.connect,
        idle=config.idle_connection,
        limit=config.max_connections,
        tls=_tls(config) if url.startswith("https://") else None,
    )
    return Worker(name, url, client)


def _tls(config: PoolConfig) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not config.tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
