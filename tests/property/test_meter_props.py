"""GPU-seconds are conserved: what flights pay, and what nobody pays, is the time a worker was busy."""

from __future__ import annotations

from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.engines.load import Load, Times
from gateway.pools.meter import Bill, Meter, Stint, Use

SECONDS = st.floats(0.001, 100, allow_nan=False)
TOLERANCE = 1e-6


class AnyOrder(RuleBasedStateMachine):
    """Flights of several legs on two workers, relayed legs, polls of any kind, a worker that is removed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.uses: list[Use] = []
        self.meters = [Meter(gpus, lambda: self.now) for gpus in (1.0, 4.0)]
        for meter in self.meters:
            meter.on_use = self.uses.append
        self.running: list[tuple[Meter, Stint]] = []
        self.flying: list[Bill] = []
        self.over: list[Bill] = []
        self.paid: list[float] = []
        self.busy = 0.0
        self.times = Times(0, 0, 0)
        self.closed: set[int] = set()

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for meter in self.meters:
            if any(one is meter for one, _ in self.running):
                self.busy += seconds * meter.gpus

    @rule()
    def take_off(self) -> None:
        self.flying.append(Bill())

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), place=st.integers(0, 1), prompt=st.integers(0, 100_000))
    def begin_leg(self, data: st.DataObject, place: int, prompt: int) -> None:
        bill = data.draw(st.sampled_from(self.flying))
        self.running.append((self.meters[place], self.meters[place].begin(bill, prompt)))

    @rule(place=st.integers(0, 1))
    def begin_relayed(self, place: int) -> None:
        self.running.append((self.meters[place], self.meters[place].begin(None, 10)))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), said=st.integers(0, 10_000))
    def generate(self, data: st.DataObject, said: int) -> None:
        meter, stint = data.draw(st.sampled_from(self.running))
        if stint.first_token is None:
            meter.generates(stint)
        stint.said += said

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end_leg(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.running))
        self.running.remove(one)
        one[0].end(one[1])

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        bill = data.draw(st.sampled_from(self.flying))
        for one in [one for one in self.running if one[1].bill is bill]:
            self.running.remove(one)
            one[0].end(one[1])
        self.flying.remove(bill)
        self.over.append(bill)
        bill.when_settled(self.paid.append)
        bill.close()

    @rule(
        place=st.integers(0, 1),
        others=st.integers(0, 5),
        grown=st.tuples(SECONDS, SECONDS, SECONDS),
        tells=st.booleans(),
    )
    def poll(self, place: int, others: int, grown: tuple[float, float, float], tells: bool) -> None:
        self.times = Times(*(old + new for old, new in zip((0, 0, 0), grown, strict=True)))
        ours = sum(meter is self.meters[place] for meter, _ in self.running)
        self.meters[place].note(Load(ours + others, 0, times=self.times if tells else None), ours)
        self.meters[place].settle()

    @rule(place=st.integers(0, 1))
    def poll_in_vain(self, place: int) -> None:
        self.meters[place].settle()

    @rule(place=st.integers(0, 1))
    def remove_worker(self, place: int) -> None:
        self.meters[place].close()

    @invariant()
    def nobody_pays_less_than_nothing(self) -> None:
        assert all(bill.seconds >= 0 for bill in (*self.flying, *self.over))
        assert all(use.unattributed >= -TOLERANCE for use in self.uses)

    def teardown(self) -> None:
        for meter, stint in self.running:
            meter.end(stint)
        for bill in self.flying:
            bill.when_settled(self.paid.append)
            bill.close()
        for meter in self.meters:
            meter.settle()
        bills = [*self.flying, *self.over]
        nobodys = sum(use.unattributed for use in self.uses)
        assert isclose(sum(use.busy for use in self.uses), self.busy, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        assert isclose(sum(bill.seconds for bill in bills) + nobodys, self.busy, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        assert len(self.paid) == len(bills), "every flight is told its sum, once"
        assert isclose(sum(self.paid), sum(bill.seconds for bill in bills), rel_tol=TOLERANCE, abs_tol=TOLERANCE)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(prompts=st.lists(st.integers(1, 50_000), min_size=2, max_size=6), seconds=SECONDS)
def test_without_time_sums_the_share_is_that_of_the_kv_held(prompts: list[int], seconds: float) -> None:
    clock = Clock()
    meter = Meter(2.0, clock)
    bills = [Bill() for _ in prompts]
    for bill, prompt in zip(bills, prompts, strict=True):
        meter.begin(bill, prompt)
    clock.now += seconds
    meter.settle()
    for bill, prompt in zip(bills, prompts, strict=True):
        assert bill.seconds == pytest.approx(2.0 * seconds * prompt / sum(prompts))


def test_with_time_sums_a_leg_that_only_queues_pays_only_for_what_was_read() -> None:
    clock = Clock()
    meter = Meter(1.0, clock)
    meter.note(Load(1, 0, times=Times(0, 0, 0)), 1)
    meter.note(Load(1, 1, times=Times(9, 1, 5)), 1)
    working, queueing = Bill(), Bill()
    meter.generates(meter.begin(working, 10))
    meter.begin(queueing, 90_000)
    clock.now += 11
    meter.settle()
    assert (working.seconds, queueing.seconds) == (pytest.approx(10), pytest.approx(1))


def test_requests_of_others_that_stay_take_their_share() -> None:
    clock = Clock()
    meter = Meter(1.0, clock)
    bill, uses = Bill(), list[Use]()
    meter.on_use = uses.append
    meter.begin(bill, 10)
    meter.note(Load(4, 0), 1)  # seen once: they may be ours that have just ended
    clock.now += 4
    meter.settle()
    assert bill.seconds == 4
    meter.note(Load(4, 0), 1)
    clock.now += 4
    meter.settle()
    assert bill.seconds == pytest.approx(5)
    assert uses[-1] == Use(4, pytest.approx(1), pytest.approx(3))


def test_an_engine_that_was_started_anew_counts_from_nothing() -> None:
    assert Times(1, 2, 3).since(Times(9, 9, 9)) == Times(1, 2, 3)
    assert Times(10, 10, 10).since(Times(9, 8, 7)) == Times(1, 2, 3)
