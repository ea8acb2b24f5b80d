"""One engine URL as the gateway knows it: whether it may be chosen, how busy we keep it, and its connections."""

from __future__ import annotations

import ssl
from enum import StrEnum

from gateway.config import Pool as PoolConfig
from gateway.engines.capabilities import Capabilities
from gateway.upstream import Client, PooledClient


class State(StrEnum):
    PENDING = "pending"
    """Not seen yet."""
    READY = "ready"
    DOWN = "down"
    """Was seen, or never came, and does not answer its health checks now."""


class Worker:
    """Mutable on the event loop only. `in_flight` counts legs this gateway has running there."""

    __slots__ = ("capabilities", "client", "failures", "has_overrun", "in_flight", "name", "reason", "state", "url")

    def __init__(self, name: str, url: str, client: Client) -> None:
        self.name = name
        self.url = url
        self.client = client
        self.state = State.PENDING
        self.reason = "not checked yet"
        self.failures = 0
        self.in_flight = 0
        self.capabilities: Capabilities | None = None
        """What it can do, once it was asked."""
        self.has_overrun = False
        """Was it seen not to keep to a cap it was told? It is not told one again."""

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
