"""Two naive proxies before the doubles: they do what a demo shows, and fail every check named here. That is the proof
that the checks bite."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager

import httpx
import pytest

from tests.doubles.pair.cluster import Cluster, cluster
from tests.doubles.pair.front import front_door
from tests.doubles.pair.naive_sglang import naive_sglang
from tests.doubles.pair.naive_vllm import naive_vllm
from tests.doubles.server import PATIENCE, Host
from tests.service.pair_contract import Check, Door, checks_for

FAILURES = (AssertionError, httpx.HTTPError, TimeoutError)
SHORT = 3.0
"""Seconds to wait for what will not come."""
CUT_SHORT = "RemoteProtocolError"
IN_VAIN = "TimeoutError"
NAIVE_VLLM_FAILS = {
    "answers_unary_requests": "kv_transfer_params",
    "asks_prefill_for_one_token_whatever_the_limit": "prefill-tokens",
    "counts_cached_tokens_at_prefill": "== \\[7\\]",
    "decodes_nothing_alone_while_prefill_is_down": "500 in",
    "embeds_pictures_before_prefill": "AssertionError",
    "ends_a_broken_stream_once": CUT_SHORT,
    "ends_prefill_when_the_client_leaves": IN_VAIN,
    "gives_each_choice_a_hand_off": "Answer",
    "gives_each_prompt_a_hand_off": "500 == 200",
    "gives_no_decode_worker_bad_parameters": CUT_SHORT,
    "goes_on_without_a_decode_worker_that_is_down": CUT_SHORT,
    "hands_over_though_the_first_token_ends_the_text": "AssertionError",
    "passes_on_a_refusal_by_prefill": "500 == 400",
    "passes_on_back_pressure": "500 == 503",
    "prefills_anew_when_decode_fails": CUT_SHORT,
    "puts_right_an_address_only_prefill_knows": "'code': 500",
    "takes_a_floor_of_tokens_from_prefill": "500 == 200",
    "takes_no_hand_off_fields_from_a_client": "dangerous-field",
    "tells_nothing_of_the_inside": "remote_block_ids",
    "tries_another_prefill": "500 == 200",
}
"""By check: what its failure says."""
NAIVE_SGLANG_FAILS = {
    "aborts_both_legs_when_the_client_leaves": IN_VAIN,
    "aborts_the_decode_leg_when_prefill_fails": IN_VAIN,
    "answers_unary_requests": "not-streamed",
    "counts_cached_tokens_at_prefill": "== \\[7\\]",
    "decodes_nothing_alone_while_prefill_is_down": "500 in",
    "ends_a_broken_stream_once": CUT_SHORT,
    "ends_prefill_when_the_client_leaves": IN_VAIN,
    "gives_each_choice_a_hand_off": "Answer",
    "gives_each_prompt_a_hand_off": "bootstrap room",
    "goes_on_without_a_decode_worker_that_is_down": "500 == 200",
    "holds_decode_back_until_prefill_has_passed": "200 == 400",
    "names_its_legs_so_that_they_can_be_aborted": "0 >= 8",
    "passes_on_a_refusal_by_prefill": IN_VAIN,
    "passes_on_back_pressure": IN_VAIN,
    "takes_a_new_room_when_decode_fails": IN_VAIN,
    "takes_no_hand_off_fields_from_a_client": IN_VAIN,
    "tries_another_pair_when_prefill_fails": IN_VAIN,
    "uses_the_whole_range_of_rooms": ">= \\(2 \\*\\* 58\\)",
}
FAILS = {"nixl": NAIVE_VLLM_FAILS, "sglang": NAIVE_SGLANG_FAILS}


def door_to(made: Cluster) -> AbstractContextManager[str]:
    decodes = [worker.url for worker in made.decodes]
    if made.handoff == "sglang":
        return front_door(made.host, naive_sglang([(one.url, one.bootstrap.port) for one in made.prefills], decodes))
    return front_door(made.host, naive_vllm([one.url for one in made.prefills], decodes))


@pytest.mark.parametrize(
    ("handoff", "check"),
    [(handoff, check) for handoff in FAILS for check in checks_for(handoff)],
    ids=str,
)
async def test_a_naive_proxy_fails_what_is_listed_and_nothing_else(host: Host, handoff: str, check: Check) -> None:
    expected = FAILS[handoff].get(check.name)
    with cluster(host, handoff, **check.settings()) as made, door_to(made) as url:
        if expected is None:
            await check.run(Door(url, made))
            return
        with pytest.raises(FAILURES) as caught:
            await check.run(Door(url, made, SHORT if expected == IN_VAIN else PATIENCE))
        said = f"{caught.typename}: {caught.value}"
        assert re.search(expected, said), said
        for worker in made.workers:
            worker.violations.clear()


@pytest.mark.parametrize("handoff", FAILS)
def test_what_is_listed_exists(handoff: str) -> None:
    assert FAILS[handoff].keys() < {check.name for check in checks_for(handoff)}
