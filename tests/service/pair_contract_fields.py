"""Checks of a front door to a cluster: what is sent to which leg, and what comes back."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.doubles.script import ask, expected_answer
from tests.service.pair_contract import PULL, SGLANG, VLLM, Door, body_of, check, told_privately
from tests.service.pairing import says, text

CLIENTS_OWN: dict[str, Any] = {
    "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "10.0.0.9", "remote_block_ids": [[1]]},
    "ec_transfer_params": {"hash": {"peer_host": "10.0.0.9"}},
    "bootstrap_host": "10.0.0.9",
    "bootstrap_room": 7,
    "routed_dp_rank": 3,
    "disagg_prefill_dp_rank": 3,
    "encoder_urls": ["http://10.0.0.9"],
    "vllm_xargs": {"kv_transfer_params": {"do_remote_prefill": True}},
}


@check()
async def answers_with_the_proof(door: Door) -> None:
    """epd-bugs 2, 3, 43: the KV is handed over, and the legs are sent in the order of the hand-off."""
    await door.assert_right(body_of(door, "c1"))


@check()
async def keeps_many_apart(door: Door) -> None:
    """epd-bugs 1: nobody gets another's answer."""
    bodies = [body_of(door, f"c2-{i}") for i in range(24)]
    answers = await asyncio.gather(*(door.ask(body) for body in bodies))
    assert [text(told) for told in answers] == [says(door.cluster.key(body)) for body in bodies]
    await door.settled()


@check()
async def answers_unary_requests(door: Door) -> None:
    body = body_of(door, "c3", stream=False)
    response = await door.post(body)
    assert response.status_code == 200, response.text
    message = response.json()["choices"][0]["message"]
    thought = message.get("reasoning_content") or message.get("reasoning")
    assert (thought.strip(), message["content"].strip()) == says(door.cluster.key(body))
    door.cluster.assert_private(response.text)
    await door.settled()


@check()
async def tells_nothing_of_the_inside(door: Door) -> None:
    told_privately(door, await door.assert_right(body_of(door, "c4")))


@check()
async def takes_no_hand_off_fields_from_a_client(door: Door) -> None:
    """Refused, or taken out; never sent on."""
    for i, (name, value) in enumerate(CLIENTS_OWN.items()):
        body = body_of(door, f"c5-{i}")
        told = await door.ask({**body, name: value})
        assert told.status == 400 or text(told) == says(door.cluster.key(body)), (name, told.status)
    await door.settled()


@check(prefill={"cached": 7})
async def counts_cached_tokens_at_prefill(door: Door) -> None:
    """epd-bugs 41: decode says that nearly the whole prompt was cached."""
    told = await door.assert_right(body_of(door, "c6"))
    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in told.usages] == [7]


@check()
async def gives_each_choice_a_hand_off(door: Door) -> None:
    """epd-bugs 9, 21."""
    body = body_of(door, "c7")
    told = await door.ask({**body, "n": 3})
    said: dict[int, str] = {}
    for event in told.events:
        for choice in event.get("choices") or []:
            said[choice["index"]] = said.get(choice["index"], "") + (choice["delta"].get("content") or "")
    assert {index: answer.strip() for index, answer in said.items()} == dict.fromkeys(
        range(3), says(door.cluster.key(body))[1]
    )
    for role in ("prefill", "decode"):
        assert len({leg.request_id for leg in door.cluster.legs(role, "c7")}) == 3
    assert len(told.usages) == 1
    await door.settled()


@check()
async def gives_each_prompt_a_hand_off(door: Door) -> None:
    """epd-bugs 9: a list of prompts, answered in its order."""
    prompts = [ask(f"c8-{i}") for i in range(3)]
    body = {"model": door.cluster.model, "prompt": prompts, "max_tokens": 200}
    response = await door.post(body, "/v1/completions")
    assert response.status_code == 200, response.text
    choices = sorted(response.json()["choices"], key=lambda choice: choice["index"])
    expected = [expected_answer(door.cluster.key(body, i), "") for i in range(3)]
    assert [choice["text"].strip() for choice in choices] == expected
    await door.settled()


@check(*VLLM)
async def asks_prefill_for_one_token_whatever_the_limit(door: Door) -> None:
    """epd-bugs 3: `max_completion_tokens` comes before `max_tokens`."""
    await door.assert_right({**body_of(door, "c9"), "max_completion_tokens": 400})


@check(*VLLM)
async def takes_a_floor_of_tokens_from_prefill(door: Door) -> None:
    """epd-bugs 3."""
    await door.assert_right({**body_of(door, "c10"), "min_tokens": 4, "max_tokens": 400})


@check(*VLLM, prefill={"eos_first": True, "capped_only": True})
async def hands_over_though_the_first_token_ends_the_text(door: Door) -> None:
    """epd-bugs 3: `ignore_eos` and no stop at prefill, the client's stop at decode."""
    await door.assert_right({**body_of(door, "c11"), "stop": ["\u2603"]})
    assert [leg.json.get("stop") for leg in door.cluster.legs("decode", "c11")] == [["\u2603"]]


@check()
async def prefills_the_prompt_that_decode_reads(door: Door) -> None:
    """Tools, effort and template settings make the prompt."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    more = {"tools": tools, "tool_choice": "auto", "chat_template_kwargs": {"enable_thinking": True}, "seed": 3}
    await door.assert_right({**body_of(door, "c12"), **more})


@check(*PULL, prefill={"told_host": "localhost"})
async def puts_right_an_address_only_prefill_knows(door: Door) -> None:
    """`remote_host` of localhost is prefill's own. The front door is told where decode workers reach it."""
    await door.assert_right(body_of(door, "c13"))


@check(*PULL, encoders=1)
async def embeds_pictures_before_prefill(door: Door) -> None:
    """epd-bugs 38."""
    picture = {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}}
    content = [{"type": "text", "text": ask("c14")}, picture]
    await door.assert_right(
        {"model": door.cluster.model, "stream": True, "messages": [{"role": "user", "content": content}]}
    )
    assert len(door.cluster.encoders[0].encoded) == 1


@check(*PULL, encoders=1)
async def bothers_no_encoder_with_text(door: Door) -> None:
    await door.assert_right(body_of(door, "c15"))
    assert door.cluster.legs("encode") == []


@check(*SGLANG)
async def uses_the_whole_range_of_rooms(door: Door) -> None:
    """epd-bugs 49: 63 bits, so that no two meet."""
    await asyncio.gather(*(door.ask(body_of(door, f"c16-{i}")) for i in range(32)))
    rooms = door.cluster.decode.seen_rooms
    assert len(rooms) == len(set(rooms)) >= 32
    assert max(rooms) >= 2**58
    await door.settled()


@check(*SGLANG)
async def names_its_legs_so_that_they_can_be_aborted(door: Door) -> None:
    """One width, and never twice: an abort goes by prefix."""
    await asyncio.gather(*(door.ask(body_of(door, f"c17-{i}")) for i in range(8)))
    for worker in (door.cluster.prefill, door.cluster.decode):
        assert len(worker.rids) >= 8
        assert len(set(worker.rids)) == len(worker.rids)
        assert len({len(rid) for rid in worker.rids}) == 1
    await door.settled()


@check(*SGLANG)
async def reads_the_answer_of_prefill_to_its_end(door: Door) -> None:
    """epd-bugs 28."""
    await door.assert_right(body_of(door, "c18"))
    legs = door.cluster.legs("prefill", "c18")
    assert [leg.end for leg in legs] == ["finished"] * len(legs)
