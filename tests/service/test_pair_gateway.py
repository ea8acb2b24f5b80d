"""The gateway before disaggregated clusters: every check of a front door, on every hand-off.

One process for all: each check's cluster comes and goes by a reload of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.doubles.pair.cluster import HANDOFFS, cluster
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.pair_contract import Check, Door, checks_for
from tests.service.pairing import before


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    return gateway(config({"unified": pool(vllm)})).wait_workers(1)


@pytest.mark.parametrize(
    ("handoff", "check"), [(handoff, check) for handoff in HANDOFFS for check in checks_for(handoff)], ids=str
)
async def test_the_front_door_gets_it_right(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str, check: Check
) -> None:
    with cluster(host, handoff, **check.settings()) as made, before(served, vllm, made):
        await check.run(Door(served.url, made))
