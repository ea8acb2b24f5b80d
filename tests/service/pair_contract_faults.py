"""Checks of a front door to a cluster: one leg fails, one is slow, the client goes."""

from __future__ import annotations

from typing import Any

from tests.doubles.pair.faults import DECODE, PREFILL, SGLANG_DECODE, SGLANG_PREFILL, Faults
from tests.service.pair_contract import PULL, SGLANG, Door, body_of, check
from tests.service.pairing import says, text


def one_plan(known: frozenset[str]) -> Any:
    """Settings with which all workers of a role share their faults: the next leg is struck, wherever it goes."""
    return lambda: {"faults": Faults(known)}


TWO_PREFILLS: dict[str, Any] = {"prefills": 2, "prefill": one_plan(PREFILL)}
TWO_DECODES: dict[str, Any] = {"decodes": 2, "decode": one_plan(DECODE)}


async def prefilled_again(door: Door, key: str, faults: Faults, fault: str) -> None:
    """Struck once, right nevertheless, and by a new prefill."""
    faults.next(fault)
    await door.assert_right(body_of(door, key))
    ids = [leg.request_id for leg in door.cluster.legs("prefill", key)]
    assert faults.struck[fault] == 1
    assert len(ids) == len(set(ids)) == 2, ids


@check(*PULL, **TWO_PREFILLS)
async def tries_another_prefill(door: Door) -> None:
    """epd-bugs 29."""
    for fault in ("status_500", "status_503", "reset", "truncated"):
        await prefilled_again(door, f"f1-{fault}", door.cluster.prefill.faults, fault)


@check(*SGLANG, prefills=2, prefill=one_plan(SGLANG_PREFILL))
async def tries_another_pair_when_prefill_fails(door: Door) -> None:
    """epd-bugs 14: the decode leg of the first is ended, not left to its time-out."""
    for fault in ("status_500", "status_503", "reset"):
        await prefilled_again(door, f"f2-{fault}", door.cluster.prefill.faults, fault)


@check()
async def passes_on_a_refusal_by_prefill(door: Door) -> None:
    """epd-bugs 14: a 4xx is the client's, whichever leg says it."""
    door.cluster.prefill.faults.next("status_400")
    told = await door.ask(body_of(door, "f3"))
    assert told.status == 400
    await door.settled(leases=False)


@check()
async def passes_on_back_pressure(door: Door) -> None:
    """epd-bugs 29: no room at prefill is no reason to prefill on decode."""
    door.cluster.prefill.faults.next("status_503", 20)
    told = await door.ask(body_of(door, "f4"))
    assert told.status == 503
    assert "retry-after" in told.headers
    await door.settled(leases=False)


@check()
async def decodes_nothing_alone_while_prefill_is_down(door: Door) -> None:
    """epd-bugs 29, 36."""
    door.cluster.prefill.down()
    told = await door.ask(body_of(door, "f5"))
    assert told.status in {502, 503}
    await door.settled(leases=False)


@check(*PULL, decode={"local": True})
async def gives_no_decode_worker_bad_parameters(door: Door) -> None:
    """epd-bugs 2, 8: without a good hand-off it is a new prefill, a local one, or an error."""
    for fault in ("no_params", "empty_blocks", "missing_key"):
        door.cluster.prefill.faults.next(fault)
        body = body_of(door, f"f6-{fault}")
        told = await door.ask(body)
        right = text(told) in {says(door.cluster.key(body)), says(f"local.f6-{fault}")}
        assert right or told.status >= 500, (fault, told.status)
        await door.settled()


@check(*PULL, **TWO_DECODES)
async def prefills_anew_when_decode_fails(door: Door) -> None:
    """epd-bugs 1, 24, 53: nothing was told, so the client sees nothing of it; the old parameters are not used again."""
    faults = ("status_500", "status_503", "reset", "pull_fails", "dies_before_delta", "error_before_delta")
    for fault in faults:
        await prefilled_again(door, f"f7-{fault}", door.cluster.decode.faults, fault)


@check(*SGLANG, decodes=2, decode=one_plan(SGLANG_DECODE))
async def takes_a_new_room_when_decode_fails(door: Door) -> None:
    """epd-bugs 14: and the prefill leg of the first is ended."""
    for fault in ("status_500", "status_503", "reset", "transfer_fails", "dies_before_delta"):
        await prefilled_again(door, f"f8-{fault}", door.cluster.decode.faults, fault)


@check(decodes=2)
async def goes_on_without_a_decode_worker_that_is_down(door: Door) -> None:
    """epd-bugs 53: nor is what was prefilled for a refused connection."""
    door.cluster.decodes[0].down()
    for i in range(3):
        await door.assert_right(body_of(door, f"f9-{i}"))


@check()
async def ends_a_broken_stream_once(door: Door) -> None:
    """epd-bugs 24, 48: after the first delta it goes on from there, or ends with one error; nothing is said twice."""
    for fault in ("dies_after_delta", "error_after_delta", "eof_after_delta"):
        door.cluster.decode.faults.next(fault)
        body = body_of(door, f"f10-{fault}")
        told = await door.ask(body)
        thought, answer = says(door.cluster.key(body))
        if not told.errors:
            assert (text(told), told.done) == ((thought, answer), True)
        else:
            assert (len(told.errors), told.done) == (1, False)
            assert thought.startswith(text(told)[0])
        await door.settled()


@check()
async def ends_prefill_when_the_client_leaves(door: Door) -> None:
    """epd-bugs 13, 37."""
    prefill = door.cluster.prefill
    prefill.faults.next("stall")
    await door.leave(body_of(door, "f11"), lambda: bool(door.cluster.legs("prefill", "f11")), "a prefill leg")
    await door.settled(leases=False)


@check()
async def ends_decode_when_the_client_leaves(door: Door) -> None:
    """epd-bugs 37."""
    decode = door.cluster.decode
    body = body_of(door, "f12", think=100_000, delay_ms=1)
    await door.leave(body, lambda: any(leg.tokens > 5 for leg in decode.of("f12")), "a generation")
    await door.settled(leases=False)


@check(*PULL)
async def ends_a_transfer_when_the_client_leaves(door: Door) -> None:
    """epd-bugs 19: the decode engine tells prefill, if it is told itself."""
    door.cluster.decode.faults.next("slow_transfer")
    await door.leave(body_of(door, "f13"), lambda: bool(door.cluster.legs("decode", "f13")), "a decode leg")
    await door.settled(leases=False)


@check(*SGLANG)
async def aborts_both_legs_when_the_client_leaves(door: Door) -> None:
    """epd-bugs 14, 16: closed, and told by the rid that each has."""
    decode, prefill = door.cluster.decode, door.cluster.prefill
    body = body_of(door, "f14", think=100_000, delay_ms=1)
    await door.leave(body, lambda: any(leg.tokens > 5 for leg in decode.of("f14")), "a generation")
    await door.settled(leases=False)
    await door.until(lambda: bool(set(decode.rids) & set(decode.aborts)), "an abort at decode")
    assert len(prefill.rids) == len(decode.rids)


@check(*SGLANG)
async def aborts_the_decode_leg_when_prefill_fails(door: Door) -> None:
    """epd-bugs 14: the matrix's first half; no time-out of the engine is needed."""
    decode = door.cluster.decode
    before = set(decode.rids)
    door.cluster.prefill.faults.next("status_400")
    assert (await door.ask(body_of(door, "f15"))).status == 400
    await door.settled(leases=False)
    await door.until(lambda: set(decode.aborts) >= set(decode.rids) - before, "an abort of each decode leg")


@check(*SGLANG)
async def holds_decode_back_until_prefill_has_passed(door: Door) -> None:
    """epd-bugs 7: decode talks noise under 200 while prefill says 400."""
    door.cluster.prefill.faults.next("late_400")
    told = await door.ask(body_of(door, "f16"))
    assert told.status == 400
    assert text(told) == ("", "")
    await door.settled(leases=False)
