"""Who prefills for whom: whether anybody has to, who fits, who gets on with whom, and how often nobody may."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from gateway.attempts import FULL_WORKERS, Attempts
from gateway.confighandoff import PrefillWorker
from gateway.edge.errors import ApiError
from gateway.engines.cache import KvCache
from gateway.leg import LegFailed
from gateway.pools import Pool, State
from gateway.pools.breaker import OPEN_FOR
from gateway.pools.handoff.pairing import EDGE_FAILS, Wish, unlike
from gateway.pools.handoff.ranks import Ranks
from gateway.pools.handoff.sglang import room_for
from gateway.pools.retries import ALWAYS
from gateway.pools.verdict import NEUTRAL, SUCCESS, Kind, Verdict
from gateway.upstream import End
from tests.scripted import refusal, reply
from tests.scriptedpair import Bench

FAILURE = Verdict(Kind.FAILURE)
BODY: dict[str, Any] = {"messages": []}


class TestTheDecision:
    @pytest.mark.parametrize(
        ("wish", "is_local"),
        [
            (Wish(BODY, 255), True),
            (Wish(BODY, 256), False),
            (Wish(BODY, 255, has_media=True), False),
            (Wish(BODY, 100_000, is_warm=True), True),
            (Wish({**BODY, "prompt_logprobs": 3}, 100_000), True),
            (Wish({**BODY, "echo": True}, 100_000), True),
            (Wish({**BODY, "echo": False, "best_of": None}, 100_000), False),
        ],
    )
    def test_what_the_decode_worker_prefills_itself(self, wish: Wish, is_local: bool) -> None:
        bench = Bench(local_below=256)
        assert (bench.apart.pairing.choose(bench.decodes[0], wish) is None) is is_local

    def test_sglangs_decode_workers_prefill_nothing(self) -> None:
        bench = Bench("sglang", local_below=256)
        pairing, [decode] = bench.apart.pairing, bench.decodes
        assert pairing.choose(decode, Wish(BODY, 1, is_warm=True)) is bench.prefills[0]
        with pytest.raises(ApiError) as caught:
            pairing.choose(decode, Wish({**BODY, "echo": True}, 1))
        assert (caught.value.status, caught.value.param) == (400, "echo")

    def test_epd29_alone_only_as_often_as_is_allowed(self) -> None:
        for allowed, most in (("refuse", 0), ("local", ALWAYS)):
            bench = Bench(without_prefill=allowed)
            down(bench.pool.parts[1])
            alone = 0
            for _ in range(40):
                with suppress(ApiError):
                    alone += bench.apart.pairing.choose(bench.decodes[0], Wish(BODY, 9)) is None
            assert alone == most, "a fifth, and some where there are few"

    def test_epd2_a_missing_hand_off_is_made_good_only_as_often_as_is_allowed(self) -> None:
        for allowed, most in (("refuse", 0), ("local", ALWAYS)):
            bench = Bench(if_missing=allowed)
            assert sum(bench.apart.pairing.may_be_local() for _ in range(40)) == most
        assert not Bench("sglang").apart.pairing.may_be_local()


def down(pool: Pool) -> None:
    for worker in pool.workers:
        pool.move(worker, State.EJECTED, "it is down")


class TestWhoFits:
    @pytest.mark.parametrize(
        ("one", "other", "why"),
        [
            (None, KvCache(64), None),
            (KvCache(), KvCache(64, "fp8"), None),
            (KvCache(64, "auto"), KvCache(64, "auto"), None),
            (KvCache(16), KvCache(64), "their KV blocks have 16 and 64 tokens"),
            (KvCache(16, "auto"), KvCache(None, "fp8"), "their KV caches are of auto and fp8"),
        ],
    )
    def test_epd27_caches_of_one_kind(self, one: KvCache | None, other: KvCache | None, why: str | None) -> None:
        bench = Bench()
        [prefill], [decode] = bench.prefills, bench.decodes
        prefill.kv_cache, decode.kv_cache = one, other
        assert unlike(prefill, decode) == why
        assert bench.pool.is_ready is (why is None)
        if why is not None:
            with pytest.raises(ApiError, match=why) as caught:
                bench.hand_off()
            assert caught.value.status == 503
            assert "d0" not in caught.value.message, "addresses are not the client's business"

    def test_epd52_of_one_group_and_those_without_one_with_each_other(self) -> None:
        bench = Bench(prefills=3, decodes=3, groups={"http://p0:1": "a", "http://d0:1": "a", "http://d1:1": "b"})
        pairing, (p0, *others) = bench.apart.pairing, bench.prefills
        d0, d1, d2 = bench.decodes
        assert {pairing.choose(d0, Wish(BODY, 9, str(i))) for i in range(20)} == {p0}
        assert not pairing.has_pair(d1)
        assert not bench.pool.is_open(d1)
        assert {pairing.choose(d2, Wish(BODY, 9, str(i))) for i in range(40)} == set(others)

    def test_epd51_a_conversation_keeps_its_prefill_worker_whoever_decodes(self) -> None:
        bench = Bench(prefills=3, decodes=2)
        pairing, found = bench.apart.pairing, set[object]()
        for number in range(30):
            chosen = {pairing.choose(decode, Wish(BODY, 9, f"k{number}")) for decode in bench.decodes}
            assert len(chosen) == 1
            found |= chosen
        assert found == set(bench.prefills)

    def test_one_that_has_failed_is_not_asked_again_while_there_is_another(self) -> None:
        bench = Bench(prefills=2)
        [decode], (tried, other) = bench.decodes, bench.prefills
        assert {bench.apart.pairing.choose(decode, Wish(BODY, 9, str(i)), [tried]) for i in range(20)} == {other}


class TestEdges:
    def test_epd33_two_that_fail_with_each_other_are_parted_and_neither_is_blamed(self) -> None:
        bench = Bench(prefills=2, decodes=2)
        pairing, (p0, p1), (d0, d1) = bench.apart.pairing, bench.prefills, bench.decodes
        for _ in range(EDGE_FAILS):
            assert pairing.note(p0, d0, FAILURE, pairing.begin(p0, d0)) is NEUTRAL
        chosen = [{pairing.choose(decode, Wish(BODY, 9, str(i))) for i in range(20)} for decode in (d0, d1)]
        assert chosen == [{p1}, {p0, p1}]
        assert pairing.shown() == [{"prefill": "p0:1", "decode": "d0:1", "open": True}]
        assert pairing.note(p1, d0, FAILURE, pairing.begin(p1, d0)) is FAILURE, "it fails with both"

    def test_epd33_a_broken_edge_is_tried_again_by_one_leg_after_its_time(self) -> None:
        bench = Bench(prefills=2)
        pairing, (p0, p1), [d0] = bench.apart.pairing, bench.prefills, bench.decodes

        def chosen() -> set[object]:
            return {pairing.choose(d0, Wish(BODY, 9, str(i))) for i in range(20)}

        for _ in range(EDGE_FAILS):
            pairing.note(p0, d0, FAILURE, pairing.begin(p0, d0))
        assert chosen() == {p1}
        bench.now += OPEN_FOR
        assert chosen() == {p0, p1}
        stamp = pairing.begin(p0, d0)
        assert chosen() == {p1}, "one at a time"
        pairing.note(p0, d0, NEUTRAL, stamp)
        assert chosen() == {p0, p1}, "it has said nothing, and given its place back"
        pairing.note(p0, d0, SUCCESS, pairing.begin(p0, d0))
        assert (chosen(), pairing.shown()) == ({p0, p1}, [])

    @pytest.mark.parametrize(("verdict", "is_mended"), [(NEUTRAL, False), (SUCCESS, True)])
    async def test_epd33_a_hand_off_gives_its_place_on_a_broken_edge_back(
        self, verdict: Verdict, is_mended: bool
    ) -> None:
        bench = Bench(prefills=2)
        pairing, (p0, p1), [d0] = bench.apart.pairing, bench.prefills, bench.decodes
        for _ in range(EDGE_FAILS):
            pairing.note(p0, d0, FAILURE, pairing.begin(p0, d0))
        bench.now += OPEN_FOR
        probe = bench.hand_off(tried=[p1])
        assert probe.prefill is p0
        assert {pairing.choose(d0, Wish(BODY, 9, str(i))) for i in range(20)} == {p1}
        probe.end(End.FINISHED, verdict)
        assert {pairing.choose(d0, Wish(BODY, 9, str(i))) for i in range(20)} == {p0, p1}
        assert (pairing.shown() == []) is is_mended

    def test_epd31_a_leg_that_began_before_an_edge_broke_does_not_mend_it(self) -> None:
        bench = Bench(prefills=2)
        pairing, (p0, p1), [d0] = bench.apart.pairing, bench.prefills, bench.decodes
        early = pairing.begin(p0, d0)
        for _ in range(EDGE_FAILS):
            pairing.note(p0, d0, FAILURE, pairing.begin(p0, d0))
        pairing.note(p0, d0, SUCCESS, early)
        assert {pairing.choose(d0, Wish(BODY, 9, str(i))) for i in range(20)} == {p1}

    def test_a_worker_that_has_gone_takes_its_edges_along(self) -> None:
        bench = Bench(prefills=3)
        pairing, (p0, p1, p2), [d0] = bench.apart.pairing, bench.prefills, bench.decodes
        for worker in (p0, p1):
            pairing.note(worker, d0, FAILURE, pairing.begin(worker, d0))
        bench.pool.parts[1].remove(p0)
        assert [pair["prefill"] for pair in pairing.shown()] == ["p1:1"]
        p3 = bench.pool.parts[1].add("http://p3:1")
        pairing.begin(p3, d0)
        assert {prefill for prefill, _ in pairing._edges} == {p1, p2, p3}

    def test_other_settings_of_the_pool_do_not_mend_an_edge(self) -> None:
        bench = Bench(prefills=2)
        (p0, p1), [d0], old = bench.prefills, bench.decodes, bench.pool
        for _ in range(EDGE_FAILS):
            bench.apart.pairing.note(p0, d0, FAILURE, bench.apart.pairing.begin(p0, d0))
        new = Pool("pool", old.config.model_copy(update={"max_connections": 9}), crew=old.crew)
        new.succeed(old)
        assert new.apart is not None
        assert {new.apart.pairing.choose(d0, Wish(BODY, 9, str(i))) for i in range(20)} == {p1}

    def test_a_decode_worker_with_one_partner_answers_for_itself(self) -> None:
        bench = Bench()
        pairing, [p0], [d0] = bench.apart.pairing, bench.prefills, bench.decodes
        assert pairing.note(p0, d0, FAILURE, pairing.begin(p0, d0)) is FAILURE

    def test_one_that_refuses_connections_is_told_so_whoever_prefills(self) -> None:
        bench = Bench(prefills=2)
        refused = Verdict(Kind.FAILURE, is_unreachable=True)
        pairing, (p0, _), [d0] = bench.apart.pairing, bench.prefills, bench.decodes
        assert pairing.note(p0, d0, refused, pairing.begin(p0, d0)) is refused


class TestTheBlame:
    """What a leg's failure is to either worker's breaker, and to the books."""

    async def test_a_prefill_worker_that_fails_is_blamed_and_the_other_is_not(self) -> None:
        bench = Bench(prefills=2)
        for worker in bench.prefills:
            bench.clients[worker].answer = lambda asked: refusal(500)
        for _ in range(9):
            with pytest.raises(LegFailed) as caught:
                await bench.launch()
            assert caught.value.culprit in bench.prefills
        assert not bench.decodes[0].breaker.is_failing
        assert any(worker.breaker.is_failing for worker in bench.prefills)
        assert bench.apart.pairing.shown() == []
        assert bench.heard == [], "what was not prefilled is nobody's orphan"

    @pytest.mark.parametrize("prefills", [1, 2, 4])
    async def test_epd29_one_that_is_full_is_not_asked_again_and_one_other_is(self, prefills: int) -> None:
        bench = Bench(prefills=prefills)
        for worker in bench.prefills:
            bench.clients[worker].answer = lambda asked: refusal(503)
        attempts = Attempts(bench.pool, asyncio.get_running_loop().time() + 60)
        with pytest.raises(LegFailed) as caught:
            await attempts.run(lambda worker: bench.launch(worker, tried=attempts.failed_before))
        assert caught.value.error.status == 503
        asked = [len(bench.clients[worker].asked) for worker in bench.prefills]
        assert sorted(asked, reverse=True)[:2] == [1, 1][:prefills]
        assert sum(asked) == min(FULL_WORKERS, prefills)

    async def test_a_failed_transfer_is_the_edges_while_there_is_another_partner(self) -> None:
        bench = Bench(prefills=2)
        [decode] = bench.decodes
        bench.clients[decode].answer = lambda asked: refusal(500)
        with pytest.raises(LegFailed):
            await bench.launch(key="k")
        assert not decode.breaker.is_failing
        assert len(bench.apart.pairing.shown()) == 1
        assert bench.heard == ["orphaned"]

    async def test_a_full_decode_worker_is_no_failure(self) -> None:
        bench = Bench(prefills=2)
        bench.clients[bench.decodes[0]].answer = lambda asked: refusal(503)
        with pytest.raises(LegFailed) as caught:
            await bench.launch()
        assert caught.value.is_back_pressure
        assert bench.apart.pairing.shown() == []

    @pytest.mark.parametrize(("if_missing", "heard"), [("local", ["missing"]), ("refuse", ["missing"])])
    async def test_epd2_nothing_handed_off_is_counted_whatever_follows(self, if_missing: str, heard: list[str]) -> None:
        bench = Bench(if_missing=if_missing)
        bench.clients[bench.prefills[0]].answer = lambda asked: reply({"usage": None})
        if if_missing == "local":
            leg = await bench.launch()
            leg.end(End.ABANDONED)
            assert "kv_transfer_params" not in bench.clients[bench.decodes[0]].asked[0].body
        else:
            with pytest.raises(LegFailed):
                await bench.launch()
            assert bench.clients[bench.decodes[0]].asked == []
        assert bench.heard == heard

    async def test_a_leg_that_was_prefilled_and_generated_from_is_handed(self) -> None:
        bench = Bench()
        leg = await bench.launch()
        leg.end(End.FINISHED)
        assert bench.heard == ["handed"]
        assert leg.handed_prompt is not None
        assert (leg.handed_prompt.tokens, leg.handed_prompt.cached) == (40, 8)


class TestRanks:
    def test_epd23_every_rank_of_every_worker_gets_as_many(self) -> None:
        """Two workers in turn, of four ranks each: with one count for both, half of the ranks would never be used."""
        ranks, sources = Ranks(), [PrefillWorker(url=f"http://p{i}:1", dp_size=4) for i in range(2)]
        used = Counter((sources[i % 2].url, ranks.next(sources[i % 2])) for i in range(800))
        assert set(used.values()) == {100}
        assert len(used) == 8

    def test_epd22_epd49_rooms_agree_with_their_rank_and_do_not_meet(self) -> None:
        rooms = [room_for(rank, ranks) for ranks in (1, 2, 3, 8) for rank in range(ranks) for _ in range(20_000)]
        assert len(set(rooms)) == len(rooms)
        assert all(0 <= room < 2**63 for room in rooms)
        assert {room_for(5, 8) % 8 for _ in range(100)} == {5}
