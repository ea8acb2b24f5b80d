"""Pools and the registry: who is picked, why nobody can be, which names lead where, what an engine can enforce."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from pydantic import SecretStr

from budgets import How
from gateway.config import Config, EngineKind, RouteTarget, Thinking
from gateway.config import Pool as PoolConfig
from gateway.edge.errors import ApiError
from gateway.engines.capabilities import Capabilities, Path
from gateway.pools import Pool, Registry, State
from gateway.pools.breaker import OPEN_FOR, THRESHOLD
from gateway.pools.roster import Cause
from gateway.pools.verdict import Kind, Verdict
from tests.scripted import make_ready

MESSAGES = [{"role": "user", "content": "hi"}]
IDS = frozenset({Path.IDS})


def config(engine: EngineKind = EngineKind.VLLM, workers: int = 3, **fields: Any) -> PoolConfig:
    urls = tuple(f"http://w{number}:8000" for number in range(workers))
    return PoolConfig(**{"model": "m", "engine": engine, "workers": urls, "format": "think", **fields})


def pool(ready: int = 3, **fields: Any) -> Pool:
    found = Pool("p", config(**fields))
    if ready:
        make_ready(found, *found.workers[:ready])
    return found


def test_workers_take_turns() -> None:
    found = pool(selection="rotation")
    picked = [found.pick().name for _ in range(9)]
    assert set(Counter(picked).values()) == {3}
    assert all(one != other for one, other in pairwise(picked))


def test_only_ready_workers_are_picked() -> None:
    found = pool(ready=1)
    assert {found.pick().name for _ in range(5)} == {"w0:8000"}
    assert found.is_ready


def test_a_worker_already_tried_is_picked_only_when_there_is_no_other() -> None:
    found = pool()
    tried = found.workers[:2]
    assert {found.pick(tried).name for _ in range(5)} == {"w2:8000"}
    assert {found.pick(found.workers).name for _ in range(60)} == {"w0:8000", "w1:8000", "w2:8000"}


def test_where_nobody_is_ready_the_error_says_why() -> None:
    found = pool(ready=0, workers=2)
    found.move(found.workers[0], State.WARMING, "ConnectError")
    assert not found.is_ready
    with pytest.raises(ApiError) as caught:
        found.pick()
    error = caught.value
    assert (error.status, error.code, error.headers) == (503, "no_ready_worker", {"retry-after": "5"})
    assert "ConnectError; not checked yet" in error.message
    assert "w0" not in error.message, "addresses are not the client's business"


def test_a_pool_that_waits_for_its_engine_says_so() -> None:
    found = Pool("p", PoolConfig(model="m", engine=EngineKind.EMBEDDED))
    assert "still starting" in found.unavailable().message


def test_the_workers_key_is_the_pools_own() -> None:
    assert pool().headers == {}
    assert pool(api_key=SecretStr("sk-engine")).headers == {"authorization": "Bearer sk-engine"}


def test_the_engine_is_asked_for_its_own_name_of_the_model() -> None:
    found = Pool("p", config(upstream_model="org/Qwen3-8B", format=None))
    assert (found.profile.model, found.profile.format.id) == ("org/Qwen3-8B", "qwen3")


@pytest.mark.parametrize(
    ("engine", "native", "body", "how"),
    [
        (EngineKind.VLLM, False, {}, How.CUT),
        (EngineKind.VLLM, True, {}, How.NATIVE),
        (EngineKind.VLLM, True, {"n": 2}, How.NATIVE),
        (EngineKind.VLLM, False, {"n": 2}, How.CUT),
        (EngineKind.VLLM, False, {"tools": [{}]}, How.CUT),
        (EngineKind.VLLM, False, {"continue_final_message": True}, How.NONE),
        (EngineKind.SGLANG, True, {}, How.NATIVE),
        (EngineKind.LLAMACPP, False, {"tools": [{}]}, How.CUT),
        (EngineKind.LLAMACPP, False, {"n": 2}, How.CUT),
        (EngineKind.OPENAI, True, {}, How.NONE),
    ],
)
def test_the_means_of_enforcing_depend_on_engine_and_request(
    engine: EngineKind, native: bool, body: dict[str, Any], how: How
) -> None:
    found = pool(engine=engine, thinking=Thinking(native_cap=native))
    assert found.policy({"messages": MESSAGES, **body}).how is how


def test_a_native_cap_that_failed_is_not_used_again() -> None:
    found = pool(thinking=Thinking(native_cap=True))
    found.note_overrun(found.workers[0])
    assert found.policy({"messages": MESSAGES}).how is How.CUT


@pytest.mark.parametrize(
    ("known", "how"),
    [
        ((None,), How.CUT),
        ((Capabilities(native_cap=True, paths=IDS),), How.NATIVE),
        ((Capabilities(native_cap=True), Capabilities(native_cap=False, paths=IDS)), How.CUT),
        ((Capabilities(native_cap=True), None), How.CUT),
        ((Capabilities(native_cap=True), Capabilities(native_cap=True)), How.NATIVE),
        ((Capabilities(),), How.NONE),
    ],
)
def test_what_the_workers_can_do_decides_where_nothing_is_configured(
    known: tuple[Capabilities | None, ...], how: How
) -> None:
    found = pool(workers=len(known))
    for worker, capabilities in zip(found.workers, known, strict=True):
        worker.capabilities = capabilities
    assert found.policy({"messages": MESSAGES}).how is how


def test_one_that_overran_is_cut_and_the_others_are_not() -> None:
    found = pool(workers=2)
    for worker in found.workers:
        worker.capabilities = Capabilities(native_cap=True, paths=IDS)
    found.note_overrun(found.workers[0])
    assert [found.means(worker, {"messages": MESSAGES}) for worker in found.workers] == [How.CUT, How.NATIVE]


def test_a_request_goes_by_the_best_path_its_worker_has() -> None:
    found = pool()
    plain, tools = {"messages": MESSAGES}, {"messages": MESSAGES, "tools": [{}]}
    worker = found.workers[0]
    assert [found.path(worker, body) for body in (plain, tools)] == [Path.IDS, Path.CHAT], "not asked: taken for able"
    worker.capabilities = Capabilities(paths=frozenset({Path.CHAT}))
    assert [found.path(worker, body) for body in (plain, tools)] == [Path.CHAT, Path.CHAT]
    assert found.path(worker, plain, resuming=True) is None, "its template would close the thought"
    worker.capabilities = Capabilities(paths=IDS)
    assert [found.path(worker, body) for body in (plain, tools)] == [Path.IDS, None]


async def test_a_request_waits_a_little_for_a_worker() -> None:
    found = pool(ready=0)
    waiting = asyncio.create_task(found.wait_ready(60))
    await asyncio.sleep(0)
    make_ready(found, found.workers[0])
    await waiting
    found.eject(found.workers[0], Cause.HEALTH, "it refuses connections", 0.0)
    for patience in (0, 0.001):
        with pytest.raises(ApiError) as refused:
            await found.wait_ready(patience)
        assert refused.value.status == 503


def test_requests_that_fail_everywhere_leave_somebody_to_ask_when_a_worker_dies() -> None:
    """Half of the pool stays, though its requests fail too; and whoever does not listen is not asked instead of it."""
    found = pool(workers=5, ready=5)
    found.clock = lambda: 1_000.0
    for worker in found.workers[:4]:
        for _ in range(THRESHOLD):
            worker.let_go(worker.seat(1), Verdict(Kind.FAILURE), aborted=False)
    assert [worker.is_ready for worker in found.workers] == [False, False, True, True, True]
    assert found.pick() is found.workers[4]
    dead = found.workers[4]
    dead.let_go(dead.seat(1), Verdict(Kind.FAILURE, is_unreachable=True), aborted=False)
    assert dead.state is State.EJECTED
    assert {found.pick().name for _ in range(20)} == {"w2:8000", "w3:8000"}
    for worker in found.workers[2:4]:  # and if one of these dies too
        worker.let_go(worker.seat(1), Verdict(Kind.SUCCESS), aborted=False)
    found.workers[3].let_go(found.workers[3].seat(1), Verdict(Kind.FAILURE, is_unreachable=True), aborted=False)
    assert {found.pick().name for _ in range(20)} == {"w2:8000"}


def test_one_that_stays_though_its_requests_fail_is_tried_again() -> None:
    found = pool(workers=3, ready=3, selection="rotation")
    now = 1_000.0
    found.clock = lambda: now
    sick = found.workers[:2]
    for worker in sick:
        for _ in range(THRESHOLD):
            worker.let_go(worker.seat(1), Verdict(Kind.FAILURE), aborted=False)
    assert [worker.is_ready for worker in sick] == [False, True]
    assert {found.pick().name for _ in range(20)} == {"w2:8000"}
    now += OPEN_FOR
    probe = next(worker for worker in iter(found.pick, None) if worker is sick[1])
    seat = probe.seat(1)
    assert {found.pick().name for _ in range(20)} == {"w2:8000"}, "one probe at a time"
    probe.let_go(seat, Verdict(Kind.SUCCESS), aborted=False)
    assert {found.pick().name for _ in range(20)} == {"w1:8000", "w2:8000"}


def test_a_worker_that_failed_is_marked() -> None:
    found = pool(workers=1)
    found.workers[0].capabilities = Capabilities(native_cap=True, paths=IDS)
    assert found.policy({"messages": MESSAGES}).how is How.NATIVE
    found.note_overrun(found.workers[0])
    assert found.workers[0].capabilities == Capabilities(native_cap=False, paths=IDS)
    assert found.policy({"messages": MESSAGES}).how is How.CUT


def test_a_model_that_does_not_think_has_no_thinking_to_plan() -> None:
    assert not pool(format="none").policy({"messages": MESSAGES}).enabled
    assert not pool(thinking=Thinking(enabled=False)).policy({"messages": MESSAGES}).enabled
    always = pool(format="deepseek_r1").policy({"messages": MESSAGES})
    assert (always.can_disable, always.has_switch) == (True, False), "an empty closed thought does it"
    own = {"messages": MESSAGES, "continue_final_message": True}
    assert not pool(format="deepseek_r1").policy(own).can_disable, "there is no room for one"
    assert not pool(format="harmony").policy({"messages": MESSAGES}).can_disable


def registry() -> Registry:
    pools = {"small": config(model="s", aliases=("tiny",)), "large": config(model="l")}
    return Registry(Config(pools=pools, routes={"auto": RouteTarget(standard="small", reasoning="large")}))


def test_names_lead_to_pools() -> None:
    found = registry()
    for name in ("small", "s", "tiny"):
        choice = found.find(name)
        assert (choice.standard.name, choice.is_routed, found.owner(name)) == ("small", False, "small")
    choice = found.find("auto")
    assert (choice.standard.name, choice.reasoning.name, choice.is_routed) == ("small", "large", True)
    assert found.owner("auto") == "router"
    assert found.names == ["auto", "s", "l"]


@pytest.mark.parametrize("name", ["", "S", "gpt-4", "auto "])
def test_an_unknown_name_is_a_404(name: str) -> None:
    for look_up in (registry().find, registry().owner):
        with pytest.raises(ApiError) as caught:
            look_up(name)
        assert (caught.value.status, caught.value.code) == (404, "model_not_found")
