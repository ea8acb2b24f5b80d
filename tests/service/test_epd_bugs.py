"""Public issues on disaggregated clusters that the checks of a front door do not show, by their numbers: one leg is
slow, silent or wrong, and many clients leave. What needs other pairs or other workers stands in `test_epd_pairs`."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.pools.breaker import THRESHOLD
from tests.doubles.mind import VOCABULARY
from tests.doubles.pair.cluster import HANDOFFS, Cluster, cluster
from tests.doubles.pair.faults import PREFILL, SGLANG_PREFILL, Faults
from tests.doubles.script import ask, expected_answer
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.pair_contract import Door, body_of
from tests.service.pairing import before, says, text
from tests.service.talk import stream


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    return gateway(config({"unified": pool(vllm)})).wait_workers(1)


async def test_epd11_a_cache_that_nobody_fetched_is_released_where_its_lease_is_long(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    with (
        cluster(host, lease=480) as made,
        before(served, vllm, made, disaggregation={"lease": 480}),
    ):
        door = Door(served.url, made)
        made.decode.faults.next("status_503")
        assert (await door.ask(body_of(door, "e11"))).status == 503
        await door.until(lambda: not made.fabric.held, "the release")
        made.pardon("not-streamed")  # nobody reads it
        await door.settled(leases=False)
        assert len(made.legs("decode", "e11")) == 2, "the second is the release"


async def test_epd11_a_cache_that_may_have_been_fetched_is_not_fetched_again(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    """A second fetch could read another prompt's blocks (epd-bugs 1), into the decode worker's own prefix cache."""
    with (
        cluster(host, lease=480) as made,
        before(served, vllm, made, disaggregation={"lease": 480}),
    ):
        door = Door(served.url, made)
        made.decode.faults.next("slow_transfer")
        await door.leave(body_of(door, "e11b"), lambda: bool(made.legs("decode", "e11b")), "a transfer")
        await door.settled(leases=False)
        assert len(made.legs("decode", "e11b")) == 1
        made.decode.faults.next("status_500", 3)
        assert (await door.ask(body_of(door, "e11c"))).status >= 500
        await door.settled()
        assert len(made.legs("decode", "e11c")) == len(made.legs("prefill", "e11c"))


@pytest.mark.parametrize("handoff", ["nixl-push", "mooncake"])
async def test_epd12_a_push_that_never_comes_ends_at_the_gateways_own_deadline(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    """No second of the workers' own time-outs, which are minutes, has to pass."""
    with cluster(host, handoff) as made, before(served, vllm, made, timeouts={"first_token": 1}):
        door = Door(served.url, made)
        made.decode.faults.next("slow_transfer")
        assert (await door.ask(body_of(door, "e12"))).status == 504
        assert made.fabric.clock.now == 0
        await door.settled(leases=False)


async def test_epd16_after_a_storm_of_clients_that_leave_the_next_wave_is_served(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    """Every leg is given up at both workers, so that none of them waits 300 s for one that will not come."""
    with cluster(host, "sglang") as made, before(served, vllm, made):
        door, storm = Door(served.url, made), 60
        made.decode.faults.next("stall", storm)
        first = len(made.prefill.rids)
        clients = [asyncio.create_task(stream(served.url, body_of(door, f"e16-{i}"))) for i in range(storm)]
        await door.until(lambda: len(made.prefill.rids) == first + storm, "all legs of the storm")
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)
        given_up = set(made.prefill.rids[first:])
        await door.until(lambda: given_up <= set(made.prefill.aborts) & set(made.decode.aborts), "all aborts")
        await door.settled(leases=False)
        assert made.fabric.rooms.orphaned == 0
        bodies = [body_of(door, f"e16-next-{i}") for i in range(24)]
        told = await asyncio.gather(*(door.ask(body) for body in bodies))
        assert [text(one) for one in told] == [says(made.key(body)) for body in bodies]
        await door.settled()


@pytest.mark.parametrize("handoff", ["nixl", "sglang"])
async def test_epd9_epd21_prompts_and_choices_of_a_streamed_completion_are_one_answer(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    with cluster(host, handoff) as made, before(served, vllm, made):
        door = Door(served.url, made)
        body = {"model": made.model, "prompt": [ask("e9-0"), ask("e9-1")], "n": 2, "max_tokens": 200, "stream": True}
        told = await door.post({**body, "stream_options": {"include_usage": True}}, "/v1/completions")
        assert told.status_code == 200
        lines = [line.removeprefix("data: ") for line in told.text.splitlines() if line]
        assert lines.pop() == "[DONE]"
        events = [json.loads(line) for line in lines]
        said = dict.fromkeys(range(4), "")
        for choice in (choice for event in events for choice in event["choices"]):
            said[choice["index"]] += choice["text"]
        assert [text.strip() for text in said.values()] == [
            expected_answer(made.key(body, prompt), "") for prompt in (0, 0, 1, 1)
        ]
        assert len({event["id"] for event in events}) == 1
        [usage] = [event["usage"] for event in events if event.get("usage")]
        assert usage["prompt_tokens"] == sum(len(VOCABULARY.encode(prompt)) for prompt in body["prompt"])
        assert len({leg.request_id for leg in made.legs("prefill") if leg.key.startswith("e9-")}) == 4
        await door.settled()


@pytest.mark.parametrize("handoff", HANDOFFS)
async def test_epd26_a_connection_that_was_closed_while_idle_is_nobodys_error(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    """Seen in time, or found out by the first leg that uses it: that is sent anew, under another id."""
    with cluster(host, handoff) as made, before(served, vllm, made):
        door = Door(served.url, made)
        await door.assert_right(body_of(door, "e26"))
        for worker in made.workers:
            worker.close_idle()
            await door.assert_right(body_of(door, f"e26-{worker.role}-closed"))
            worker.drop_reused(1)
            await door.assert_right(body_of(door, f"e26-{worker.role}-dropped"))
        ids = [leg.request_id for leg in made.prefill.generations]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("handoff", ["nixl", "sglang"])
async def test_epd32_a_worker_that_fails_fast_gets_few_requests_and_spoils_none(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    """The quickest to fail looks the least busy, and would draw them all."""
    with cluster(host, handoff, prefills=2) as made, before(served, vllm, made, selection="pressure"):
        door, sick = Door(served.url, made), made.prefills[0]
        sick.faults = Faults(SGLANG_PREFILL if handoff == "sglang" else PREFILL, status_500=1.0)
        for wave in range(10):
            bodies = [body_of(door, f"e32-{wave}-{i}") for i in range(6)]
            told = await asyncio.gather(*(door.ask(body) for body in bodies))
            assert [text(one) for one in told] == [says(made.key(body)) for body in bodies]
        asked = [leg for leg in sick.generations if leg.key.startswith("e32-")]
        assert THRESHOLD <= len(asked) <= THRESHOLD + 6, "no more than were on their way when it was ejected"
        await door.settled()


@pytest.mark.parametrize("handoff", HANDOFFS)
async def test_epd34_prefills_load_is_given_back_when_it_has_answered(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    with cluster(host, handoff) as made, before(served, vllm, made):
        door = Door(served.url, made)
        client = asyncio.create_task(stream(served.url, body_of(door, "e34", think=100_000, delay_ms=1)))
        await door.until(lambda: any(leg.tokens > 5 for leg in made.decode.of("e34")), "a generation")
        await until_loads(served, {"prefill": (0, 0), "decode": (1, None)})
        client.cancel()
        await asyncio.wait({client})
        await until_loads(served, {"prefill": (0, 0), "decode": (0, 0)})
        await door.settled(leases=False)


async def until_loads(served: Gateway, wanted: dict[str, tuple[int, int | None]]) -> None:
    """Until the workers of each role hold so many legs, and so many tokens where that is told."""
    async with asyncio.timeout(20), httpx.AsyncClient() as client:
        while True:
            rows = (await client.get(f"{served.url}/admin/workers")).json()["data"]
            loads = {row["role"]: (row["in_flight"], row["tokens"]) for row in rows if row["pool"] == "apart"}
            if all(
                loads[role][0] == legs and tokens in {None, loads[role][1]} for role, (legs, tokens) in wanted.items()
            ):
                return
            await asyncio.sleep(0.02)


def pictures(made: Cluster, key: str, count: int) -> dict[str, Any]:
    parts = [
        {"type": "image_url", "image_url": {"url": f"https://pictures.example/{key}-{i}.png"}} for i in range(count)
    ]
    content = [{"type": "text", "text": ask(key)}, *parts]
    return {"model": made.model, "stream": True, "messages": [{"role": "user", "content": content}]}


async def test_epd37_a_client_that_leaves_while_pictures_are_encoded_ends_that(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    with cluster(host, encoders=1) as made, before(served, vllm, made):
        door, [encoder] = Door(served.url, made), made.encoders
        encoder.faults.next("stall")
        await door.leave(pictures(made, "e37", 1), lambda: bool(encoder.active), "an encode leg")
        await door.settled(leases=False)
        assert made.legs("prefill", "e37") == []


async def test_epd38_prefill_waits_for_every_picture(host: Host, served: Gateway, vllm: VllmDouble) -> None:
    with cluster(host, encoders=3) as made, before(served, vllm, made):
        door = Door(served.url, made)
        for encoder in made.encoders:
            encoder.faults.next("stall", 8)
        asked = asyncio.create_task(door.ask(body := pictures(made, "e38", 8)))
        encoded = 0
        while encoded < 8:
            await door.until(lambda: any(encoder.active for encoder in made.encoders), "an encode leg")
            assert made.legs("prefill", "e38") == []
            leg = next(leg for encoder in made.encoders for leg in encoder.active)
            encoded += len(leg.json["messages"][0]["content"])
            leg.release()
            await leg.double.wait_end(leg)
        assert text(await asked) == says(made.key(body))
        await door.settled()


async def test_epd39_an_encoder_has_no_more_pictures_of_a_request_than_it_takes(
    host: Host, served: Gateway, vllm: VllmDouble
) -> None:
    with cluster(host, encoders=1) as made, before(served, vllm, made):
        door, [encoder] = Door(served.url, made), made.encoders
        encoder.faults.next("stall", 4)
        asked = asyncio.create_task(door.ask(body := pictures(made, "e39", 16)))
        for done in range(4):
            await door.until(lambda done=done: len(encoder.encoded) == 4 * done and bool(encoder.active), "a group")
            [leg] = encoder.active
            assert len(leg.json["messages"][0]["content"]) == 4
            leg.release()
        assert text(await asked) == says(made.key(body)), "the pictures in their order"
        await door.settled()


@pytest.mark.parametrize("handoff", ["nixl", "sglang"])
async def test_epd42_no_more_tokens_are_cached_than_there_are(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    with cluster(host, handoff, prefill={"cached": 10_000}) as made, before(served, vllm, made):
        door = Door(served.url, made)
        [streamed] = (await door.assert_right(body_of(door, "e42"))).usages
        whole = (await door.post(body_of(door, "e42b", stream=False))).json()["usage"]
        for usage in (streamed, whole):
            assert 0 < usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]
        await door.settled()


@pytest.mark.parametrize("handoff", HANDOFFS)
async def test_epd46_an_answer_is_told_while_it_is_generated(
    host: Host, served: Gateway, vllm: VllmDouble, handoff: str
) -> None:
    with cluster(host, handoff) as made, before(served, vllm, made):
        door = Door(served.url, made)
        body = body_of(door, "e46", think=100_000, delay_ms=1)
        seen: Counter[bool] = Counter()
        async with (
            httpx.AsyncClient(timeout=60) as client,
            client.stream("POST", f"{served.url}/v1/chat/completions", json=body) as answer,
        ):
            async for line in answer.aiter_lines():
                seen["reasoning" in line] += bool(made.decode.active)
                if seen[True] >= 20:
                    break
        await door.settled(leases=False)
