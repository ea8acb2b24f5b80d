"""The doubles of vLLM pairs: a right sequence leaves nothing and tells the proof; every wrong one is named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.exchange import End
from tests.doubles.pair.cluster import HANDOFFS, Cluster, cluster
from tests.doubles.pair.faults import DECODE, Faults
from tests.doubles.server import Host
from tests.harness import Metrics
from tests.service.pairing import (
    OFFER,
    RIGHT,
    assert_answers,
    decode,
    new_id,
    prefill,
    prefill_body,
    question,
    says,
    text,
)
from tests.service.talk import Stream, post, socket_to


@pytest.fixture
def pair(host: Host) -> Iterator[Cluster]:
    with cluster(host) as pair:
        yield pair


async def handed(pair: Cluster, body: dict[str, Any], request_id: str) -> dict[str, Any]:
    """A prefill leg done right, and the parameters it gave."""
    response = await prefill(pair, prefill_body(body), request_id)
    assert response.status_code == 200
    return response.json()["kv_transfer_params"]


async def decoded(pair: Cluster, body: dict[str, Any], params: dict[str, Any], request_id: str) -> Stream:
    return await decode(pair, {**body, "kv_transfer_params": params}, request_id)


async def metrics(worker: Any) -> Metrics:
    async with httpx.AsyncClient() as client:
        return Metrics((await client.get(f"{worker.url}/metrics")).text)


@pytest.mark.parametrize("handoff", HANDOFFS)
class TestARightSequence:
    async def test_tells_the_proof_and_leaves_nothing(self, host: Host, handoff: str) -> None:
        with cluster(host, handoff) as pair:
            body = question(pair, "right")
            assert_answers(await RIGHT[handoff](pair, body), pair, body)
            pair.assert_clean(leases=False)

    async def test_is_keyed_by_the_prompt_and_by_the_fabric(self, host: Host, handoff: str) -> None:
        with cluster(host, handoff) as pair, cluster(host, handoff) as other:
            one, two = question(pair, "a"), question(pair, "b")
            told = [text(await RIGHT[handoff](pair, body)) for body in (one, two, one)]
            assert told[0] == told[2] != told[1]
            assert text(await RIGHT[handoff](other, one)) != told[0]

    async def test_many_at_once(self, host: Host, handoff: str) -> None:
        with cluster(host, handoff) as pair:
            bodies = [question(pair, f"m{i}") for i in range(24)]
            answers = await asyncio.gather(*(RIGHT[handoff](pair, body) for body in bodies))
            for body, told in zip(bodies, answers, strict=True):
                assert_answers(told, pair, body)
            pair.assert_clean(leases=False)


class TestThePrefillLeg:
    async def test_holds_blocks_until_they_are_read(self, pair: Cluster) -> None:
        body, request_id = question(pair, "h1"), new_id()
        params = await handed(pair, body, request_id)
        assert (await metrics(pair.prefill)).value("vllm:kv_cache_usage_perc") > 0
        with pytest.raises(AssertionError, match=request_id):
            pair.assert_clean(leases=False)
        assert_answers(await decoded(pair, body, params, request_id), pair, body)
        assert (await metrics(pair.prefill)).value("vllm:kv_cache_usage_perc") == 0

    async def test_counts_tokens_by_where_they_came_from(self, pair: Cluster) -> None:
        body = question(pair, "h2")
        await RIGHT["nixl"](pair, body)
        sources = {"prefill": "local_compute", "decode": "external_kv_transfer"}
        for worker in (pair.prefill, pair.decode):
            scrape = await metrics(worker)
            all_of_it = scrape.value("vllm:prompt_tokens_by_source_total")
            assert all_of_it > 0
            assert scrape.value("vllm:prompt_tokens_by_source_total", source=sources[worker.role]) == all_of_it

    async def test_params_have_the_keys_of_a_real_one(self, pair: Cluster) -> None:
        params = await handed(pair, question(pair, "h3"), "r-1")
        names = "do_remote_prefill do_remote_decode remote_block_ids remote_engine_id remote_request_id remote_host"
        more = "remote_port tp_size dcp_size pp_size remote_num_tokens remote_blocks_expiry_time transfer_mode"
        assert list(params) == [*names.split(), *more.split(), "remote_prefill_cached_tokens"]
        assert params["remote_request_id"].startswith("chatcmpl-r-1-")

    async def test_the_lease_runs_out(self, pair: Cluster) -> None:
        body, request_id = question(pair, "h4"), new_id()
        params = await handed(pair, body, request_id)
        pair.advance(31)
        assert (await metrics(pair.prefill)).value("vllm:nixl_num_kv_expired_reqs_total") == 1
        told = await decoded(pair, body, params, request_id)
        assert text(told) == says("local.h4"), "as measured: recomputed, 200"
        pair.pardon("hand-off-expired")
        pair.assert_clean(leases=False)

    async def test_a_client_that_leaves_during_it_leaves_no_block(self, pair: Cluster) -> None:
        pair.prefill.faults.next("stall")
        leg = asyncio.create_task(prefill(pair, prefill_body(question(pair, "h5")), new_id()))
        await pair.prefill.until(lambda: pair.prefill.active, "a prefill leg")
        leg.cancel()
        await pair.settled()
        assert [one.end for one in pair.prefill.generations] == [End.ABORTED]
        pair.assert_clean(leases=False)

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"kv_transfer_params": None}, "prefill-params"),
            ({"kv_transfer_params": {"do_remote_prefill": True}}, "prefill-params"),
            ({"kv_transfer_params": {**OFFER, "remote_host": "10.0.0.1"}}, "foreign-params"),
            ({"max_tokens": 9}, "prefill-tokens"),
            ({"max_completion_tokens": 9}, "prefill-tokens"),
            ({"max_tokens": None}, "prefill-tokens"),
            ({"min_tokens": 4}, "prefill-min-tokens"),
            ({"n": 3}, "prefill-n"),
            ({"stop": ["."]}, "prefill-stop"),
            ({"stop_token_ids": [2]}, "prefill-stop"),
            ({"logprobs": True}, "prefill-logprobs"),
            ({"best_of": 2}, "prefill-beams"),
            ({"stream": True}, "prefill-streamed"),
            ({"stream": True, "stream_options": {"include_usage": True}}, "prefill-stream-options"),
            ({"bootstrap_room": 1}, "dangerous-field"),
            ({"thinking_budget": 1}, "untranslated"),
        ],
    )
    async def test_a_wrong_one_is_named(self, pair: Cluster, changes: dict[str, Any], code: str) -> None:
        await prefill(pair, {**prefill_body(question(pair, "w")), **changes}, new_id())
        pair.pardon(code)
        pair.prefill.violations.clear()

    async def test_a_stream_hands_nothing_over_and_keeps_the_blocks(self, pair: Cluster) -> None:
        response = await prefill(pair, {**prefill_body(question(pair, "w1")), "stream": True}, new_id())
        assert "remote_block_ids" not in response.text
        pair.pardon("prefill-streamed")
        assert pair.fabric.held
        pair.assert_clean()

    async def test_a_second_leg_with_the_same_id_is_named(self, pair: Cluster) -> None:
        for _ in range(2):
            await handed(pair, question(pair, "w2"), "twice")
        pair.pardon("request-id-reused")

    @pytest.mark.parametrize("ignores", [True, False])
    async def test_an_early_end_hands_nothing_over(self, host: Host, ignores: bool) -> None:
        with cluster(host, prefill={"eos_first": True, "capped_only": True}) as pair:
            body = {**prefill_body(question(pair, "w3")), "ignore_eos": ignores}
            response = (await prefill(pair, body, new_id())).json()
            assert response["choices"][0]["finish_reason"] == ("length" if ignores else "stop")
            assert bool(response["kv_transfer_params"]) is ignores
            pair.assert_clean()

    async def test_its_token_is_nobodys_answer(self, pair: Cluster) -> None:
        body = question(pair, "w4")
        response = (await prefill(pair, prefill_body(body), new_id())).json()
        said = response["choices"][0]["message"]
        assert response["usage"]["completion_tokens"] <= 2
        assert (said["reasoning"] or "") not in says(pair.key(body))[0] or not said["reasoning"]


class TestTheDecodeLeg:
    async def test_without_a_hand_off_is_local_and_named(self, pair: Cluster) -> None:
        body = question(pair, "d1")
        assert text(await decode(pair, body, new_id())) == says("local.d1")
        pair.pardon("no-hand-off")
        assert (await metrics(pair.decode)).value("vllm:prompt_tokens_by_source_total", source="local_compute") > 0

    async def test_may_be_local_where_that_is_allowed(self, host: Host) -> None:
        with cluster(host, decode={"local": True}) as pair:
            assert text(await decode(pair, question(pair, "d2"), new_id())) == says("local.d2")
            pair.assert_clean()

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
        pair.assert_clean()

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
            pair.assert_clean()

    @pytest.mark.parametrize("frees", [True, False])
    async def test_a_refused_leg_gives_the_blocks_back_on_a_new_engine(self, host: Host, frees: bool) -> None:
        with cluster(host, decode={"releases_rejected": frees}) as pair:
            body, request_id = question(pair, "d14"), new_id()
            params = await handed(pair, body, request_id)
            told = await decoded(pair, {**body, "max_tokens": -1}, params, request_id)
            assert told.status == 400
            assert bool(pair.fabric.held) is not frees
            pair.assert_clean()

    async def test_a_client_that_leaves_during_the_transfer_leaves_no_block(self, pair: Cluster) -> None:
        body, request_id = question(pair, "d15"), new_id()
        params = await handed(pair, body, request_id)
        pair.decode.faults.next("slow_transfer")
        leg = asyncio.create_task(decoded(pair, body, params, request_id))
        await pair.decode.until(lambda: pair.decode.active, "a decode leg")
        leg.cancel()
        await pair.settled()
        pair.assert_clean(leases=False)

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
        pair.assert_clean(leases=False)


class TestFaults:
    @pytest.mark.parametrize(("policy", "local"), [("fail", False), ("recompute", True)])
    async def test_a_broken_transfer_does_what_the_policy_says(self, host: Host, policy: str, local: bool) -> None:
        with cluster(host, decode={"policy": policy}) as pair:
            pair.decode.faults.next("pull_fails", 2)
            body = question(pair, "f1")
            told = await RIGHT["nixl"](pair, body)
            assert told.status == 200
            assert (text(told) == says("local.f1")) is local
            assert [error["code"] for error in told.errors] == ([] if local else [500])
            assert told.deltas[0]["role"] == "assistant", "the role came before the failure was known"
            assert (await metrics(pair.decode)).value("vllm:nixl_num_failed_transfers_total") == 1
            pair.assert_clean(leases=False)

    async def test_a_prefill_that_dies_after_its_answer_takes_the_kv_along(self, pair: Cluster) -> None:
        pair.prefill.faults.next("lost_after")
        told = await RIGHT["nixl"](pair, question(pair, "f2"))
        assert [error["code"] for error in told.errors] == [500]
        pair.assert_clean(leases=False)

    async def test_a_restart_changes_the_engine(self, pair: Cluster) -> None:
        before = pair.prefill.engines[0].id
        pair.prefill.down()
        pair.prefill.up()
        assert pair.prefill.engines[0].id != before
        body = question(pair, "f3")
        assert_answers(await RIGHT["nixl"](pair, body), pair, body)

    @pytest.mark.parametrize(("fault", "status"), [("status_500", 500), ("status_503", 503), ("status_429", 429)])
    @pytest.mark.parametrize("role", ["prefill", "decode"])
    async def test_statuses(self, pair: Cluster, role: str, fault: str, status: int) -> None:
        worker = getattr(pair, role)
        worker.faults.next(fault)
        body = question(pair, "f4")
        response = await post(
            worker.url, prefill_body(body) if role == "prefill" else body, headers={"x-request-id": "r"}
        )
        assert response.status_code == status
        assert ("retry-after" in response.headers) is (status != 500)
        pair.assert_clean()

    @pytest.mark.parametrize(
        ("fault", "withheld"), [("no_params", None), ("empty_blocks", []), ("missing_key", "remote_host")]
    )
    async def test_answers_no_decode_may_be_given(self, pair: Cluster, fault: str, withheld: Any) -> None:
        pair.prefill.faults.next(fault)
        params = await handed(pair, question(pair, "f5"), new_id())
        if fault == "missing_key":
            assert withheld not in params
        else:
            assert (params and params["remote_block_ids"]) == withheld
        pair.assert_clean()

    @pytest.mark.parametrize("fault", ["truncated", "reset"])
    async def test_broken_answers(self, pair: Cluster, fault: str) -> None:
        pair.prefill.faults.next(fault)
        with pytest.raises(httpx.TransportError):
            await handed(pair, question(pair, "f6"), new_id())
        await pair.settled()
        pair.assert_clean(leases=False)

    @pytest.mark.parametrize(("fault", "texts"), [("dies_before_delta", 0), ("dies_after_delta", 3)])
    async def test_a_decode_that_dies(self, pair: Cluster, fault: str, texts: int) -> None:
        body, request_id = question(pair, "f7", delay_ms=1), new_id()
        params = await handed(pair, body, request_id)
        pair.decode.faults.next(fault)
        leg = {**body, "kv_transfer_params": params}
        async with socket_to(pair.decode.port) as client:
            await client.send_chat(leg)
            with pytest.raises((ConnectionError, AssertionError)):
                await client.read_until(b"[DONE]")
        await pair.settled()
        assert pair.decode.generations[-1].tokens == texts
        pair.decode.pardon("no-request-id")
        pair.decode.pardon("request-id-differs")
        pair.assert_clean(leases=False)

    async def test_strike_at_their_rate_and_the_same_for_one_seed(self) -> None:
        one, two = (Faults(DECODE, 7, status_500=0.2, reset=0.1) for _ in range(2))
        drawn = [one.draw() for _ in range(2_000)]
        assert drawn == [two.draw() for _ in range(2_000)]
        assert 300 < one.struck["status_500"] < 500
        assert 130 < one.struck["reset"] < 270

    async def test_unknown_ones_are_refused(self) -> None:
        with pytest.raises(ValueError, match="no such fault"):
            Faults(DECODE, nonsense=0.1)
        with pytest.raises(ValueError, match="no such fault"):
            Faults(DECODE).next("no_params")
        with pytest.raises(ValueError, match="rates"):
            Faults(DECODE, reset=0.6, stall=0.6)
