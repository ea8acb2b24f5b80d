"""The reloader inside a process: what a reload leaves behind in tasks, and what it takes over as it is."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.app import Thinkgate
from gateway.configerrors import ConfigError
from gateway.configsource import Source
from gateway.pools import Pool, State
from gateway.pools.verdict import SUCCESS
from gateway.reload import By
from tests.rawengine import until

POOL: dict[str, Any] = {
    "model": "m",
    "engine": "vllm",
    "format": "think",
    "workers": ["http://127.0.0.1:9"],
    "discover": "http://localhost:9",
}


ASKED: dict[str, Any] = {"messages": []}
WATCHES = ("HealthWatch", "DepartureWatch", "PaceWatch", "Membership", "Reloader")


class House:
    """A whole thinkgate without a socket."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "thinkgate.yaml"
        self.settings: dict[str, Any] = {"pools": {"one": {**POOL}}, "router": {"mode": "fast"}}
        self.write()
        source = Source(self.file)
        self.app = Thinkgate(source.load(), source)

    def write(self) -> None:
        self.file.write_text(yaml.safe_dump(self.settings, sort_keys=False))

    @property
    def pool(self) -> Pool:
        return self.app.service.registry.pools["one"]

    async def reload(self) -> list[str]:
        self.write()
        return list((await self.app.reloader.reload(By.ADMIN)).changed)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    found = House(tmp_path)
    async with found.app.running():
        yield found


async def test_thirty_reloads_leave_no_task_behind(house: House) -> None:
    """Of the house itself: one reload for each kind of change, to and fro."""
    await asyncio.sleep(0)
    two = {**POOL, "model": "leaver", "discover": None}

    def tasks() -> Counter[str]:
        names = [name for task in asyncio.all_tasks() if (name := getattr(task.get_coro(), "__qualname__", ""))]
        return Counter(name for name in names if name.endswith(".run"))

    before = tasks()
    assert before == dict.fromkeys([f"{watch}.run" for watch in WATCHES], 1)
    for number in range(15):
        house.settings["pools"]["one"] |= {"timeouts": {"idle": 10 + number}, "api_key": f"key-{number}"}
        house.settings["pools"]["two"] = two
        assert await house.reload() == ["pools.one.api_key", "pools.one.timeouts.idle", "pools.two"]
        del house.settings["pools"]["two"]
        assert await house.reload() == ["pools.two"]
    await until(lambda: not house.app.service.retired)
    await until(lambda: tasks() == before)

    def alive() -> list[Pool]:
        gc.collect()
        # By type: a lazy stand-in of another library, torch's among them, would be woken by `isinstance`.
        return [one for one in gc.get_objects() if issubclass(type(one), Pool)]

    # A task that has just ended may hold its pool for another turn of the loop.
    await until(lambda: not [one for one in alive() if one.config.model == "leaver"])
    left = [one for one in alive() if one.crew is house.pool.crew]
    assert len(left) <= 2, "this one, and the one that its pace is watched by"
    assert b'pool="two"' not in house.app.service.metrics.render()


async def test_a_pool_that_stays_is_the_same_and_one_that_changes_has_the_same_workers(house: House) -> None:
    before, worker = house.pool, house.pool.workers[0]
    house.settings["server"] = {"body_timeout": 30}
    await house.reload()
    assert house.pool is before
    house.settings["pools"]["one"] |= {
        "max_connections": 7,
        "weights": {POOL["workers"][0]: 3},
        "thinking": {"max_cap": 5},
    }
    worker.floods = 1
    seat = worker.seat()
    await house.reload()
    after = house.pool
    assert after is not before
    assert after.workers[0] is worker
    assert (worker.weight, worker.floods, worker.in_flight) == (3, 1, 1)
    assert after.policy(ASKED).max_cap == 5
    assert before.policy(ASKED).max_cap > 5, "whoever began with it goes on with it"
    before.drain(worker)
    assert (worker.state, after.workers[0].state) == (State.DRAINING, State.DRAINING)
    worker.let_go(seat, SUCCESS, aborted=False)
    assert worker.state is State.GONE


async def test_what_workers_can_do_is_asked_again_only_where_it_may_be_another(house: House) -> None:
    worker = house.pool.workers[0]
    told: Any = object()
    worker.capabilities = told
    house.settings["pools"]["one"]["timeouts"] = {"idle": 7}
    await house.reload()
    assert worker.capabilities is told
    house.settings["pools"]["one"]["thinking"] = {"closing_phrase": "Enough."}
    await house.reload()
    assert worker.capabilities is None


async def test_the_encoder_is_loaded_again_only_for_another(house: House) -> None:
    service = house.app.service
    first = service.routing
    house.settings["router"] = {"mode": "fast", "deadline": 0.5}
    assert await house.reload() == ["router.deadline"]
    assert service.routing is not first
    assert service.routing.classifier is first.classifier, "verdicts that are known stay known"
    house.settings["router"] |= {"threshold": 0.3, "routes": {"mine": {"route": "reasoning", "keywords": ["x"]}}}
    assert await house.reload() == ["router.threshold", "router.routes.mine"]
    assert service.routing.classifier is not first.classifier
    assert service.routing.classifier.models is first.classifier.models
    assert service.routing.classifier.threshold == 0.3
    before = service.routing
    house.settings["router"]["head"] = "/nowhere/head.npz"
    with pytest.raises(ConfigError, match="unreadable"):
        await house.reload()
    assert service.routing is before


async def test_what_breaks_unforeseen_is_counted_and_changes_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(self: Source) -> None:
        raise RuntimeError("no such thing")

    config = house.app.service.config
    monkeypatch.setattr(Source, "load", burst)
    house.app.reloader.ask()
    metrics = house.app.service.metrics.registry
    await until(lambda: metrics.get_sample_value("thinkgate_config_reloads_total", {"outcome": "failed"}) == 1)
    assert metrics.get_sample_value("thinkgate_config_last_reload_successful") == 0
    assert house.app.service.config is config
    monkeypatch.undo()
    assert await house.reload() == []
    assert metrics.get_sample_value("thinkgate_config_last_reload_successful") == 1
