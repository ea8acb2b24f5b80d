"""The breaker against a plain model of it, over any order of legs, verdicts and times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.pools.breaker import LONGEST, MEMORY, OPEN_FOR, THRESHOLD, UNREACHABLE_FOR, Breaker
from gateway.pools.verdict import NEUTRAL, SUCCESS, Kind, Verdict

FAILURE = Verdict(Kind.FAILURE)
REFUSED = Verdict(Kind.FAILURE, is_unreachable=True)
HARMLESS = [NEUTRAL, Verdict(Kind.BACK_PRESSURE, pause=7), Verdict(Kind.CLIENT)]
VERDICTS = st.sampled_from([SUCCESS, FAILURE, REFUSED, *HARMLESS])


class BreakerMachine(RuleBasedStateMachine):
    """Legs begin, and end in any order with any verdict, while time goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker()
        self.now = 1_000.0
        self.running: list[int] = []
        self.probes = 0
        self.was = (0, False)

    @rule(seconds=st.floats(0, 200))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.breaker.admits)
    @rule()
    def begin(self) -> None:
        probing = self.breaker.is_open
        self.running.append(self.breaker.take())
        self.probes += probing
        assert self.breaker.admits is not probing, "one probe at a time, any number otherwise"

    @rule()
    def try_half_open(self) -> None:
        was_due = self.now >= self.breaker.reopens_at
        allowed = self.breaker.half_open(self.now)
        if self.breaker.is_open and was_due:
            assert allowed

    @precondition(lambda self: self.running)
    @rule(data=st.data(), verdict=VERDICTS)
    def end(self, data: st.DataObject, verdict: Verdict) -> None:
        stamp = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        before = (self.breaker.generation, self.breaker.is_open, self.breaker.reopens_at)
        self.breaker.note(verdict, stamp, self.now)
        after = (self.breaker.generation, self.breaker.is_open, self.breaker.reopens_at)
        if stamp != before[0] or verdict in HARMLESS:
            assert after == before, "a late verdict, a full engine and a client's fault change nothing"
        if self.breaker.is_open and not before[1]:
            assert UNREACHABLE_FOR <= self.breaker.reopens_at - self.now <= LONGEST

    @invariant()
    def generation_tells_changes(self) -> None:
        now = (self.breaker.generation, self.breaker.is_open)
        assert now[0] >= self.was[0]
        if now[1] is not self.was[1]:
            assert now[0] > self.was[0]
        self.was = now


TestBreakerMachine = BreakerMachine.TestCase


@given(st.lists(st.sampled_from([*HARMLESS, SUCCESS]), max_size=100))
def test_no_number_of_harmless_verdicts_opens_it(verdicts: list[Verdict]) -> None:
    """Peers shut out healthy workers for 429s and for clients' own 400s (sglang#39464, #25811, #25822, #26713)."""
    breaker = Breaker()
    for at, verdict in enumerate(verdicts):
        breaker.note(verdict, breaker.take(), float(at))
    assert not breaker.is_open


@given(st.lists(st.floats(0, MEMORY / THRESHOLD), min_size=THRESHOLD, max_size=THRESHOLD))
def test_failures_in_a_row_open_it(pauses: list[float]) -> None:
    breaker, now = Breaker(), 0.0
    for pause in pauses:
        assert not breaker.is_open
        now += pause
        breaker.note(FAILURE, breaker.take(), now)
    assert breaker.is_open
    assert breaker.reopens_at == now + OPEN_FOR


def test_failures_far_apart_are_not_in_a_row() -> None:
    breaker = Breaker()
    for number in range(50):
        breaker.note(FAILURE, breaker.take(), number * (MEMORY + 1))
    assert not breaker.is_open


def test_it_stays_open_longer_each_time_and_forgets_in_the_end() -> None:
    breaker, now, spans = Breaker(), 0.0, list[float]()
    for _ in range(6):
        breaker.note(REFUSED, breaker.take(), now)
        spans.append(breaker.reopens_at - now)
        now = breaker.reopens_at
        assert breaker.half_open(now)
    assert spans == [2, 4, 8, 16, 32, 64]
    breaker.note(SUCCESS, breaker.take(), now)
    assert not breaker.is_open
    now += LONGEST + 1
    breaker.note(SUCCESS, breaker.take(), now)
    breaker.note(REFUSED, breaker.take(), now)
    assert breaker.reopens_at - now == UNREACHABLE_FOR


def test_a_late_success_does_not_close_it_and_a_late_failure_does_not_open_it_again() -> None:
    breaker = Breaker()
    early = breaker.take()
    breaker.note(REFUSED, breaker.take(), 0.0)
    breaker.note(SUCCESS, early, 1.0)
    assert breaker.is_open, "it began before the worker broke"
    assert breaker.half_open(2.0)
    breaker.note(SUCCESS, breaker.take(), 3.0)
    breaker.note(REFUSED, early, 4.0)
    assert not breaker.is_open


def test_a_probe_that_tells_nothing_gives_its_place_back() -> None:
    breaker = Breaker()
    breaker.note(REFUSED, breaker.take(), 0.0)
    breaker.half_open(2.0)
    stamp = breaker.take()
    assert not breaker.admits
    breaker.note(NEUTRAL, stamp, 3.0)
    assert breaker.admits
    assert breaker.is_open
