"""Public issues on who is paired with whom, by their numbers: unlike caches, groups, bad edges, dead bootstrap servers,
ranks, workers of the wrong kind, and one that comes late."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any

import httpx
import pytest

from gateway.pools.breaker import OPEN_FOR
from gateway.pools.handoff.pairing import EDGE_FAILS
from tests.doubles.pair.cluster import Cluster, cluster
from tests.doubles.pair.vllm_decode import LoadFailed
from tests.doubles.script import Script
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import LOOK_AGAIN, PATIENCE, Gateway, config, pool
from tests.service.pair_contract import Door, body_of
from tests.service.pairing import before, pool_of, says, text
from tests.service.talk import assert_error


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    return gateway(config({"unified": pool(vllm)})).wait_workers(1)


async def get(served: Gateway, path: str) -> Any:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{served.url}{path}")).json()


async def until_row(served: Gateway, url: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Until the worker at this address is shown like that."""
    deadline = monotonic() + PATIENCE
    while True:
        rows = (await get(served, "/admin/workers"))["data"]
        row = next((row for row in rows if row["url"] == url and row["pool"] == "apart"), {})
        if row and holds(row):
            return row
        assert monotonic() < deadline, row
        await asyncio.sleep(LOOK_AGAIN)


async def assert_refused(served: Gateway, made: Cluster, key: str, why: str) -> None:
    """At once, for this reason, without an address in it; no worker is asked, and readiness says so."""
    door = Door(served.url, made)
    told = await door.ask(body_of(door, key))
    assert told.status == 503
    assert why in told.body.decode()
    assert "127.0.0.1" not in told.body.decode()
    assert made.legs("prefill", key) == made.legs("decode", key) == []
    assert (await get(served, "/readyz"))["pools"]["apart"] is False


@pytest.mark.parametrize("handoff", ["nixl", "sglang"])
async def test_epd6_a_decode_worker_that_talks_nonsense_over_a_hand_off_gets_no_request(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    """As far as nonsense can be told without another answer to compare it with."""
    with cluster(host, handoff, decodes=2) as made:
        made.decodes[1].default = Script(floods=1)
        with before(served, vllm, made, ready=2):
            row = await until_row(served, made.decodes[1].url, lambda row: "one character" in row["reason"])
            assert (row["state"], row["role"]) == ("warming", "decode")
            door = Door(served.url, made)
            for i in range(6):
                await door.assert_right(body_of(door, f"e6-{i}"))
            assert {leg.double for leg in made.legs("decode") if leg.key.startswith("e6-")} == {made.decode}


@pytest.mark.parametrize("handoff", ["sglang", "mooncake"])
async def test_epd17_a_dead_bootstrap_server_takes_its_worker_out_though_its_health_is_well(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    with cluster(host, handoff) as made, before(served, vllm, made):
        door = Door(served.url, made)
        await door.assert_right(body_of(door, "e17"))
        made.prefill.bootstrap.down()
        row = await until_row(served, made.prefill.url, lambda row: row["state"] == "ejected")
        assert row["reason"] == "it refuses connections"
        await assert_refused(served, made, "e17b", "refuses connections")
        made.prefill.bootstrap.up()
        await until_row(served, made.prefill.url, lambda row: row["ready"])
        await door.assert_right(body_of(door, "e17c"))


async def test_epd17_a_prefill_worker_is_not_ready_before_its_ranks_have_registered(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    with cluster(host, "sglang") as made:
        made.prefill.bootstrap.registered = False
        with before(served, vllm, made, ready=1):
            await until_row(served, made.prefill.url, lambda row: row["reason"] == "its bootstrap server answers 503")
            made.prefill.bootstrap.registered = True
            await until_row(served, made.prefill.url, lambda row: row["ready"])


async def test_epd22_epd23_ranks_are_used_evenly_and_rooms_agree_with_them(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    """The doubles hold the room against the rank: a wrong one would be a violation, and a hang."""
    with cluster(host, "sglang", prefills=2, prefill={"dp": 4}) as made:
        prefill = [
            {"url": one.url, "kv_host": one.kv_host, "bootstrap_port": one.bootstrap.port, "dp_size": 4}
            for one in made.prefills
        ]
        with before(served, vllm, made, selection="rotation", disaggregation={"prefill": prefill}):
            door = Door(served.url, made)
            for i in range(16):
                await door.assert_right(body_of(door, f"e22-{i}"))
            for worker in made.prefills:
                legs = [leg.json for leg in worker.generations]
                ranks = Counter(leg["routed_dp_rank"] for leg in legs)
                assert set(ranks) == {0, 1, 2, 3}
                assert max(ranks.values()) - min(ranks.values()) <= 1
                assert all(leg["bootstrap_room"] % 4 == leg["routed_dp_rank"] for leg in legs)
            decoded = [leg.json for leg in made.decode.generations]
            assert all(leg["bootstrap_room"] % 4 == leg["disagg_prefill_dp_rank"] for leg in decoded)
            assert not any("routed_dp_rank" in leg for leg in decoded), "its own rank is another thing"


async def test_epd22_mooncakes_engine_is_that_of_the_rank_that_is_asked(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    with cluster(host, "mooncake", prefill={"dp": 2}) as made, before(served, vllm, made):
        door = Door(served.url, made)
        for i in range(6):
            await door.assert_right(body_of(door, f"e22m-{i}"))
        ranks = Counter(leg.headers["x-data-parallel-rank"] for leg in made.prefill.generations)
        assert set(ranks) == {"0", "1"}
        assert abs(ranks["0"] - ranks["1"]) <= 1


async def test_epd27_unlike_caches_are_not_paired(host: Host, served: Gateway, vllm: VllmDouble) -> None:
    with cluster(host) as made:
        made.decode.block = 64
        with before(served, vllm, made):
            await assert_refused(served, made, "e27", "their KV blocks have 16 and 64 tokens")


async def test_epd33_a_bad_edge_is_avoided_and_all_workers_stay(host: Host, served: Gateway, vllm: VllmDouble) -> None:
    with cluster(host, prefills=2, decodes=2) as made, before(served, vllm, made, selection="rotation"):
        door, (bad, _), (cut_off, _) = Door(served.url, made), made.prefills, made.decodes
        fetch, failed = cut_off._pull, list[str]()

        async def cut(exchange: Any, body: Any, params: dict[str, Any], fault: str) -> str:
            if any(engine.id == params["remote_engine_id"] for engine in bad.engines):
                failed.append(exchange.request_id)
                raise LoadFailed("transfer")
            return await fetch(exchange, body, params, fault)

        cut_off._pull, began = cut, monotonic()
        for i in range(24):
            told = await door.ask(body := body_of(door, f"e33-{i}"))
            assert text(told) == says(made.key(body))
        probes = int((monotonic() - began) / OPEN_FOR)
        assert EDGE_FAILS <= len(failed) <= EDGE_FAILS + probes, "then this decode worker is prefilled for by the other"
        listed = await get(served, "/admin/workers")
        assert all(row["ready"] for row in listed["data"])
        name = {one: one.url.split("//")[1] for one in (bad, cut_off)}
        assert listed["troubled_pairs"] == [
            {"pool": "apart", "prefill": name[bad], "decode": name[cut_off], "open": True}
        ]
        used = {leg.double for leg in made.legs("decode") if leg.key.startswith("e33-")}
        assert used == set(made.decodes)
        await door.settled()


@pytest.mark.parametrize("handoff", ["nixl", "sglang"])
async def test_epd36_a_decode_worker_alone_gets_nothing(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    """What a pool is, its configuration says, not who is there first."""
    with cluster(host, handoff) as made:
        made.prefill.health = 503
        with before(served, vllm, made, ready=1):
            await until_row(served, made.prefill.url, lambda row: row["state"] == "warming")
            await until_row(served, made.decode.url, lambda row: row["state"] != "pending")
            await assert_refused(
                served, made, "e36", "/ready answers 503" if handoff == "sglang" else "/health answers"
            )
            made.prefill.health = 200
            for worker in made.workers:
                await until_row(served, worker.url, lambda row: row["ready"])
            await Door(served.url, made).assert_right(body_of(Door(served.url, made), "e36b"))


async def test_epd44_a_worker_of_another_engine_is_refused(host: Host, served: Gateway, vllm: VllmDouble) -> None:
    """It would take the fields of a room for nothing, and answer alone."""
    with cluster(host, "sglang") as made:
        stranger = host.add(VllmDouble(made.model))
        with before(served, vllm, made, workers=[made.decode.url, stranger.url]):
            row = await until_row(served, stranger.url, lambda row: "vllm" in row["reason"])
            assert row["reason"] == "it says that it is vllm, and the pool's engine is sglang"
            await Door(served.url, made).assert_right(body_of(Door(served.url, made), "e44"))
            assert stranger.generations == []
        host.remove(stranger)


@pytest.mark.parametrize("handoff", ["nixl", "sglang"])
async def test_epd52_only_workers_of_one_group_are_paired(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    with cluster(host, handoff) as made:
        groups = {made.prefill.url: "a", made.decode.url: "b"}
        with before(served, vllm, made, ready=0, disaggregation={"groups": groups}):
            why = "their transfer groups differ"
            for worker in made.workers:
                await until_row(served, worker.url, lambda row: why in row["reason"])
            await assert_refused(served, made, "e52", why)
        with before(served, vllm, made, disaggregation={"groups": dict.fromkeys(groups, "a")}):
            assert (await get(served, "/readyz"))["pools"]["apart"] is True
            await Door(served.url, made).assert_right(body_of(Door(served.url, made), "e52b"))


async def test_a_reload_forgets_nothing_of_what_pairs_have_told(host: Host, served: Gateway, vllm: VllmDouble) -> None:
    """Mooncake's engines have ids of their own: without them a decode worker would wait for nobody."""
    with cluster(host, "mooncake") as made, before(served, vllm, made):
        door = Door(served.url, made)
        for seconds in (100, 110, 120):
            apart = pool_of(made, timeouts={"total": seconds})
            served.reconfigure(config({"unified": pool(vllm), "apart": apart}))
            await door.assert_right(body_of(door, f"r1-{seconds}"))


class TestAdministration:
    async def add(self, served: Gateway, **told: str) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.post(f"{served.url}/admin/workers", json={"pool": "apart", **told})

    async def test_a_prefill_worker_is_taken_in_and_another_drained(
        self, host: Host, served: Gateway, vllm: VllmDouble
    ) -> None:
        with cluster(host, prefills=2) as made:
            old, new = made.prefills
            with before(served, vllm, made, ready=2, disaggregation={"prefill": [old.url]}):
                added = await self.add(served, url=new.url, role="prefill")
                assert (added.status_code, added.json()["role"]) == (201, "prefill")
                await until_row(served, new.url, lambda row: row["ready"])
                async with httpx.AsyncClient() as client:
                    named = {"pool": "apart", "worker": old.url}
                    assert (await client.post(f"{served.url}/admin/workers/drain", json=named)).status_code == 202
                door = Door(served.url, made)
                await door.assert_right(body_of(door, "a1"))
                assert [leg.double for leg in made.legs("prefill", "a1")] == [new]

    async def test_what_makes_no_sense_is_refused(self, host: Host, served: Gateway, vllm: VllmDouble) -> None:
        with cluster(host, "nixl-push") as made, before(served, vllm, made):
            free = "http://127.0.0.1:9"
            for told, status, code in (
                ({"url": free, "role": "encode"}, 400, "invalid_value"),
                ({"url": free, "role": "unified"}, 400, "invalid_value"),
                ({"url": free, "role": "nothing"}, 400, "invalid_value"),
                ({"url": free, "role": "prefill"}, 400, "invalid_value"),
                ({"url": made.decode.url, "role": "prefill"}, 409, "worker_exists"),
                ({"url": made.prefill.url}, 409, "worker_exists"),
            ):
                assert_error(await self.add(served, **told), status, "invalid_request_error", code)
            assert {row["url"] for row in (await get(served, "/admin/workers"))["data"] if row["pool"] == "apart"} == {
                made.prefill.url,
                made.decode.url,
            }
            await Door(served.url, made).assert_right(body_of(Door(served.url, made), "a2"))
