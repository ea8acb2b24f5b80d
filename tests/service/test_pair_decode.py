"""The double of a vLLM decode worker: it speaks with the voice it was handed, and names what was handed wrongly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.doubles.pair.cluster import Cluster, cluster
from tests.doubles.server import Host
from tests.service.pairing import (
    RIGHT,
    assert_answers,
    decode,
    decoded,
    handed,
    metrics,
    new_id,
    prefill,
    prefill_body,
    question,
    says,
    text,
)
from tests.service.talk import post


@pytest.fixture
def pair(host: Host) -> Iterator[Cluster]:
    with cluster(host) as pair:
        yield pair


class TestTheDecodeLeg:
    async def test_without_a_hand_off_is_local_and_named(self, pair: Cluster) -> None:
        body = question(pair, "d1")
        assert text(await decode(pair, body, new_id())) == says("local.d1")
        pair.pardon("no-hand-off")
        assert (await metrics(pair.decode)).value("vllm:prompt_tokens_by_source_total", source="local_compute") > 0

    async def test_may_be_local_where_that_is_allowed(self, host: Host) -> None:
        with cluster(host, decode={"local": True}) as pair:
            assert text(await decode(pair, question(pair, "d2"), new_id())) == says("local.d2")
            await pair.settled()

    async def test_used_twice_is_noise(self, pair: Cluster) -> None:
        body, request_id = question(pair, "d3"), new_id()
        params = await handed(pair, body, request_id)
        assert_answers(await decoded(pair, body, params, request_id), pair, body)
        assert text(await decoded(pair, body, params, request_id))[0] != says(pair.key(body))[0]
        pair.pardon("used-twice")
        assert (await metrics(pair.decode)).value("vllm:nixl_num_failed_transfers_total") == 1

    async def test_stale_blocks_speak_with_anothers_voice(self, pair: Cluster) -> None:
        """vllm#52234: no error, no metric, another prompt's answer."""
        body, other, request_id = question(pair, "d4"), question(pair, "d4-other"), new_id()
        params = await handed(pair, body, request_id)
        await decoded(pair, body, params, request_id)
        await handed(pair, other, new_id())
        assert text(await decoded(pair, body, params, request_id)) == says(pair.key(other))
        pair.pardon("used-twice")
        assert (await metrics(pair.decode)).value("vllm:nixl_num_failed_transfers_total") == 0
        await pair.settled()

    async def test_foreign_params_are_named(self, pair: Cluster) -> None:
        mine, other = question(pair, "d5"), question(pair, "d5-other")
        params = await handed(pair, other, new_id())
        assert text(await decoded(pair, mine, params, new_id()))[0] != says(pair.key(mine))[0]
        assert pair.pardon("request-id-differs")
        assert pair.pardon("prompt-mismatch")

    @pytest.mark.parametrize(
        "change",
        [
            {"tools": [{"type": "function", "function": {"name": "f"}}]},
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"reasoning_effort": "low"},
            {"cache_salt": "s"},
            {"messages": [{"role": "user", "content": "#double key=d6# and more"}]},
        ],
    )
    async def test_another_prompt_than_prefill_read_is_noise(self, pair: Cluster, change: dict[str, Any]) -> None:
        body, request_id = question(pair, "d6"), new_id()
        params = await handed(pair, body, request_id)
        told = await decoded(pair, {**body, **change}, params, request_id)
        assert told.status == 200
        assert pair.key(body) not in text(told)[1]
        assert next(iter(change)) in pair.pardon("prompt-mismatch")[0]

    async def test_without_blocks_kills_the_engine(self, pair: Cluster) -> None:
        body, request_id = question(pair, "d7"), new_id()
        params = await handed(pair, body, request_id)
        told = await decoded(pair, body, {**params, "remote_block_ids": []}, request_id)
        assert (told.status, pair.decode.health) == (500, 503)
        assert (await decode(pair, body, new_id())).status == 500
        pair.pardon("engine-killed")
        with pytest.raises(AssertionError, match="killed"):
            pair.assert_clean()

    async def test_without_an_address_hangs_and_then_kills_the_engine(self, pair: Cluster) -> None:
        body, request_id = question(pair, "d8"), new_id()
        params = await handed(pair, body, request_id)
        del params["remote_host"]
        leg = asyncio.create_task(decoded(pair, body, params, request_id))
        await pair.decode.until(lambda: pair.decode.violations, "a violation")
        assert not pair.decode.dead
        leg.cancel()
        await pair.decode.until(lambda: pair.decode.dead, "its death")
        pair.pardon("params-incomplete")

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"do_remote_prefill": False}, "decode-params"),
            ({"remote_engine_id": "no-such"}, "unknown-engine"),
            ({"remote_request_id": "no-such"}, "unknown-request"),
            ({"remote_port": 1}, "wrong-address"),
            ({"remote_block_ids": [[700]]}, "params-altered"),
            ({"mine": 1}, "params-altered"),
        ],
    )
    async def test_altered_params_are_named(self, pair: Cluster, change: dict[str, Any], code: str) -> None:
        body, request_id = question(pair, "d9"), new_id()
        params = await handed(pair, body, request_id)
        await decoded(pair, body, {**params, **change}, request_id)
        pair.pardon(code)
        pair.decode.violations.clear()

    async def test_params_without_tp_size_are_named(self, pair: Cluster) -> None:
        body, request_id = question(pair, "d10"), new_id()
        params = await handed(pair, body, request_id)
        del params["tp_size"]
        assert_answers(await decoded(pair, body, params, request_id), pair, body)
        pair.pardon("no-tp-size")

    async def test_before_prefill_is_done_is_named(self, pair: Cluster) -> None:
        body, request_id = question(pair, "d11"), new_id()
        params = await handed(pair, body, request_id)
        pair.prefill.faults.next("stall")
        pair.fabric.prefilling[request_id] += 1
        await decoded(pair, body, params, request_id)
        pair.pardon("decode-too-early")
        pair.fabric.prefilling.clear()

    async def test_several_samples_of_one_hand_off_are_named(self, pair: Cluster) -> None:
        body, request_id = {**question(pair, "d12"), "n": 2}, new_id()
        params = await handed(pair, body, request_id)
        await decoded(pair, body, params, request_id)
        pair.pardon("shared-hand-off")

    async def test_an_address_only_prefill_knows_must_be_put_right(self, host: Host) -> None:
        with cluster(host, prefill={"told_host": "localhost"}) as pair:
            body, request_id = question(pair, "d13"), new_id()
            params = await handed(pair, body, request_id)
            told = await decoded(pair, body, params, request_id)
            assert told.errors[0]["code"] == 500
            pair.pardon("wrong-address")
            request_id = new_id()
            params = await handed(pair, body, request_id)
            put_right = {**params, "remote_host": "127.0.0.1"}
            assert_answers(await decoded(pair, body, put_right, request_id), pair, body)
            await pair.settled()

    @pytest.mark.parametrize("frees", [True, False])
    async def test_a_refused_leg_gives_the_blocks_back_on_a_new_engine(self, host: Host, frees: bool) -> None:
        with cluster(host, decode={"releases_rejected": frees}) as pair:
            body, request_id = question(pair, "d14"), new_id()
            params = await handed(pair, body, request_id)
            told = await decoded(pair, {**body, "max_tokens": -1}, params, request_id)
            assert told.status == 400
            assert bool(pair.fabric.held) is not frees
            await pair.settled()

    async def test_a_client_that_leaves_during_the_transfer_leaves_no_block(self, pair: Cluster) -> None:
        body, request_id = question(pair, "d15"), new_id()
        params = await handed(pair, body, request_id)
        pair.decode.faults.next("slow_transfer")
        leg = asyncio.create_task(decoded(pair, body, params, request_id))
        await pair.decode.until(lambda: pair.decode.active, "a decode leg")
        leg.cancel()
        await pair.settled(leases=False)

    async def test_does_all_that_one_worker_does(self, pair: Cluster) -> None:
        """Caps, token ids, continuation by ids in the same voice."""
        body = {**question(pair, "d16", think=40), "thinking_token_budget": 9, "return_token_ids": True}
        told = await RIGHT["nixl"](pair, body)
        key = pair.key(body)
        assert text(told) == says(key, 9)
        ids = [token for event in told.events for choice in event["choices"] for token in choice.get("token_ids") or []]
        leg = {"model": pair.model, "prompt": told.events[0]["prompt_token_ids"] + ids[:20], "stream": True}
        request_id = new_id()
        params = (await prefill(pair, prefill_body(leg), request_id, path="/v1/completions")).json()
        assert pair.fabric.held[0].voice == key, "one voice for a leg and its continuation"
        more = {**leg, "kv_transfer_params": params["kv_transfer_params"]}
        response = await post(pair.decode.url, more, "/v1/completions", {"x-request-id": request_id})
        assert response.status_code == 200
        await pair.settled(leases=False)
