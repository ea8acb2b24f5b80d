"""The gateway before pairs: what it asks of them, waits for, keeps up and counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from tests.doubles.pair.cluster import cluster
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.pair_contract import Door, body_of
from tests.service.pairing import before, says, text


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    return gateway(config({"unified": pool(vllm)})).wait_workers(1)


async def test_a_worker_whose_chat_knows_no_ids_is_found_out_through_the_pair(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    """SGLang before `input_ids` in chat: asked alone its decode worker would answer 400 to anything."""
    for takes_ids in (True, False):
        with cluster(host, "sglang") as made:
            for worker in (made.prefill, made.decode):
                worker.takes_ids = takes_ids
            with before(served, vllm, made):
                async with httpx.AsyncClient() as client:
                    rows = (await client.get(f"{served.url}/admin/workers")).json()["data"]
        [row] = [row for row in rows if row["role"] == "decode"]
        assert ("chat-ids" in str(row["capabilities"])) is takes_ids, row


async def test_what_a_client_has_seen_goes_on_though_prefill_has_asked_for_a_pause(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    """On SGLang every leg needs a prefill worker, and a client cannot come back for the rest of its answer."""
    with cluster(host, "sglang", decodes=2) as made, before(served, vllm, made):
        door = Door(served.url, made)
        asked = asyncio.create_task(door.ask(body := body_of(door, "u1", think=400, delay_ms=2)))
        await door.until(lambda: any(leg.tokens > 5 for leg in made.legs("decode", "u1")), "a generation")
        made.prefill.faults.next("status_503")
        assert (await door.ask(body_of(door, "u2"))).status in {429, 503}
        [leg] = made.legs("decode", "u1")
        for connection in list(leg.double.connections):
            if connection.exchange is leg:
                host.loop.call_soon_threadsafe(connection.reset)
        told = await asked
        assert told.errors == []
        assert text(told) == says(made.key(body), 400)
        await door.settled()


async def test_a_request_waits_for_a_pair_to_be_whole(host: Host, served: Gateway, vllm: VllmDouble) -> None:
    """As long as a queue may last, and not longer: `timeouts.queue`."""
    with cluster(host) as made, before(served, vllm, made, timeouts={"queue": 15}):
        door = Door(served.url, made)
        made.prefill.health = 503
        await served.wait_metric("thinkgate_worker_ready", {}, lambda ready: ready == 2)
        asked = asyncio.create_task(door.ask(body := body_of(door, "w1")))
        await served.wait_metric("thinkgate_flights_in_flight", {}, lambda flights: flights == 1)
        made.prefill.health = 200
        assert text(await asked) == says(made.key(body))
        await door.settled()


async def test_a_prompt_is_counted_once_whatever_comes_of_it(host: Host, served: Gateway, vllm: VllmDouble) -> None:
    async def results() -> dict[str, int]:
        metrics = await served.metrics()
        names = ("handed", "missing", "orphaned")
        return {name: int(metrics.value("thinkgate_handoffs_total", pool="apart", result=name)) for name in names}

    with cluster(host, decode={"local": True}) as made, before(served, vllm, made):
        door = Door(served.url, made)
        for fault, role, wanted in (
            ("no_params", "prefill", {"missing": 1}),
            ("status_400", "prefill", {}),
            ("status_400", "decode", {"orphaned": 1}),
            ("", "decode", {"handed": 1}),
        ):
            old = await results()
            if fault:
                getattr(made, role).faults.next(fault)
            await door.ask(body_of(door, f"n1-{fault or 'well'}-{role}"))
            await served.wait_grounded()
            new = await results()
            assert {name: new[name] - old[name] for name in new if new[name] != old[name]} == wanted, (fault, role)
        await door.settled()
