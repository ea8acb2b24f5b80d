"""The doubles whose legs must run at once: NIXL push, Mooncake and SGLang. One leg alone waits, and is seen to."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.exchange import End
from tests.doubles.pair.cluster import Cluster, cluster
from tests.doubles.pair.sglang_leg import NO_ROOM
from tests.doubles.script import expected_answer
from tests.doubles.server import Host
from tests.service.pairing import (
    RIGHT,
    assert_answers,
    decode,
    new_id,
    prefill,
    prefill_body,
    question,
    room_of,
    says,
    text,
)
from tests.service.talk import Stream, post, stream

BOTH = {"x-request-id": "r-1"}


@pytest.fixture
def pair(host: Host) -> Iterator[Cluster]:
    """An SGLang pair."""
    with cluster(host, "sglang") as pair:
        yield pair


async def at(worker: Any, body: dict[str, Any]) -> Stream:
    return await stream(worker.url, body, BOTH)


async def both(pair: Cluster, prefill: dict[str, Any], decode: dict[str, Any]) -> tuple[Stream, Stream]:
    return await asyncio.gather(at(pair.prefill, prefill), at(pair.decode, decode))


class TestPushesOfVllm:
    @pytest.mark.parametrize("handoff", ["nixl-push", "mooncake"])
    async def test_one_leg_alone_waits_until_the_time_is_up(self, host: Host, handoff: str) -> None:
        """vllm#55088: a front door that waits for the prefill leg first waits for ever."""
        with cluster(host, handoff) as pair:
            offer = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": "x-1"}
            leg = asyncio.create_task(prefill(pair, prefill_body(question(pair, "p1"), offer), new_id()))
            await pair.prefill.until(lambda: pair.fabric.rooms.open, "a leg in a room")
            with pytest.raises(AssertionError, match="x-1" if handoff == "mooncake" else "nixl-push"):
                pair.assert_clean(leases=False)
            pair.advance(480)
            assert (await leg).status_code == 500
            assert pair.fabric.rooms.orphaned == 480
            await pair.settled(leases=False)

    async def test_a_leg_that_leaves_is_not_met_later(self, host: Host) -> None:
        with cluster(host, "nixl-push") as pair:
            body, request_id = question(pair, "p2"), new_id()
            leg = asyncio.create_task(prefill(pair, prefill_body(body), request_id))
            await pair.prefill.until(lambda: pair.fabric.rooms.open, "a leg in a room")
            leg.cancel()
            await pair.idle()
            engine = pair.prefill.engines[0]
            where = {
                "remote_engine_id": engine.id,
                "remote_host": engine.host,
                "remote_port": engine.port,
                "tp_size": 1,
            }
            params = {"do_remote_prefill": True, "remote_request_id": request_id, **where}
            late = asyncio.create_task(decode(pair, {**body, "kv_transfer_params": params}, request_id))
            await pair.decode.until(lambda: pair.fabric.rooms.open, "a leg in a room")
            pair.advance(480)
            assert [error["code"] for error in (await late).errors] == [500]
            await pair.settled(leases=False)

    @pytest.mark.parametrize("missing", ["remote_engine_id", "remote_host", "remote_port", "tp_size"])
    async def test_a_decode_leg_without_coordinates_hangs(self, host: Host, missing: str) -> None:
        with cluster(host, "nixl-push") as pair:
            engine = pair.prefill.engines[0]
            params = {"do_remote_prefill": True, "remote_engine_id": engine.id, "remote_host": engine.host}
            params |= {"remote_port": engine.port, "tp_size": 1, "remote_request_id": "r-1"}
            del params[missing]
            leg = asyncio.create_task(at(pair.decode, {**question(pair, "p3"), "kv_transfer_params": params}))
            await pair.decode.until(lambda: pair.decode.violations, "a violation")
            pair.pardon("params-incomplete")
            leg.cancel()
            await pair.idle()

    async def test_ranks_of_mooncake_are_engines(self, host: Host) -> None:
        with cluster(host, "mooncake", prefill={"dp": 2}) as pair:
            body = question(pair, "p4")
            async with httpx.AsyncClient() as client:
                ranks = (await client.get(f"{pair.prefill.bootstrap.url}/query")).json()
            assert [ranks[rank]["engine_id"] for rank in "01"] == [engine.id for engine in pair.prefill.engines]
            assert_answers(await RIGHT["mooncake"](pair, body), pair, body)
            pair.prefill.restart()
            async with httpx.AsyncClient() as client:
                assert (await client.get(f"{pair.prefill.bootstrap.url}/query")).json() != ranks
            assert_answers(await RIGHT["mooncake"](pair, body), pair, body)
            response = await prefill(pair, prefill_body(body), new_id(), **{"x-data-parallel-rank": "2"})
            assert response.status_code == 400
            pair.pardon("dp-rank")
            pair.prefill.violations.clear()


class TestARoom:
    @pytest.mark.parametrize("role", ["prefill", "decode"])
    async def test_one_leg_alone_waits_until_the_time_is_up(self, pair: Cluster, role: str) -> None:
        leg = asyncio.create_task(at(getattr(pair, role), {**question(pair, "r1"), **room_of(pair)}))
        await pair.prefill.until(lambda: pair.fabric.rooms.open, "a leg in a room")
        with pytest.raises(AssertionError):
            pair.assert_clean(leases=False)
        pair.advance(300)
        told = await leg
        assert told.status == 500 if role == "prefill" else [error["code"] for error in told.errors] == [500]
        await pair.settled(leases=False)

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"bootstrap_room": 2**63}, "room-range"),
            ({"bootstrap_room": -1}, "room-range"),
            ({"bootstrap_room": "7"}, "room-range"),
            ({"bootstrap_host": "2.2.2.2"}, "fake-host"),
            ({"bootstrap_port": None}, "bootstrap-port"),
            ({"bootstrap_host": "localhost"}, "bootstrap-address"),
            ({"n": 2}, "shared-room"),
        ],
    )
    async def test_a_wrong_one_is_named(self, pair: Cluster, changes: dict[str, Any], code: str) -> None:
        body = {**question(pair, "r2"), **room_of(pair), **changes}
        legs = [asyncio.create_task(at(worker, body)) for worker in (pair.prefill, pair.decode)]
        await pair.decode.until(lambda: any(one.startswith(code) for one in pair.decode.violations), code)
        for leg in legs:
            leg.cancel()
        await pair.idle()
        pair.pardon(code)
        for worker in pair.workers:
            worker.violations.clear()

    async def test_none_at_all_is_refused(self, pair: Cluster) -> None:
        response = await post(pair.decode.url, question(pair, "r3"), headers=BOTH)
        assert (response.status_code, response.json()["message"]) == (400, NO_ROOM)
        pair.pardon("room-missing")

    async def test_a_second_use_is_refused(self, pair: Cluster) -> None:
        body = {**question(pair, "r4"), **room_of(pair)}
        await both(pair, body, body)
        again = {**body, "rid": "another"}
        told = await both(pair, again, again)
        assert [one.status for one in told] == [500, 500]
        assert len(pair.pardon("room-reused")) == 2
        await pair.settled(leases=False)

    async def test_of_another_prefill_worker_meets_nobody(self, host: Host) -> None:
        with cluster(host, "sglang", prefills=2) as pair:
            body = {**question(pair, "r5"), **room_of(pair, worker=1)}
            legs = [asyncio.create_task(at(worker, body)) for worker in (pair.prefills[0], pair.decode)]
            await pair.decode.until(lambda: len(pair.fabric.rooms.open) == 2, "two rooms with one leg each")
            pair.advance(300)
            assert (await legs[0]).status == 500
            await legs[1]
            pair.pardon("bootstrap-address")

    @pytest.mark.parametrize(("change", "noise"), [({"temperature": 0.5}, False), ({"reasoning_effort": "low"}, True)])
    async def test_bodies_that_differ_are_named(self, pair: Cluster, change: dict[str, Any], noise: bool) -> None:
        body = {**question(pair, "r6"), **room_of(pair)}
        _, told = await both(pair, body, {**body, **change})
        assert (text(told) != says(pair.key(body))) is noise
        assert next(iter(change)) in pair.pardon("bodies-differ")[0]

    async def test_prefill_says_nothing_a_client_should_read(self, pair: Cluster) -> None:
        body = {**question(pair, "r7"), **room_of(pair)}
        first, told = await both(pair, body, body)
        assert_answers(told, pair, body)
        assert first.done
        assert not set(text(first)[0].split()).intersection(text(told)[0].split())

    async def test_a_batch_has_a_room_for_each_prompt(self, pair: Cluster) -> None:
        prompts = ["#double key=b0#", "#double key=b1#", "#double key=b2#"]
        rooms = [room_of(pair) for _ in prompts]
        listed = {name: [room[name] for room in rooms] for name in rooms[0] if name != "rid"}
        body = {"model": pair.model, "prompt": prompts, "stream": True, **listed}
        legs = [post(worker.url, body, "/v1/completions", BOTH) for worker in (pair.prefill, pair.decode)]
        _, told = await asyncio.gather(*legs)
        said = dict.fromkeys(range(3), "")
        for event in re.findall(r"^data: (\{.*\})$", told.text, flags=re.M):
            for choice in json.loads(event)["choices"]:
                said[choice["index"]] += choice["text"]
        assert [text.strip() for text in said.values()] == [expected_answer(pair.key(body, i), "") for i in said]
        await pair.settled(leases=False)

    async def test_a_batch_with_one_room_is_named(self, pair: Cluster) -> None:
        body = {"model": pair.model, "prompt": ["#double key=b0#", "#double key=b1#"], "stream": True, **room_of(pair)}
        legs = [post(worker.url, body, "/v1/completions", BOTH) for worker in (pair.prefill, pair.decode)]
        answers = await asyncio.gather(*legs)
        assert [one.status_code for one in answers] == [500, 500]
        pair.pardon("bootstrap-batch")
        pair.pardon("room-reused")

    async def test_a_rank_that_the_room_is_not_of(self, host: Host) -> None:
        with cluster(host, "sglang", prefill={"dp": 4}) as pair:
            body = {**question(pair, "r8"), **room_of(pair), "bootstrap_room": 4_002}
            response = await post(pair.prefill.url, {**body, "routed_dp_rank": 1}, headers=BOTH)
            assert response.status_code == 500
            pair.pardon("dp-rank")
            told = await both(pair, {**body, "routed_dp_rank": 2}, {**body, "disagg_prefill_dp_rank": 2})
            assert_answers(told[1], pair, body)

    async def test_the_bootstrap_server_tells_of_its_worker(self, pair: Cluster) -> None:
        async with httpx.AsyncClient() as client:
            told = (await client.get(f"{pair.prefill.bootstrap.url}/route")).json()
            assert (told["dp_size"], told["prefill_http_port"]) == (1, pair.prefill.port)
            pair.prefill.bootstrap.registered = False
            assert (await client.get(f"{pair.prefill.bootstrap.url}/route")).status_code == 503
            for worker, mode in ((pair.prefill, "prefill"), (pair.decode, "decode")):
                assert (await client.get(f"{worker.url}/model_info")).json()["disaggregation_mode"] == mode


class TestAnAbort:
    async def test_ends_a_leg_that_waits(self, pair: Cluster) -> None:
        body = {**question(pair, "a1"), **room_of(pair)}
        leg = asyncio.create_task(at(pair.decode, body))
        await pair.decode.until(lambda: pair.fabric.rooms.open, "a leg in a room")
        response = await post(pair.decode.url, {"rid": body["rid"]}, "/abort_request")
        assert (response.status_code, response.content) == (200, b"")
        told = await leg
        assert (told.reasons, told.done) == (["abort"], True)
        assert pair.decode.aborts == [body["rid"]]
        await pair.settled(leases=False)

    async def test_ends_a_generation(self, pair: Cluster) -> None:
        body = {**question(pair, "a2", think=100_000, delay_ms=1), **room_of(pair)}
        legs = asyncio.create_task(both(pair, body, body))
        await pair.decode.wait_for("a2", tokens=5)
        await post(pair.decode.url, {"rid": body["rid"]}, "/abort_request")
        _, told = await legs
        assert told.reasons == ["abort"]
        assert pair.decode.generations[0].end is End.ABORTED
        await pair.settled(leases=False)

    async def test_of_a_prefix_ends_others_and_is_named(self, pair: Cluster) -> None:
        legs = []
        for rid in ("a-1", "a-10"):
            body = {**question(pair, "a3"), **room_of(pair), "rid": rid}
            legs.append(asyncio.create_task(at(pair.decode, body)))
        await pair.decode.until(lambda: len(pair.decode.live) == 2, "two legs")
        await post(pair.decode.url, {"rid": "a-1"}, "/abort_request")
        assert [one.reasons for one in await asyncio.gather(*legs)] == [["abort"], ["abort"]]
        pair.pardon("abort-prefix")

    async def test_of_nobody_does_nothing(self, pair: Cluster) -> None:
        for rid in ("", "unknown"):
            assert (await post(pair.decode.url, {"rid": rid}, "/abort_request")).status_code == 200
        assert pair.decode.aborts == ["", "unknown"]


class TestFaults:
    async def test_a_transfer_that_fails(self, pair: Cluster) -> None:
        pair.decode.faults.next("transfer_fails")
        told = await RIGHT["sglang"](pair, question(pair, "f1"))
        assert [error["code"] for error in told.errors] == [500]
        await pair.settled(leases=False)

    async def test_a_bootstrap_that_fails_leaves_the_decode_leg_waiting(self, pair: Cluster) -> None:
        pair.prefill.faults.next("bootstrap_fails")
        leg = asyncio.create_task(RIGHT["sglang"](pair, question(pair, "f2")))
        await pair.decode.until(lambda: pair.fabric.rooms.open, "a leg in a room")
        await pair.prefill.until(lambda: pair.fabric.held, "blocks held")
        pair.advance(300)
        assert [error["code"] for error in (await leg).errors] == [500]
        await pair.settled(leases=False)

    async def test_a_late_refusal_of_prefill_lets_decode_talk_noise(self, pair: Cluster) -> None:
        """sglang#30233: 200, and another text."""
        pair.prefill.faults.next("late_400")
        body = {**question(pair, "f3"), **room_of(pair)}
        first, told = await both(pair, body, body)
        assert (first.status, told.status) == (400, 200)
        assert text(told) != says(pair.key(body))
        await pair.settled(leases=False)
