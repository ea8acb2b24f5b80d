"""One engine URL as the gateway knows it: its state, its load, its breaker, its connections.

Holds and counts; what follows from it (who is chosen, who is ejected) is the roster's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from gateway.config import Pool as PoolConfig
from gateway.engines.cache import KvCache
from gateway.engines.capabilities import Capabilities
from gateway.pools.breaker import Breaker
from gateway.pools.meter import Bill, Meter, Stint
from gateway.pools.pressure import Gauge
from gateway.pools.states import Life, State
from gateway.pools.stride import Stride
from gateway.pools.verdict import Verdict
from gateway.upstream import Client, PooledClient, Terms


@dataclass(frozen=True, slots=True)
class Seat:
    """One leg's place on a worker: the KV tokens it was taken for, the breaker's generation it began in, and its stay
    as the meter counts it."""

    tokens: int
    stamp: int
    stint: Stint


class Worker:
    """Mutable on the event loop only. Legs of this gateway are in its `gauge` while they run, and `leaving` from their
    abort until the engine runs them no more; `strangers` are the requests of others it was last seen to run."""

    __slots__ = (
        "began",
        "breaker",
        "capabilities",
        "client",
        "departed",
        "ejected_until",
        "failures",
        "floods",
        "gauge",
        "gone",
        "has_overrun",
        "is_known",
        "kv_cache",
        "leaving",
        "life",
        "meter",
        "name",
        "on_verdict",
        "pause_is_told",
        "paused_until",
        "shunned_until",
        "strangers",
        "stride",
        "url",
        "weight",
    )

    def __init__(self, name: str, url: str, client: Client, *, weight: float = 1.0, now: float = 0.0) -> None:
        self.name = name
        self.url = url
        self.client = client
        self.weight = weight
        """How much of the load it takes, compared with others of its pool."""
        self.life = Life(now)
        self.gauge = Gauge()
        self.breaker = Breaker()
        self.stride = Stride()
        self.meter = Meter()
        self.failures = 0
        """Health checks failed in a row."""
        self.leaving = 0
        self.gone = asyncio.Event()
        """Set while nothing leaves."""
        self.gone.set()
        self.strangers = 0
        self.floods = 0
        """Generations in a row that were one character from the first token on."""
        self.shunned_until = 0.0
        """Until when it is not the first to be chosen, after such a one."""
        self.ejected_until = 0.0
        """When it may come back, once it is ejected."""
        self.paused_until = 0.0
        self.pause_is_told = False
        """Did the engine itself say how long it wants to be left alone? Then nobody asks it before."""
        self.departed: asyncio.Event | None = None
        """Set when a leg leaves, for whoever watches."""
        self.on_verdict: Callable[[Worker, Verdict, int], None] | None = None
        """Is told what came of each leg, and the stamp it began with."""
        self.capabilities: Capabilities | None = None
        """What it can do, once it was asked."""
        self.kv_cache: KvCache | None = None
        """What it hands over, or takes, where it does so."""
        self.is_known = False
        """Was it asked since it last came? What comes back may be another build, or other weights."""
        self.began: float | None = None
        """When its process started, as far as it says: another time is another process."""
        self.has_overrun = False
        """Was it seen not to keep to a cap it was told? It is not told one again."""

    @property
    def state(self) -> State:
        return self.life.state

    @property
    def reason(self) -> str:
        return self.life.reason

    @property
    def is_ready(self) -> bool:
        return self.life.state is State.READY

    @property
    def in_flight(self) -> int:
        """Legs of this gateway that run there."""
        return self.gauge.legs

    def seat(self, tokens: int = 0, bill: Bill | None = None, prompt: int = 0) -> Seat:
        """A leg begins; `tokens` as `pressure.tokens_of` a call, `prompt` as its `prompt_tokens_of`; `bill` is its
        flight's."""
        self.gauge.begin(tokens)
        return Seat(tokens, self.breaker.take(), self.meter.begin(bill, prompt))

    def note_gone(self, legs: int) -> None:
        """So many of those that left are gone, as far as anybody can tell."""
        self.leaving = max(0, self.leaving - legs)
        if not self.leaving:
            self.gone.set()

    async def wait_gone(self, patience: float) -> None:
        """Until nothing leaves any more, `patience` seconds at most."""
        try:
            async with asyncio.timeout(patience):
                await self.gone.wait()
        except TimeoutError:
            return

    def let_go(self, seat: Seat, verdict: Verdict, *, aborted: bool) -> None:
        """A leg is over, and this is what came of it. One that was aborted is not gone before the engine says so."""
        self.gauge.end(seat.tokens)
        self.meter.end(seat.stint)
        if aborted and self.departed is not None:
            self.leaving += 1
            self.gone.clear()
            self.departed.set()
        if self.on_verdict is not None:
            self.on_verdict(self, verdict, seat.stamp)


def connect(name: str, url: str, config: PoolConfig, now: float) -> Worker:
    """A worker with a client of its own, patient as its pool says."""
    client = PooledClient(url, terms_of(config), _tls(config) if url.startswith("https://") else None)
    return Worker(name, url, client, weight=config.weights.get(url, 1.0), now=now)


def terms_of(config: PoolConfig) -> Terms:
    """How a pool wants the connections to its workers to be kept."""
    return Terms(config.timeouts.connect, config.idle_connection, config.max_connections)


def _tls(config: PoolConfig) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not config.tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
