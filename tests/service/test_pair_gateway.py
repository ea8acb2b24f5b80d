"""The gateway before disaggregated clusters: every check of a front door, on every hand-off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.pair.cluster import HANDOFFS, Cluster, cluster
from tests.doubles.server import Host
from tests.harness import Gateway, config, pool
from tests.service.pair_contract import Check, Door, checks_for


def disaggregated(made: Cluster, **settings: Any) -> dict[str, Any]:
    """A pool with these workers in their roles."""
    by_role = {role: [one for one in made.addresses if one["role"] == role] for role in ("prefill", "encode")}
    apart: dict[str, Any] = {
        "handoff": made.handoff,
        "prefill": [_prefill(one) for one in by_role["prefill"]],
        "encode": [one["url"] for one in by_role["encode"]],
        "local_below": 0,
    }
    apart |= settings.pop("disaggregation", {})
    return pool(*made.decodes, **{"disaggregation": apart, "thinking": {"native_cap": False}, **settings})


def _prefill(one: dict[str, Any]) -> dict[str, Any]:
    names = {"kv_port": "side_channel_port"}
    return {names.get(name, name): value for name, value in one.items() if name != "role"}


@contextmanager
def before(made: Cluster, folder: Path, **settings: Any) -> Iterator[Gateway]:
    """A gateway before this cluster, all of whose workers are ready."""
    with Gateway(config({"apart": disaggregated(made, **settings)}), folder) as served:
        yield served.wait_workers(len(made.workers))


@pytest.mark.parametrize(
    ("handoff", "check"), [(handoff, check) for handoff in HANDOFFS for check in checks_for(handoff)], ids=str
)
async def test_the_front_door_gets_it_right(host: Host, tmp_path: Path, handoff: str, check: Check) -> None:
    with cluster(host, handoff, **check.settings()) as made, before(made, tmp_path) as served:
        made.violations  # noqa: B018
        await check.run(Door(served.url, made))
