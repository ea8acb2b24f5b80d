"""Invariants of the arithmetic: plans within their limits, monotone caps, honest splits, trims that only shorten."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from budgets import ClassCaps, Governor, How, Intent, Meter, Mode, Policy, Ruling, make_plan, split_usage, trim_thought
from budgets.intent import LEVELS
from budgets.trim import WINDOW

tokens = st.integers(0, 100_000)
caps = st.lists(tokens, min_size=5, max_size=5).map(lambda values: ClassCaps(*sorted(values)))
policies = st.builds(
    Policy,
    enabled=st.just(True),
    can_disable=st.booleans(),
    max_cap=st.integers(1, 100_000),
    caps=caps,
    answer_reserve=st.integers(1, 5_000),
    how=st.sampled_from([How.CUT, How.NATIVE]),
)
intents = st.one_of(
    st.just(Intent()),
    st.just(Intent(Mode.OFF, source="x")),
    st.builds(Intent, st.just(Mode.ON), st.integers(1, 10**12), source=st.just("x")),
    st.builds(Intent, st.just(Mode.ON), level=st.sampled_from(LEVELS), source=st.just("x")),
)
shares = st.floats(0, 1)
limits = st.one_of(st.none(), st.integers(1, 100_000))


@settings(max_examples=400, deadline=None)
@given(intents, policies, shares, limits)
def test_a_plan_keeps_to_every_bound(intent: Intent, policy: Policy, complexity: float, limit: int | None) -> None:
    plan = make_plan(intent, policy, complexity=complexity, limit=limit)
    assert plan.reserve >= 1
    if plan.cap is None:
        assert plan.how is How.OFF
        return
    assert 1 <= plan.cap <= policy.max_cap
    assert intent.cap is None or plan.cap <= intent.cap
    if limit is not None and limit >= 2:
        assert plan.cap + plan.reserve <= limit


@settings(max_examples=300, deadline=None)
@given(caps, shares, shares)
def test_a_harder_ask_never_gets_a_smaller_cap(classes: ClassCaps, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert classes.at(low) <= classes.at(high)
    assert classes.trivial <= classes.at(low) <= classes.expert


@settings(max_examples=300, deadline=None)
@given(intents, policies, shares, st.integers(2, 50_000))
def test_a_larger_limit_never_means_a_shorter_thought(
    intent: Intent, policy: Policy, complexity: float, limit: int
) -> None:
    small = make_plan(intent, policy, complexity=complexity, limit=limit).cap
    large = make_plan(intent, policy, complexity=complexity, limit=limit + 1).cap
    assert small is None or (large is not None and small <= large)


pieces = st.lists(st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 9))), max_size=20)


def meter(found: list[tuple[int, int | None]]) -> Meter:
    counted = Meter()
    for characters, count in found:
        counted.add(characters, count)
    return counted


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.none(), st.integers(0, 500)), pieces, pieces)
def test_a_split_never_gives_more_than_there_is(
    completion: int | None, thought: list[tuple[int, int | None]], answer: list[tuple[int, int | None]]
) -> None:
    total, reasoning = split_usage(completion, meter(thought), meter(answer))
    assert 0 <= reasoning <= total
    assert completion is None or total == completion
    assert thought or reasoning == 0
    if completion is not None and thought and not answer:
        assert reasoning == total


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 50), st.lists(st.integers(1, 8), min_size=1, max_size=80))
def test_one_event_a_token_is_cut_at_the_cap_and_not_before(cap: int, sizes: list[int]) -> None:
    governor = Governor(cap)
    for count, size in enumerate(sizes, 1):
        assert governor.watch_reasoning("x" * size, None) is (Ruling.CAP if count >= cap else None)


letters = st.text(alphabet=st.sampled_from([*"ab .!?\n。！", "é", "😀"]), max_size=120)


@settings(max_examples=500, deadline=None)
@given(letters)
def test_a_trimmed_thought_is_a_beginning_of_it_and_gives_up_at_most_the_window(thought: str) -> None:
    trimmed = trim_thought(thought)
    assert thought.startswith(trimmed)
    assert trimmed == trimmed.rstrip()
    given_up = thought.removeprefix(trimmed)
    # Blanks at the break go too; what is not blank may go from the window only.
    assert len(given_up.lstrip()) <= max(1, int(len(thought) * WINDOW))
    assert bool(trimmed) == bool(thought.strip()) or len(thought.strip()) <= 1
