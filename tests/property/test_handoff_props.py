"""A leg over two workers, whatever they answer and whenever its client leaves: nothing of it is left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.leg import LegFailed
from gateway.pools.verdict import NEUTRAL
from gateway.upstream import End, UpstreamError, UpstreamFault
from tests.scripted import HANG, ROLE, refusal, reply, stream
from tests.scriptedpair import PARAMS, Answer, Bench, decoded, prefilled

KINDS = ["nixl", "nixl-push", "mooncake", "sglang"]
FAILURES: dict[str, Callable[[], Answer]] = {
    "refused": lambda: UpstreamError(UpstreamFault.CONNECT, "refused"),
    "closed": lambda: UpstreamError(UpstreamFault.CLOSED, "broke off"),
    "full": lambda: refusal(503),
    "wrong": lambda: refusal(400),
    "broken": lambda: refusal(500),
    "silent": lambda: HANG,
}
PREFILL: dict[str, Callable[[], Answer]] = FAILURES | {
    "well": prefilled,
    "nothing": lambda: reply({"usage": None}),
    "empty": lambda: prefilled(kv_transfer_params={**PARAMS, "remote_block_ids": []}),
    "half": lambda: stream(b'{"id":', UpstreamError(UpstreamFault.CLOSED, "broke off")),
    "no_json": lambda: stream(b"no json"),
}
DECODE: dict[str, Callable[[], Answer]] = FAILURES | {
    "well": decoded,
    "role": lambda: stream(ROLE, HANG),
    "dies": lambda: stream(ROLE, UpstreamError(UpstreamFault.CLOSED, "broke off")),
    "error": lambda: stream(ROLE, b'data: {"error": {"message": "boom", "code": 500}}\n\n'),
}


def bench_of(kind: str, prefill: str, decode: str) -> Bench:
    bench = Bench(kind, lease=480) if kind != "sglang" else Bench(kind)
    of = {bench.prefills[0]: PREFILL[prefill], bench.decodes[0]: DECODE[decode]}
    for worker, answer in of.items():
        bench.clients[worker].answer = lambda asked, answer=answer: (
            reply({}) if asked.path == "/abort_request" else answer()
        )
    return bench


async def fly(bench: Bench) -> None:
    """A leg from its start to its end."""
    try:
        leg = await bench.launch()
    except LegFailed:
        return
    how = End.ABANDONED
    try:
        while await leg.read() is not None:
            pass
        how = End.FINISHED
    except LegFailed:
        return
    finally:
        leg.end(how)


async def cancelled_after(bench: Bench, steps: int) -> None:
    """The leg's task runs so many turns of the loop, then its client leaves."""
    task = asyncio.create_task(fly(bench))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    await bench.quiet()


def assert_nothing_left(bench: Bench) -> None:
    assert bench.load == {}
    for client in bench.clients.values():
        assert all(response.ended for response in client.given), "a connection is still in use"
    for worker in bench.prefills:
        edge = bench.apart.pairing._edge(worker, bench.decodes[0])
        assert edge.is_open or edge.admits, "a probe's place is still taken"


async def left_alone(bench: Bench) -> None:
    """What still runs is an errand, if anything; it ends with the pool."""
    bench.pool.close()
    await bench.quiet()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others, others


@given(
    kind=st.sampled_from(KINDS),
    prefill=st.sampled_from(sorted(PREFILL)),
    decode=st.sampled_from(sorted(DECODE)),
    steps=st.integers(0, 40),
)
def test_epd13_wherever_a_leg_is_cancelled_no_seat_and_no_task_is_left(
    kind: str, prefill: str, decode: str, steps: int
) -> None:
    async def run() -> None:
        bench = bench_of(kind, prefill, decode)
        await cancelled_after(bench, steps)
        await left_alone(bench)
        assert_nothing_left(bench)

    asyncio.run(run())


@given(kind=st.sampled_from(KINDS), decode=st.sampled_from(sorted(DECODE)), steps=st.integers(0, 40))
def test_epd11_a_cache_is_released_exactly_where_nobody_can_have_fetched_it(kind: str, decode: str, steps: int) -> None:
    """Only a pull leaves one behind: where both go at once, the engine that prefills sees the other's end."""

    async def run() -> None:
        bench = bench_of(kind, "well", decode)
        await cancelled_after(bench, steps)
        asked = [one for one in bench.clients[bench.decodes[0]].asked if one.path != "/abort_request"]
        releases = [one for one in asked if one.body.get("max_tokens") == 1]
        fetches = [one for one in asked if one not in releases]
        if kind != "nixl" or (fetches and decode != "full"):
            assert not releases
        assert len(releases) <= 1
        assert all(one.body["kv_transfer_params"] == PARAMS for one in releases)
        await left_alone(bench)

    asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS)
async def test_epd34_after_a_thousand_clients_that_left_all_loads_are_zero(kind: str) -> None:
    chance = random.Random(7)
    bench = bench_of(kind, "well", "well")
    for worker, table in ((bench.prefills[0], PREFILL), (bench.decodes[0], DECODE)):
        names = sorted(table)
        bench.clients[worker].answer = lambda asked, table=table, names=names: (
            reply({}) if asked.path == "/abort_request" else table[chance.choice(names)]()
        )
    for _ in range(250):
        legs = [asyncio.create_task(fly(bench)) for _ in range(4)]
        for leg in legs:
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            leg.cancel()
        await asyncio.wait(legs)
        make_well(bench)
    await bench.quiet()
    await left_alone(bench)
    assert_nothing_left(bench)


def make_well(bench: Bench) -> None:
    """No failure of this test puts a worker out of it."""
    for part in bench.pool.parts:
        for worker in part.workers:
            worker.paused_until, worker.pause_is_told = 0.0, False


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nixl"])
@pytest.mark.parametrize("failing", ["refused", "closed", "full", "wrong", "broken"])
@pytest.mark.parametrize("waiting", ["silent", "role", "well"])
async def test_epd14_the_first_leg_that_fails_ends_the_other(kind: str, failing: str, waiting: str) -> None:
    """Neither is waited for, and the client is told of the failure."""
    bench = bench_of(kind, failing, waiting)
    with pytest.raises(LegFailed) as caught:
        async with asyncio.timeout(5):
            await bench.launch()
    assert caught.value.culprit is bench.prefills[0]
    assert caught.value.error.status == {"wrong": 400, "full": 503}.get(failing, 502)
    await bench.quiet()
    await left_alone(bench)
    assert_nothing_left(bench)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_hand_off_that_never_began_leaves_nothing(kind: str) -> None:
    bench = Bench(kind)
    hand_off = bench.hand_off()
    assert bench.load == {"p0:1": (1, 0)}
    hand_off.end(End.ABANDONED, NEUTRAL)
    hand_off.end(End.ABANDONED, NEUTRAL)
    assert bench.load == {}
    assert bench.heard == []
    assert all(not client.asked for client in bench.clients.values())
    await left_alone(bench)
