"""What goes wrong at a vLLM pair when a test says so, and at which rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.pair.cluster import Cluster, cluster
from tests.doubles.pair.faults import DECODE, WAITS, Faults
from tests.doubles.server import Host
from tests.service.pairing import (
    RIGHT,
    assert_answers,
    handed,
    metrics,
    new_id,
    prefill_body,
    question,
    says,
    text,
)
from tests.service.talk import post, socket_to


@pytest.fixture
def pair(host: Host) -> Iterator[Cluster]:
    with cluster(host) as pair:
        yield pair


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
            await pair.settled(leases=False)

    async def test_a_prefill_that_dies_after_its_answer_takes_the_kv_along(self, pair: Cluster) -> None:
        pair.prefill.faults.next("lost_after")
        told = await RIGHT["nixl"](pair, question(pair, "f2"))
        assert [error["code"] for error in told.errors] == [500]
        await pair.settled(leases=False)

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
        await pair.settled()

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
        await pair.settled()

    @pytest.mark.parametrize("fault", ["truncated", "reset"])
    async def test_broken_answers(self, pair: Cluster, fault: str) -> None:
        pair.prefill.faults.next(fault)
        with pytest.raises(httpx.TransportError):
            await handed(pair, question(pair, "f6"), new_id())
        await pair.settled(leases=False)

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
        await pair.idle()
        assert pair.decode.generations[-1].tokens == texts
        pair.decode.pardon("no-request-id")
        pair.decode.pardon("request-id-differs")
        await pair.settled(leases=False)

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

    async def test_each_kind_that_passes_by_itself(self) -> None:
        storm = Faults.each(DECODE, 0.02, seed=3)
        drawn = {storm.draw() for _ in range(2_000)}
        assert drawn == {"", *DECODE} - WAITS

    async def test_a_lease_that_ran_out_is_recomputed(self, pair: Cluster) -> None:
        pair.decode.faults.next("expired")
        assert text(await RIGHT["nixl"](pair, question(pair, "f8"))) == says("local.f8")
        assert (await metrics(pair.prefill)).value("vllm:nixl_num_kv_expired_reqs_total") == 1
        await pair.settled(leases=False)

    @pytest.mark.parametrize(("handoff", "keeps"), [("nixl", False), ("nixl-push", True), ("mooncake", False)])
    async def test_an_engine_id_outlives_its_process_only_where_it_is_configured(
        self, host: Host, handoff: str, keeps: bool
    ) -> None:
        with cluster(host, handoff) as pair:
            before = pair.prefill.engines[0].id
            pair.prefill.restart()
            assert (pair.prefill.engines[0].id == before) is keeps
            body = question(pair, "f9")
            assert_answers(await RIGHT[handoff](pair, body), pair, body)
            await pair.settled(leases=False)
