"""What a front door to a disaggregated cluster must get right, as checks that run against any URL.

A check names the hand-offs it is for and the cluster it needs. Whoever runs the checks of `checks_for(handoff)` makes a
`cluster(host, handoff, **check.settings())`, puts a front door before its `addresses`, and awaits
`check.run(Door(url, cluster))`. A check that passes leaves no violation. The public issues it is about stand in its
docstring as "epd-bugs N", and from there in the name of every case.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.doubles.pair.cluster import HANDOFFS, Cluster
from tests.doubles.server import PATIENCE
from tests.service.pairing import question, says, text
from tests.service.talk import JSON, Stream, stream

VLLM: Final = ("nixl", "nixl-push", "mooncake")
PULL: Final = ("nixl",)
SGLANG: Final = ("sglang",)
_ROWS: Final = re.compile(r"epd-bugs ((?:\d+, )*\d+)")


@dataclass(frozen=True, slots=True)
class Door:
    """A front door under test, and the cluster behind it. `patience`: seconds after which a wait has failed."""

    url: str
    cluster: Cluster
    patience: float = PATIENCE

    async def ask(self, body: dict[str, Any]) -> Stream:
        """Send and read to the end."""
        async with asyncio.timeout(self.patience):
            return await stream(self.url, body)

    async def post(self, body: dict[str, Any], path: str = "/v1/chat/completions") -> httpx.Response:
        async with asyncio.timeout(self.patience), httpx.AsyncClient(timeout=60, verify=False) as client:
            return await client.post(f"{self.url}{path}", content=json.dumps(body).encode(), headers=JSON)

    async def leave(self, body: dict[str, Any], when: Callable[[], bool], what: str) -> None:
        """Ask, and go away at that moment."""
        leg = asyncio.create_task(stream(self.url, body))
        try:
            async with asyncio.timeout(self.patience):
                await self.cluster.prefill.until(when, what)
        finally:
            leg.cancel()
            await asyncio.wait({leg})

    async def until(self, predicate: Callable[[], bool], what: str) -> None:
        """Until this holds, looked at on every change at any worker."""
        async with asyncio.timeout(self.patience):
            await self.cluster.prefill.until(predicate, what)

    async def settled(self, *, leases: bool = True) -> None:
        """Nothing runs any more, nothing is left, nothing was done wrong."""
        await self.cluster.settled(self.patience, leases=leases)

    async def assert_right(self, body: dict[str, Any], think: int = 24) -> Stream:
        """The answer that only a right hand-off gives, once and well ended."""
        told = await self.ask(body)
        assert told.status == 200, told.body
        assert told.errors == []
        assert text(told) == says(self.cluster.key(body), think)
        assert told.done
        await self.settled()
        return told


Run = Callable[[Door], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    run: Run
    handoffs: tuple[str, ...]
    needs: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the cluster; a callable among them is called for each cluster anew."""

    def __str__(self) -> str:
        return "-".join([self.name, *(f"epd{row}" for row in self.rows)])

    @property
    def rows(self) -> tuple[int, ...]:
        """Numbers of public issues, as its docstring names them."""
        found = _ROWS.search(self.run.__doc__ or "")
        return tuple(int(row) for row in found[1].split(", ")) if found else ()

    def settings(self) -> dict[str, Any]:
        return {name: value() if callable(value) else value for name, value in self.needs.items()}


CHECKS: Final[dict[str, Check]] = {}


def check(*handoffs: str, **needs: Any) -> Callable[[Run], Run]:
    """Enter a check; without hand-offs it is for all of them."""

    def enter(run: Run) -> Run:
        name = run.__name__  # type: ignore[attr-defined]
        assert name not in CHECKS, name
        CHECKS[name] = Check(name, run, handoffs or HANDOFFS, needs)
        return run

    return enter


def checks_for(handoff: str) -> list[Check]:
    import tests.service.pair_contract_faults
    import tests.service.pair_contract_fields  # noqa: F401  the checks enter themselves

    return [one for one in CHECKS.values() if handoff in one.handoffs]


def told_privately(door: Door, told: Stream) -> None:
    door.cluster.assert_private(json.dumps(told.events) + told.body.decode() + str(dict(told.headers)))


def body_of(door: Door, key: str, **more: Any) -> dict[str, Any]:
    return question(door.cluster, key, **more)
