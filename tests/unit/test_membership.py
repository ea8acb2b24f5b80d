"""Workers by a DNS name: they come and go with its addresses, and nobody is cut off by a resolver's mood."""

from __future__ import annotations

import pytest

from gateway.config import EngineKind
from gateway.config import Pool as PoolConfig
from gateway.pools import Pool, State
from gateway.pools.membership import MISSES, Membership, resolve
from gateway.pools.verdict import SUCCESS


class Names:
    """A resolver as a test wants it."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: set[str] | OSError = set(addresses)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> set[str]:
        self.asked.append((host, port))
        if isinstance(self.addresses, OSError):
            raise self.addresses
        return self.addresses


def fleet(names: Names, *workers: str) -> tuple[Pool, Membership]:
    url = "http://engines.default.svc:8000/base"
    pool = Pool("p", PoolConfig(model="m", engine=EngineKind.VLLM, format="think", workers=workers, discover=url))
    return pool, Membership(pool, url, names)


def urls(pool: Pool) -> list[str]:
    return [worker.url for worker in pool.workers]


async def test_each_address_is_a_worker() -> None:
    names = Names("10.0.0.1", "fd00::1")
    pool, membership = fleet(names, "http://10.9.9.9:1")
    await membership.look()
    await membership.look()
    assert names.asked[0] == ("engines.default.svc", 8000)
    assert urls(pool) == ["http://10.9.9.9:1", "http://10.0.0.1:8000/base", "http://[fd00::1]:8000/base"]
    assert {worker.state for worker in pool.workers} == {State.PENDING}


async def test_one_that_is_no_longer_named_finishes_what_it_runs() -> None:
    names = Names("10.0.0.1", "10.0.0.2")
    pool, membership = fleet(names)
    await membership.look()
    leaver = pool.workers[1]
    seat = leaver.seat()
    names.addresses = {"10.0.0.1"}
    for _ in range(MISSES - 1):
        await membership.look()
    assert leaver.state is State.PENDING, "an answer may be cut short"
    await membership.look()
    assert leaver.state is State.DRAINING
    await membership.look()
    assert leaver in pool.workers
    leaver.let_go(seat, SUCCESS, aborted=False)
    await membership.look()
    assert urls(pool) == ["http://10.0.0.1:8000/base"]


async def test_one_that_comes_back_in_time_never_left_and_a_later_one_starts_anew() -> None:
    names = Names("10.0.0.1")
    pool, membership = fleet(names)
    await membership.look()
    first = pool.workers[0]
    names.addresses = set()
    await membership.look()
    names.addresses = {"10.0.0.1"}
    await membership.look()
    assert pool.workers == [first]
    names.addresses = set()
    for _ in range(MISSES + 1):
        await membership.look()
    assert pool.workers == []
    names.addresses = {"10.0.0.1"}
    await membership.look()
    assert urls(pool) == [first.url]
    assert pool.workers != [first]


async def test_a_resolver_that_fails_changes_nothing() -> None:
    names = Names("10.0.0.1")
    pool, membership = fleet(names, "http://10.9.9.9:1")
    await membership.look()
    names.addresses = OSError("Temporary failure in name resolution")
    for _ in range(3 * MISSES):
        await membership.look()
    assert len(pool.workers) == 2
    assert {worker.state for worker in pool.workers} == {State.PENDING}


async def test_a_real_name_is_resolved() -> None:
    assert "127.0.0.1" in await resolve("localhost", 80)
    with pytest.raises(OSError, match=r".+"):
        await resolve("no.such.name.invalid", 80)


def test_a_certificate_would_not_fit() -> None:
    with pytest.raises(ValueError, match="http:// address"):
        PoolConfig(model="m", engine=EngineKind.VLLM, discover="https://engines.default.svc")
    with pytest.raises(ValueError, match="at least one worker"):
        PoolConfig(model="m", engine=EngineKind.VLLM)
