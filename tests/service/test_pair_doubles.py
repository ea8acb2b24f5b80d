"""The doubles of vLLM pairs: a right sequence leaves nothing and tells the proof; every wrong one is named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.exchange import End
from tests.doubles.pair.cluster import HANDOFFS, Cluster, cluster
from tests.doubles.server import Host
from tests.service.pairing import (
    OFFER,
    RIGHT,
    assert_answers,
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
from tests.unit.test_doubles_wire import events_of, recorded, shape


@pytest.fixture
def pair(host: Host) -> Iterator[Cluster]:
    with cluster(host) as pair:
        yield pair


@pytest.mark.parametrize("handoff", HANDOFFS)
class TestARightSequence:
    async def test_tells_the_proof_and_leaves_nothing(self, host: Host, handoff: str) -> None:
        with cluster(host, handoff) as pair:
            body = question(pair, "right")
            assert_answers(await RIGHT[handoff](pair, body), pair, body)
            await pair.settled(leases=False)

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
            await pair.settled(leases=False)


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
        await pair.settled(leases=False)

    async def test_a_client_that_leaves_during_it_leaves_no_block(self, pair: Cluster) -> None:
        pair.prefill.faults.next("stall")
        leg = asyncio.create_task(prefill(pair, prefill_body(question(pair, "h5")), new_id()))
        await pair.prefill.until(lambda: pair.prefill.active, "a prefill leg")
        leg.cancel()
        await pair.idle()
        assert [one.end for one in pair.prefill.generations] == [End.ABORTED]
        await pair.settled(leases=False)

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
        await pair.settled()

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
            await pair.settled()

    async def test_its_token_is_nobodys_answer(self, pair: Cluster) -> None:
        body = question(pair, "w4")
        response = (await prefill(pair, prefill_body(body), new_id())).json()
        said = response["choices"][0]["message"]
        assert response["usage"]["completion_tokens"] <= 2
        assert (said["reasoning"] or "") not in says(pair.key(body))[0] or not said["reasoning"]


@pytest.mark.shared
class TestRecordedShapes:
    """Against the bytes of a real NIXL pair."""

    async def test_the_prefill_legs_answer(self, pair: Cluster, wire: Path) -> None:
        _, theirs = recorded(wire / "vllm-0.32" / "pd_nixl_1_prefill_leg.txt")
        ours = await prefill(pair, prefill_body(question(pair, "s1")), new_id())
        assert shape(ours.json()) == shape(theirs)

    async def test_the_answer_of_a_leg_that_handed_over_nothing(self, pair: Cluster, wire: Path) -> None:
        _, theirs = recorded(wire / "vllm-0.32" / "pd_prefill_leg_stream.txt")
        body = {**prefill_body(question(pair, "s2")), "stream": True, "stream_options": {"include_usage": True}}
        ours = await prefill(pair, body, new_id())
        assert [list(event) for event in events_of(ours.text)][-1] == list(theirs[-1])
        assert "kv_transfer_params" not in ours.text
        pair.prefill.violations.clear()

    async def test_a_stream_whose_transfer_broke(self, pair: Cluster, wire: Path) -> None:
        _, theirs = recorded(wire / "vllm-0.32" / "pd_decode_unreachable_stream.txt")
        pair.decode.faults.next("pull_fails")
        told = await RIGHT["nixl"](pair, question(pair, "s3"))
        assert [shape(event) for event in told.events] == [shape(event) for event in theirs]
        assert told.done
