"""A crowd at the router's door: work is done in slices of the loop's turns, and nobody waits beyond the deadline.

The clock is the test's own, and only judging takes time on it: what is asserted is who is judged in which turn and by
what, never how fast a machine is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gateway import glances
from gateway.glances import SLICE, Glances, Seen, patience
from router import Ask, Decision, Glance, Route, Tier

DEADLINE = 0.025
GLANCE, SKIM = 0.0005, 0.0001


@dataclass
class Clock:
    """Seconds; judging moves it, and so does each turn of the loop by a little for all else that the loop does."""

    now: float = 0.0
    turn: int = 0
    spent: dict[int, float] = field(default_factory=dict[int, float])

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.spent[self.turn] = self.spent.get(self.turn, 0.0) + seconds


class Crowd:
    def __init__(self, clock: Clock, glance: float = GLANCE, skim: float = SKIM) -> None:
        self.clock = clock
        self.error: Exception | None = None
        self._costs = (glance, skim)
        self.door = Glances(self._glance, self._skim, deadline=DEADLINE)
        self.waits: list[float] = []

    def _glance(self, ask: Ask) -> Glance:
        if self.error is not None:
            raise self.error
        self.clock.work(self._costs[0])
        return Glance(_verdict(Tier.CHEAP), is_final=True)

    def _skim(self, ask: Ask) -> Decision:
        self.clock.work(self._costs[1])
        return _verdict(Tier.LEXICAL)

    async def one(self, number: int) -> Seen:
        began = self.clock.now
        seen = await self.door.take(lambda: Ask(f"prompt {number}"))
        self.waits.append(self.clock.now - began)
        return seen

    async def all(self, count: int) -> list[Seen]:
        ticking = asyncio.create_task(self._tick())
        seen = await asyncio.gather(*(self.one(number) for number in range(count)))
        ticking.cancel()
        return seen

    async def _tick(self) -> None:
        while True:
            self.clock.turn += 1
            self.clock.now += 0.0002
            await asyncio.sleep(0)


def _verdict(tier: Tier) -> Decision:
    return Decision(Route.REASONING, 0.5, 0.9, 0.9, tier, ())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(glances, "perf_counter", lambda: found.now)
    return found


async def test_one_alone_is_judged_at_once(clock: Clock) -> None:
    crowd = Crowd(clock)
    seen = await crowd.one(1)
    assert (seen.ask, seen.glance.decision.tier, seen.trouble) == (Ask("prompt 1"), Tier.CHEAP, None)
    assert crowd.waits == [pytest.approx(GLANCE)]


@pytest.mark.parametrize("count", [20, 200, 2000])
async def test_no_turn_of_the_loop_is_held(clock: Clock, count: int) -> None:
    crowd = Crowd(clock)
    assert len(await crowd.all(count)) == count
    assert len(clock.spent) > 3
    assert max(clock.spent.values()) <= SLICE + GLANCE


@pytest.mark.parametrize("count", [20, 200, 2000])
async def test_nobody_waits_beyond_the_deadline(clock: Clock, count: int) -> None:
    crowd = Crowd(clock)
    await crowd.all(count)
    assert max(crowd.waits) <= patience(DEADLINE) + SLICE + GLANCE + 0.0002


async def test_a_few_are_all_read(clock: Clock) -> None:
    seen = await Crowd(clock).all(30)
    assert {(one.glance.decision.tier, one.trouble) for one in seen} == {(Tier.CHEAP, None)}


async def test_of_a_crowd_the_rest_is_skimmed(clock: Clock) -> None:
    seen = await Crowd(clock).all(130)
    found = [one.glance.decision.tier for one in seen]
    assert set(found) == {Tier.CHEAP, Tier.LEXICAL}
    assert all((one.trouble == "crowd") is (one.glance.decision.tier is Tier.LEXICAL) for one in seen)


async def test_who_cannot_even_be_skimmed_is_told_so(clock: Clock) -> None:
    crowd = Crowd(clock)
    seen = await crowd.all(2000)
    unread = [one for one in seen if one.glance.decision.tier is Tier.DEFAULT]
    assert 1000 < len(unread) < 2000
    assert crowd.waits.count(0.0) >= len(unread) - 5, "they are not kept waiting for nothing"
    assert {(one.ask, one.trouble, one.glance.is_final) for one in unread} == {(None, "crowd", True)}
    assert "not read" in unread[0].glance.decision.reasons[0]


async def test_one_who_has_left_costs_nothing(clock: Clock) -> None:
    crowd = Crowd(clock)
    waiting = [asyncio.create_task(crowd.one(number)) for number in range(10)]
    await asyncio.sleep(0)
    for one in waiting[5:]:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(clock.spent.values()) == pytest.approx(5 * GLANCE)


async def test_trouble_with_words_costs_no_request(clock: Clock) -> None:
    crowd = Crowd(clock)
    crowd.error = RuntimeError("tokeniser")
    seen = await crowd.one(1)
    assert (seen.trouble, seen.glance.decision.tier) == ("failed", Tier.DEFAULT)


async def test_the_door_rests_when_nobody_comes(clock: Clock) -> None:
    """No callback is left that would wake an idle loop for ever."""
    crowd = Crowd(clock)
    await crowd.all(40)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not crowd.door._is_turning
    assert (await crowd.one(1)).glance.decision.tier is Tier.CHEAP


@pytest.mark.parametrize("deadline", [1e-6, 0.001, 0.025, 86_400.0])
async def test_one_alone_is_read_however_short_the_deadline(clock: Clock, deadline: float) -> None:
    assert 0 < patience(deadline) < deadline
    door = Glances(
        lambda _: Glance(_verdict(Tier.CHEAP), is_final=True), lambda _: _verdict(Tier.LEXICAL), deadline=deadline
    )
    assert (await door.take(lambda: Ask("x"))).glance.decision.tier is Tier.CHEAP


async def test_one_interruption_turns_nobody_away(clock: Clock) -> None:
    """A skim that took a second says that the machine was away, not that skims take long."""
    crowd = Crowd(clock)
    await crowd.all(60)
    crowd._costs = (GLANCE, 1.0)
    await crowd.all(60)
    crowd._costs = (GLANCE, SKIM)
    seen = await crowd.all(60)
    assert [one.trouble for one in seen if one.ask is None] == []
