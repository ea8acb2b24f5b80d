"""What differs between two configurations, whatever they are: told by key, never by value, and enough to go by."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import Config
from gateway.configchanges import changed_keys, pinned
from gateway.pools import Pool, State
from gateway.pools.changes import Change, Fate, changes
from gateway.pools.turnover import disband, is_over, look, turn_over
from gateway.pools.verdict import NEUTRAL

URLS = [f"http://w{number}:8000" for number in range(5)]
WORKERS = st.lists(st.sampled_from(URLS), min_size=1, unique=True)
POOLS = st.fixed_dictionaries(
    {
        "engine": st.sampled_from(["vllm", "sglang"]),
        "workers": WORKERS,
        "format": st.sampled_from(["think", "own"]),
        "api_key": st.sampled_from(["KEY-A", "KEY-B"]),
        "timeouts": st.fixed_dictionaries({"idle": st.sampled_from([10.0, 20.0])}),
        "aliases": st.just([]),
    }
)
KEYS = st.lists(st.sampled_from("abc"), unique=True)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, unique=True))
    return {
        "server": {"drain": draw(st.sampled_from([1, 2])), "keep_alive_comment": draw(st.sampled_from([1, 2]))},
        "keys": [
            {"alias": alias, "hash": f"sha256:{alias * 64}", "admin": draw(st.booleans())} for alias in draw(KEYS)
        ],
        "pools": {name: {**draw(POOLS), "model": f"m-{name}"} for name in names},
        "formats": {"own": {"open": ["<t>"], "close": [draw(st.sampled_from(["</t>", "</u>"]))]}},
    }


def config(data: dict[str, Any]) -> Config:
    return Config.model_validate_json(json.dumps(data), strict=True)


@settings(deadline=None)
@given(configs(), configs())
def test_every_difference_has_a_key_and_no_value(one: dict[str, Any], other: dict[str, Any]) -> None:
    old, new = config(one), config(other)
    found = changed_keys(old, new)
    assert changed_keys(old, old) == []
    if old != new:
        assert found
    assert len(set(found)) == len(found)
    told = " ".join(found)
    assert "KEY-" not in told
    assert "sha256" not in told
    for name in {*old.pools} ^ {*new.pools}:
        assert f"pools.{name}" in found
    for name in {*old.pools} & {*new.pools}:
        assert any(key.startswith(f"pools.{name}.") for key in found) is (old.pools[name] != new.pools[name])


@settings(deadline=None)
@given(configs(), configs())
def test_a_pool_is_kept_only_where_nothing_differs(one: dict[str, Any], other: dict[str, Any]) -> None:
    old, new = config(one), config(other)
    found = changes(old, new)
    assert set(found) == {*old.pools, *new.pools}
    assert set(changes(old, old).values()) == {Change(Fate.KEPT)}
    for name, change in found.items():
        before, after = old.pools.get(name), new.pools.get(name)
        assert (change.fate is Fate.ADDED) is (before is None)
        assert (change.fate is Fate.REMOVED) is (after is None)
        if change.fate is Fate.KEPT:
            assert before == after
            assert before is not None
            assert before.format != "own" or old.formats == new.formats
        if change.fate is Fate.REPLACED:
            assert before is not None
            assert after is not None
            assert before.engine != after.engine
        if change.fate is Fate.CHANGED:
            assert before is not None
            assert after is not None
            assert {*before.workers, *change.came} - {*change.left} == {*after.workers}
            assert not {*change.came} & {*before.workers}


@settings(deadline=None)
@given(configs(), configs())
def test_what_is_pinned_stays_and_is_named(one: dict[str, Any], other: dict[str, Any]) -> None:
    running, wanted = config(one), config(other)
    held, fixed = pinned(wanted, running)
    assert held.server.drain == running.server.drain
    assert held.server.keep_alive_comment == wanted.server.keep_alive_comment
    assert (held.pools, held.keys) == (wanted.pools, wanted.keys)
    assert fixed == (["server.drain"] if running.server.drain != wanted.server.drain else [])
    assert pinned(held, running) == (held, [])


def test_no_key_goes_while_the_socket_is_open_to_the_world() -> None:
    pools = {"one": {"model": "m", "engine": "vllm", "format": "think", "workers": URLS[:1]}}
    key = {"alias": "a", "hash": f"sha256:{'a' * 64}"}
    running = config({"server": {"host": "0.0.0.0"}, "keys": [key], "pools": pools})
    with pytest.raises(ValueError, match=r"^refusing to listen on 0\.0\.0\.0 without keys"):
        pinned(config({"pools": pools}), running)


def test_the_order_of_routes_counts() -> None:
    pools = {"one": {"model": "m", "engine": "vllm", "format": "think", "workers": URLS[:1]}}
    routes = {name: {"route": "reasoning", "keywords": [name]} for name in ("a", "b")}
    old = config({"pools": pools, "router": {"routes": routes}})
    new = config({"pools": pools, "router": {"routes": dict(reversed(routes.items()))}})
    assert changed_keys(old, new) == ["router.routes"]


@settings(deadline=None)
@given(st.lists(st.tuples(WORKERS, st.booleans(), st.booleans()), max_size=12), st.data())
def test_workers_follow_the_file_and_nothing_that_runs_is_cut_off(
    steps: list[tuple[list[str], bool, bool]], data: st.DataObject
) -> None:
    """Any row of files, with legs that begin and end in between: in the end the pool is what the last file says."""
    first = config({"pools": {"one": {"model": "m", "engine": "vllm", "format": "think", "workers": URLS[:2]}}})
    pool = Pool("one", first.pools["one"])
    by_hand = pool.add("http://hand:1")
    legs: list[Any] = []
    running = first
    for workers, begins, ends in steps:
        if begins:
            worker = data.draw(st.sampled_from(pool.workers))
            legs.append((worker, worker.seat()))
        new = config({"pools": {"one": {"model": "m", "engine": "vllm", "format": "think", "workers": workers}}})
        change = changes(running, new)["one"]
        successor = Pool("one", new.pools["one"], crew=pool.crew)
        successor.succeed(pool)
        turn_over(successor, change.came, change.left)
        pool, running = successor, new
        for worker, _ in legs:
            assert worker in pool.workers, "it still runs something"
        assert by_hand in pool.workers
        assert by_hand.state is State.PENDING
        names = [worker.name for worker in pool.workers]
        assert len(set(names)) == len(names)
        if ends and legs:
            worker, seat = legs.pop()
            worker.let_go(seat, NEUTRAL, aborted=False)
            look(pool)
    assert is_over(pool) is not bool(legs)
    for worker, seat in legs:
        worker.let_go(seat, NEUTRAL, aborted=False)
    look(pool)
    assert {worker.url for worker in pool.workers} == {*running.pools["one"].workers, by_hand.url}
    assert {worker.state for worker in pool.workers} == {State.PENDING}
    assert not pool.crew.leavers
    assert not pool.crew.awaited
    assert is_over(pool)
    disband(pool)
    assert pool.workers == []
