"""Any life of a pool: workers come, warm up, fail, drain, are paused and leave, in any order. What must always hold."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.config import EngineKind, SelectionPolicy
from gateway.config import Pool as PoolConfig
from gateway.edge.errors import ApiError
from gateway.engines.load import Load
from gateway.pools import Pool, State, Worker
from gateway.pools.retries import ALWAYS, SHARE, WINDOW, RetryBudget
from gateway.pools.roster import Cause
from gateway.pools.selection import BOUND, Affinity, LeastPressure
from gateway.pools.states import NEXT, Life
from gateway.pools.verdict import NEUTRAL, SUCCESS, Kind, Verdict
from gateway.pools.worker import Seat

VERDICTS = st.sampled_from(
    [SUCCESS, NEUTRAL, Verdict(Kind.CLIENT), Verdict(Kind.BACK_PRESSURE), Verdict(Kind.BACK_PRESSURE, pause=7),
     Verdict(Kind.FAILURE), Verdict(Kind.FAILURE, is_unreachable=True)]
)  # fmt: skip
WORKER = st.integers(0, 7)


def fleet(count: int, policy: SelectionPolicy = SelectionPolicy.AFFINITY, **fields: object) -> Pool:
    urls = tuple(f"http://w{number}:8000" for number in range(count))
    config = PoolConfig.model_validate(
        {"model": "m", "engine": EngineKind.VLLM, "format": "think", "workers": urls, "selection": policy, **fields}
    )
    return Pool("p", config)


class PoolMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = fleet(3)
        self.now = 1_000.0
        self.pool.clock = lambda: self.now
        self.pool.listener = self
        self.legs: list[tuple[Worker, Seat]] = []
        self.known = {worker: worker.state for worker in self.pool.workers}
        self.born = 3

    # the listener

    def moved(self, pool: str, worker: Worker) -> None:
        if worker in self.known:
            assert worker.state in NEXT[self.known[worker]]
        self.known[worker] = worker.state

    def ejected(self, pool: str, worker: Worker, cause: Cause) -> None:
        if cause in {Cause.FAILURES, Cause.UNREACHABLE, Cause.FLOOD}:
            assert self.pool.is_ready, "the last ready worker stays"
        if cause is Cause.FAILURES:
            members = [one for one in self.pool.workers if one.state not in {State.DRAINING, State.GONE}]
            failing = [one for one in members if not one.is_ready and one.breaker.is_open]
            assert 2 * len(failing) <= len(members), "half of a pool whose requests fail stays"

    def judged(self, pool: str, worker: Worker, verdict: Verdict) -> None: ...
    def flooded(self, pool: str, worker: Worker) -> None: ...
    def retry_refused(self, pool: str) -> None: ...
    def measured(self, pool: str, worker: Worker) -> None: ...
    def removed(self, pool: str, worker: Worker) -> None: ...

    # what may happen

    def worker(self, number: int) -> Worker:
        return self.pool.workers[number % len(self.pool.workers)]

    @rule(seconds=st.floats(0, 100))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.pool.workers)
    @rule(number=WORKER, state=st.sampled_from([State.WARMING, State.READY]))
    def get_on(self, number: int, state: State) -> None:
        self.pool.move(self.worker(number), state, "as the health watch says")

    @precondition(lambda self: self.pool.workers)
    @rule(number=WORKER)
    def fail_checks(self, number: int) -> None:
        self.pool.eject(self.worker(number), Cause.HEALTH, "it refuses connections", self.now)

    @precondition(lambda self: self.pool.workers)
    @rule(number=WORKER)
    def drain(self, number: int) -> None:
        self.pool.drain(self.worker(number))

    @rule()
    def add(self) -> None:
        self.born += 1
        worker = self.pool.add(f"http://w{self.born}:8000")
        self.known[worker] = State.PENDING

    @precondition(lambda self: self.pool.workers)
    @rule(number=WORKER)
    def remove(self, number: int) -> None:
        self.pool.remove(self.worker(number))

    @precondition(lambda self: self.pool.workers)
    @rule(number=WORKER)
    def flood(self, number: int) -> None:
        self.pool.note_flood(self.worker(number))

    @rule(key=st.sampled_from([None, "a", "b"]), urgent=st.booleans())
    def begin(self, key: str | None, urgent: bool) -> None:
        if not self.pool.has_other((), urgent=urgent):
            with pytest.raises(ApiError) as refused:
                self.pool.pick(key=key, urgent=urgent)
            assert refused.value.status == 503
            assert 1 <= int(refused.value.headers["retry-after"]) <= 60
            return
        worker = self.pool.pick(key=key, urgent=urgent)
        assert worker.state is State.READY
        assert urgent or not worker.pause_is_told or self.now >= worker.paused_until
        self.legs.append((worker, worker.seat(100)))

    @precondition(lambda self: self.legs)
    @rule(data=st.data(), verdict=VERDICTS, aborted=st.booleans())
    def end(self, data: st.DataObject, verdict: Verdict, aborted: bool) -> None:
        worker, seat = self.legs.pop(data.draw(st.integers(0, len(self.legs) - 1)))
        before = worker.state
        worker.let_go(seat, verdict, aborted=aborted)
        if verdict.kind is not Kind.FAILURE and before is not State.DRAINING:
            assert worker.state is before, "only failures cost a worker its place"

    @invariant()
    def counts_are_true(self) -> None:
        for worker in self.pool.workers:
            legs = sum(one is worker for one, _ in self.legs)
            assert (worker.in_flight, worker.gauge.tokens) == (legs, 100 * legs)
            assert worker.state is not State.GONE or not legs
        assert self.pool.is_ready is any(worker.state is State.READY for worker in self.pool.workers)


TestPoolMachine = PoolMachine.TestCase


@given(st.lists(st.sampled_from(list(State)), max_size=30))
def test_a_life_goes_only_its_ways(wanted: list[State]) -> None:
    life, now = Life(0.0), 0.0
    for state in wanted:
        now += 1
        before = life.state
        moved = life.move(state, "r", now)
        assert moved is (state in NEXT[before])
        assert life.state is (state if moved else before)
        assert life.since == (now if moved else life.since)


@given(st.integers(2, 8), st.lists(st.text(max_size=8), min_size=1, max_size=60), st.integers(0, 2**32))
def test_affinity_is_faithful_and_bounded(count: int, keys: list[str], seed: int) -> None:
    """Idle, a key has one worker; loaded, nobody has more than its bound of the legs, whatever the keys."""
    workers = fleet(count).workers
    policy = Affinity(Random(seed))
    homes = {key: policy.choose(workers, key, 0.0, 2.0) for key in keys}
    assert all(policy.choose(workers, key, 0.0, 2.0) is home for key, home in homes.items())
    for key in keys:
        policy.choose(workers, key, 0.0, 2.0).seat()
    legs = [worker.in_flight for worker in workers]
    assert sum(legs) == len(keys)
    assert max(legs) <= -(-BOUND * len(keys) // count)


@given(st.integers(2, 8), st.sets(st.text(min_size=1, max_size=8), min_size=20, max_size=40))
def test_one_that_leaves_moves_only_its_own_conversations(count: int, keys: set[str]) -> None:
    workers = fleet(count).workers
    policy = Affinity(Random(0))
    for key in keys:
        home = policy.choose(workers, key, 0.0, 2.0)
        others = [worker for worker in workers if worker is not home]
        gone = others[0]
        assert policy.choose([worker for worker in workers if worker is not gone], key, 0.0, 2.0) is home


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**32))
def test_of_two_the_one_with_more_room(one: float, other: float, seed: int) -> None:
    workers = fleet(2).workers
    for worker, used in zip(workers, (one, other), strict=True):
        worker.gauge.note(Load(1, 0, kv=used, capacity=10_000), 0.0)
    chosen = LeastPressure(Random(seed)).choose(workers, None, 1.0, 2.0)
    if one != other:
        assert chosen is workers[one > other]


@given(st.integers(0, 2**32))
def test_an_old_word_is_no_word(seed: int) -> None:
    """Stale is unknown, never idle: then both are compared by what we sent them."""
    workers = fleet(2).workers
    workers[0].gauge.note(Load(0, 0, kv=0.0, capacity=10_000), 0.0)
    workers[1].gauge.note(Load(9, 9, kv=1.0, capacity=10_000), 0.0)
    workers[0].seat(500)
    policy = LeastPressure(Random(seed))
    assert policy.choose(workers, None, 5.9, 2.0) is workers[0]
    assert policy.choose(workers, None, 6.1, 2.0) is workers[1]


@given(st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=300))
def test_repeats_are_a_share_of_the_traffic(events: list[tuple[float, bool]]) -> None:
    budget, now = RetryBudget(), 0.0
    launches: list[float] = []
    repeats: list[float] = []
    for pause, wants in events:
        now += pause
        budget.note_launch(now)
        launches.append(now)
        recent = sum(at > now - WINDOW for at in launches)
        spent = sum(at > now - WINDOW for at in repeats)
        if wants:
            assert budget.take(now) is (spent < max(ALWAYS, SHARE * recent))
            if spent < max(ALWAYS, SHARE * recent):
                repeats.append(now)
