"""Getting a leg to generate: who is asked after whom, how often, and what is told to the client at once."""

from __future__ import annotations

from asyncio import get_running_loop
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest

from budgets import Deadlines
from gateway.edge.errors import ApiError
from gateway.engines import Call
from gateway.launch import Launcher
from gateway.ledger import Entry
from gateway.leg import Leg, LegFailed
from gateway.pools import State, Worker
from gateway.pools.affinity import conversation_of
from gateway.pools.retries import ALWAYS
from gateway.pools.roster import Cause
from gateway.pools.verdict import SUCCESS, Kind
from gateway.upstream import End, UpstreamError, UpstreamFault
from parsers import Start
from tests.scripted import ScriptedResponse, Tape, end, refusal, scripted_pool, stream, words

REFUSED = UpstreamError(UpstreamFault.CONNECT, "Connection refused", before_first_byte=True)
BROKEN = UpstreamError(UpstreamFault.CLOSED, "gone", before_first_byte=True)


def fine() -> ScriptedResponse:
    return stream(words("yes"), end())


def full(seconds: int | None = None, status: int = 503) -> ScriptedResponse:
    headers = {"content-type": "application/json"}
    return refusal(status, headers=headers if seconds is None else {**headers, "retry-after": str(seconds)})


class Bench:
    def __init__(self, *workers: list[ScriptedResponse | UpstreamError], total: float = 600, queue: float = 0) -> None:
        self.pool, self.clients = scripted_pool(Tape(), *workers)
        self.now = 1_000.0
        self.pool.clock = lambda: self.now
        self.entry = Entry("r", "k", "standard", "p", 0.0, 0.0)
        self.launcher = Launcher(self.pool, self.entry, Deadlines(queue, 5, 5, total, total), "conversation")

    async def launch(self, kind: str = "first", **more: Any) -> Leg:
        self.entry.started = get_running_loop().time()

        def make(worker: Worker) -> Call:
            return Call("/v1/chat/completions", {"model": "m"}, Start.CLOSED, None)

        leg = await self.launcher.launch(make, kind, **more)
        leg.end(End.ABANDONED)
        return leg

    @property
    def asked(self) -> list[int]:
        return [len(client.asked) for client in self.clients]


async def test_a_full_worker_is_left_alone_and_one_other_is_asked() -> None:
    bench = Bench([full(7)], [full(9)], [fine()])
    with pytest.raises(LegFailed) as failed:
        await bench.launch()
    assert sum(bench.asked) == 2, "two that are full, and the client is told"
    assert failed.value.error.status == 503
    assert failed.value.error.headers["retry-after"] in {"7", "9"}
    assert all(worker.is_ready for worker in bench.pool.workers), "nobody is ejected for being full"
    await bench.launch()
    assert sum(bench.asked) == 3, "the third, which did not ask to be left alone"


async def test_when_all_are_full_nobody_is_asked_before_the_first_has_room() -> None:
    bench = Bench([full(7), fine()], [full(9)])
    with pytest.raises(LegFailed):
        await bench.launch()
    with pytest.raises(ApiError) as refused:
        await bench.launch()
    assert (refused.value.status, refused.value.headers) == (503, {"retry-after": "7"})
    bench.now += 6.5
    with pytest.raises(ApiError) as refused:
        await bench.launch()
    assert refused.value.headers == {"retry-after": "1"}
    assert sum(bench.asked) == 2
    bench.now += 0.6
    await bench.launch()
    assert sum(bench.asked) == 3


async def test_a_worker_that_ends_a_request_has_room_again() -> None:
    bench = Bench([full(60), fine()])
    seat = bench.pool.workers[0].seat()
    with pytest.raises(LegFailed):
        await bench.launch()
    bench.pool.workers[0].let_go(seat, SUCCESS, aborted=False)
    await bench.launch()


async def test_an_answer_that_has_begun_is_not_kept_waiting() -> None:
    """Its client could not come back for the rest."""
    bench = Bench([full(60), fine()])
    with pytest.raises(LegFailed):
        await bench.launch()
    with pytest.raises(ApiError):
        await bench.launch()
    await bench.launch("answer")


async def test_without_a_time_a_full_worker_is_only_not_the_first() -> None:
    bench = Bench([full(), fine()])
    with pytest.raises(LegFailed):
        await bench.launch()
    await bench.launch()


async def test_a_waiting_request_goes_when_the_pause_is_over() -> None:
    bench = Bench([full(1), fine()], queue=5)
    bench.pool.clock = monotonic
    with pytest.raises(LegFailed):
        await bench.launch()
    await bench.launch()
    assert bench.asked == [2]


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_the_clients_fault_is_nobody_elses_business(status: int) -> None:
    bench = Bench([refusal(status)], [refusal(status)])
    for _ in range(2):
        with pytest.raises(LegFailed):
            await bench.launch()
    assert sum(bench.asked) == 2
    assert all(worker.is_ready for worker in bench.pool.workers)


async def test_where_nobody_listens_the_worker_is_ejected_at_once() -> None:
    bench = Bench([fine()], [REFUSED])
    await bench.launch()
    assert bench.pool.workers[1].state is State.EJECTED
    assert bench.asked == [1, 1]


async def test_three_launches_at_most() -> None:
    bench = Bench(*[[BROKEN] * 5 for _ in range(5)])
    with pytest.raises(LegFailed):
        await bench.launch()
    assert sum(bench.asked) == 3


async def test_an_outage_is_not_multiplied() -> None:
    """Repeats are a share of the traffic; beyond it a failure is told at once."""
    bench = Bench(*([refusal(500) for _ in range(200)] for _ in range(2)))
    for _ in range(60):
        with pytest.raises(LegFailed):
            await bench.launch()
    assert 60 + ALWAYS <= sum(bench.asked) <= 60 + ALWAYS + 60 // 5
    bench.now += 11
    before = sum(bench.asked)
    with pytest.raises(LegFailed):
        await bench.launch()
    assert sum(bench.asked) == before + 3, "ten seconds later it may repeat again"


async def test_a_workers_death_is_repaired_for_all_who_were_on_it() -> None:
    """No engine works on what a dead worker has dropped: that is no multiplication, however many they are."""
    bench = Bench([fine() for _ in range(100)], [BROKEN] * 100)
    for _ in range(100):
        await bench.launch()
    assert bench.asked[0] == 100


async def test_no_other_try_where_no_time_is_left() -> None:
    bench = Bench([fine()], [BROKEN], total=0.5)
    with pytest.raises(LegFailed):
        await bench.launch()
    assert sum(bench.asked) == 1


async def test_a_worker_that_was_lost_is_not_asked_again_while_there_is_another() -> None:
    bench = Bench([fine(), fine()], [fine(), fine()])
    lost = bench.pool.workers[1]
    bench.launcher.note_lost(lost)
    for _ in range(2):
        leg = await bench.launch("answer", stay=lost)
        assert leg.worker is not lost
    bench.pool.eject(bench.pool.workers[0], Cause.HEALTH, "it refuses connections", bench.now)
    assert (await bench.launch("answer", stay=lost)).worker is lost, "there is nobody else"


async def test_a_leg_that_goes_on_may_stay_on_a_worker_that_drains() -> None:
    bench = Bench([fine()], [fine()])
    home = bench.pool.workers[1]
    seat = home.seat()
    bench.pool.drain(home)
    assert (await bench.launch("answer", stay=home)).worker is home
    home.let_go(seat, SUCCESS, aborted=False)
    assert home.state is State.GONE


async def test_what_came_of_a_leg_is_the_workers_verdict() -> None:
    bench = Bench([stream(words("a"), BROKEN), stream(words("a"), end())])
    verdicts: list[Kind] = []
    bench.pool.workers[0].on_verdict = lambda worker, verdict, stamp: verdicts.append(verdict.kind)
    for _ in range(2):
        leg = await bench.launcher.launch(
            lambda _: Call("/v1/chat/completions", {"model": "m"}, Start.CLOSED, None), "answer"
        )
        with suppress(LegFailed):
            while await leg.read() is not None:
                pass
        leg.end(End.FINISHED)
    assert verdicts == [Kind.FAILURE, Kind.SUCCESS]


def test_turns_of_a_conversation_have_one_name_and_others_another() -> None:
    system, first = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}
    later = [system, first, {"role": "assistant", "content": "Three."}, {"role": "user", "content": "Why?"}]
    assert conversation_of([system, first]) == conversation_of(later)
    parts = [{"type": "text", "text": "How many?"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    assert conversation_of([system, {"role": "user", "content": parts}]) == conversation_of(later)
    assert conversation_of([first]) != conversation_of(later)
    assert conversation_of([system, {"role": "user", "content": "How much?"}]) != conversation_of(later)
    assert conversation_of([{"role": "user", "content": "\ud800"}, {"role": "user", "content": None}])
