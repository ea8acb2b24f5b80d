"""What will be enforced: caps by class and level, the answer's reserve, and what a pool cannot do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from budgets import ClassCaps, How, Intent, IntentError, Mode, Plan, Policy, make_plan, trim_thought

CAPS = ClassCaps(256, 1_024, 4_096, 16_384, 32_768)
POLICY = Policy(enabled=True, can_disable=True, max_cap=32_768, caps=CAPS, answer_reserve=256, how=How.CUT)
OFF = Intent(Mode.OFF, source="enable_thinking")


def number(cap: int) -> Intent:
    return Intent(Mode.ON, cap=cap, source="thinking_budget")


def essence(plan: Plan) -> tuple[How, int | None, int, int | None, str]:
    return plan.how, plan.cap, plan.reserve, plan.limit, plan.source


@pytest.mark.parametrize(
    ("complexity", "cap"),
    [(0, 256), (0.25, 1_024), (0.5, 4_096), (0.75, 16_384), (1, 32_768), (0.125, 512), (-3, 256), (7, 32_768)],
)
def test_the_cap_grows_with_difficulty(complexity: float, cap: int) -> None:
    assert CAPS.at(complexity) == cap
    assert essence(make_plan(Intent(), POLICY, complexity=complexity, limit=None)) == (
        How.CUT,
        cap,
        256,
        None,
        "complexity",
    )


def test_a_class_without_thought_is_no_trap() -> None:
    caps = ClassCaps(0, 0, 8, 8, 8)
    assert [caps.at(complexity) for complexity in (0, 0.1, 0.25, 0.375, 0.5, 1)] == [0, 0, 0, 4, 8, 8]
    assert make_plan(Intent(), replace(POLICY, caps=caps), complexity=0, limit=None).cap == 1


@pytest.mark.parametrize(
    ("level", "cap"),
    [("minimal", 256), ("low", 1_024), ("medium", 4_096), ("high", 16_384), ("xhigh", 32_768), ("max", 32_768)],
)
def test_a_level_is_a_class(level: str, cap: int) -> None:
    plan = make_plan(Intent(Mode.ON, level=level, source="reasoning_effort"), POLICY, complexity=0, limit=None)
    assert (plan.cap, plan.source) == (cap, "reasoning_effort")


def test_a_number_is_kept_to_the_token() -> None:
    assert essence(make_plan(number(77), POLICY, complexity=1, limit=None)) == (
        How.CUT,
        77,
        256,
        None,
        "thinking_budget",
    )


def test_nobody_goes_beyond_the_operators_most() -> None:
    for intent in (number(10**30), Intent(Mode.ON, level="max", source="x"), Intent()):
        plan = make_plan(intent, replace(POLICY, max_cap=500), complexity=1, limit=None)
        assert (plan.cap, plan.source) == (500, "max_cap")


@pytest.mark.parametrize(
    ("limit", "cap", "reserve"),
    [(10_000, 9_000, 1_000), (2_000, 1_744, 256), (600, 344, 256), (400, 200, 200), (3, 2, 1), (2, 1, 1), (1, 1, 1)],
)
def test_the_answer_keeps_a_share_of_the_limit(limit: int, cap: int, reserve: int) -> None:
    plan = make_plan(number(30_000), POLICY, complexity=0, limit=limit)
    assert (plan.cap, plan.reserve, plan.limit, plan.source) == (cap, reserve, limit, "max_tokens")


def test_off_is_off_where_the_model_can_be_silent() -> None:
    plan = make_plan(OFF, POLICY, complexity=1, limit=100)
    assert (plan.how, plan.cap, plan.source, plan.thinks) == (How.OFF, None, "enable_thinking", False)


def test_off_is_the_shortest_thought_where_it_cannot() -> None:
    plan = make_plan(OFF, replace(POLICY, can_disable=False), complexity=1, limit=None)
    assert (plan.how, plan.cap, plan.source, plan.thinks) == (How.CUT, 256, "enable_thinking", True)


def test_a_pool_without_thinking_refuses_only_those_who_want_it() -> None:
    standard = replace(POLICY, enabled=False)
    for intent in (Intent(), OFF):
        assert essence(make_plan(intent, standard, complexity=1, limit=None)) == (How.OFF, None, 256, None, "pool")
    with pytest.raises(IntentError) as caught:
        make_plan(number(5), standard, complexity=1, limit=None)
    assert (caught.value.param, caught.value.code) == ("thinking_budget", "thinking_not_available")


def test_a_number_that_nobody_can_hold_is_refused_and_a_level_is_not() -> None:
    powerless = replace(POLICY, how=How.NONE)
    with pytest.raises(IntentError) as caught:
        make_plan(number(5), powerless, complexity=1, limit=None)
    assert (caught.value.param, caught.value.code) == ("thinking_budget", "unsupported_value")
    level = Intent(Mode.ON, level="low", source="reasoning_effort")
    assert make_plan(level, powerless, complexity=1, limit=None).how is How.NONE


@pytest.mark.parametrize(
    ("thought", "trimmed"),
    [
        ("a" * 100, "a" * 100),
        ("a" * 95 + ". bcd", "a" * 95 + "."),
        ("a" * 95 + "\nbcde", "a" * 95),
        ("a" * 95 + "。bcde", "a" * 95 + "。"),
        ("a" * 92 + " b. cdef", "a" * 92 + " b."),
        ("a" * 95 + " bcd", "a" * 95),
        ("a" * 50 + ". " + "b" * 50, "a" * 50 + ". " + "b" * 50),
        ("done.  \n", "done."),
        ("", ""),
        (" ", ""),
    ],
)
def test_a_thought_is_trimmed_at_a_clean_break_near_its_end(thought: str, trimmed: str) -> None:
    assert trim_thought(thought) == trimmed


@pytest.mark.parametrize(
    ("room", "cap", "source"),
    [(None, CAPS.moderate, "complexity"), (100_000, CAPS.moderate, "complexity"), (300, 44, "context")],
)
def test_a_thought_leaves_room_in_the_context_for_the_answer(room: int | None, cap: int, source: str) -> None:
    plan = make_plan(Intent(), POLICY, complexity=0.5, limit=None, room=room)
    assert (plan.cap, plan.source) == (cap, source)


@pytest.mark.parametrize(
    ("intent", "level"),
    [
        (Intent(), None),
        (Intent(Mode.ON, level="low", source="reasoning_effort"), "low"),
        (Intent(Mode.ON, cap=100, source="thinking_budget"), None),
        (OFF, "none"),
    ],
)
def test_the_word_is_kept_for_engines_that_take_no_number(intent: Intent, level: str | None) -> None:
    assert make_plan(intent, POLICY, complexity=0.5, limit=None).level == level
    assert make_plan(intent, replace(POLICY, can_disable=False), complexity=0.5, limit=None).level == level


@pytest.mark.parametrize(
    ("cap", "word"),
    [(1, "minimal"), (256, "minimal"), (257, "low"), (4_096, "medium"), (16_384, "high"), (99_999, "xhigh")],
)
def test_a_model_that_heeds_words_is_told_the_one_that_fits_its_cap(cap: int, word: str) -> None:
    assert make_plan(number(cap), replace(POLICY, max_cap=100_000), complexity=0, limit=None).effort == word


def test_the_least_thought_is_never_more_than_the_cap() -> None:
    policy = replace(POLICY, least=100)
    assert make_plan(number(500), policy, complexity=0, limit=None).least == 100
    assert make_plan(number(50), policy, complexity=0, limit=None).least == 50
    assert make_plan(Intent(Mode.OFF, source="x"), policy, complexity=0, limit=None).least == 0
    forced = replace(policy, can_disable=False)
    assert make_plan(Intent(Mode.OFF, source="x"), forced, complexity=0, limit=None).least == 0, (
        "off is no wish for more"
    )
    assert make_plan(Intent(), replace(policy, how=How.NONE), complexity=0, limit=None).least == 0
