"""What is made of any request for a hand-off: the prompt stays the same, and nothing strange is followed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.pools.handoff.media import items_of, rewritten
from gateway.pools.handoff.prompts import ALONE, DROPPED, prefill_of, wants_one_worker
from gateway.pools.handoff.pull import is_fetchable
from tests.doubles.pair.legs import check_params, check_prefill
from tests.doubles.pair.prompt import SAME
from tests.scriptedpair import PARAMS

ODD: list[Any] = [None, True, False, 0, 1, -1, 7, 2.5, "", "x", [], [1], [[]], [[1], []], ["x"], {}, {"a": 1}]
JSON = (
    st.sampled_from(ODD)
    | st.integers()
    | st.text("ab\u00e9\ud83d", max_size=4)
    | st.lists(st.sampled_from(ODD), max_size=3)
)
OUTPUT = ["max_tokens", "max_completion_tokens", "stream", "n", "ignore_eos"]
FIELDS = sorted({*SAME, *DROPPED, *OUTPUT, "temperature", "seed", "response_format", "some_new_field"})
BODIES = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=12)


@given(BODIES)
def test_a_prefill_leg_has_the_same_prompt_and_one_token(body: dict[str, Any]) -> None:
    before = json.dumps(body)
    leg = prefill_of(body)
    assert json.dumps(body) == before, "the decode leg's body is another one"
    assert {name: leg[name] for name in SAME if name in leg} == {name: body[name] for name in SAME if name in body}
    changed = {*DROPPED, *OUTPUT}
    others = {name: value for name, value in body.items() if name not in changed}
    assert {name: value for name, value in leg.items() if name not in changed} == others
    assert (leg["stream"], leg["max_tokens"], leg["ignore_eos"]) == (False, 1, True)
    assert leg.get("max_completion_tokens", 1) == 1
    assert leg.get("n", 1) == 1
    assert not DROPPED & leg.keys()
    offer = {"do_remote_decode": True, "do_remote_prefill": False}
    assert not list(check_prefill(leg, offer, "nixl")), "a real worker would take it"
    assert prefill_of(leg) == leg


@given(st.dictionaries(st.sampled_from(sorted(ALONE)) | st.text("abc", max_size=5), JSON))
def test_what_only_one_worker_can_answer_is_named(body: dict[str, Any]) -> None:
    named = wants_one_worker(body)
    assert named in ALONE if any(body.get(name) for name in ALONE) else named is None


@given(st.dictionaries(st.sampled_from(sorted(PARAMS)), JSON).map(lambda changes: {**PARAMS, **changes}) | JSON)
def test_epd8_what_is_followed_has_all_that_a_decode_worker_takes_for_given(params: Any) -> None:
    if not isinstance(params, dict):
        return
    if not is_fetchable(params):
        assert params != PARAMS
        return
    assert params["do_remote_prefill"] is True
    assert all(params[name] and isinstance(params[name], str) for name in WORDS)
    assert type(params["remote_port"]) is int
    blocks = params["remote_block_ids"]
    assert [block for group in blocks for block in (group if isinstance(group, list) else [group])]
    wrong = {code for code, _ in check_params(params, "nixl")}
    assert not wrong & {"engine-killed", "params-incomplete"}


WORDS = ("remote_engine_id", "remote_request_id", "remote_host")


@given(
    st.sampled_from(sorted(PARAMS.keys() - {"tp_size", "do_remote_decode"})),
    st.sampled_from([None, "", 0, [], {}, False]),
)
def test_epd8_without_one_of_them_nothing_is_followed(name: str, value: Any) -> None:
    assert is_fetchable(PARAMS)
    assert not is_fetchable({key: one for key, one in PARAMS.items() if key != name})
    if name != "remote_port" or type(value) is not int:  # port 0 is a number: what it means is the engine's
        assert not is_fetchable({**PARAMS, name: value})


def test_epd8_empty_groups_are_no_blocks_and_flat_lists_of_older_releases_are() -> None:
    for blocks, has_some in (([[]], False), ([[], []], False), ([[], [4]], True), ([4, 5], True)):
        assert is_fetchable({**PARAMS, "remote_block_ids": blocks}) is has_some


PARTS = st.one_of(
    st.sampled_from(["cat", "dog", "owl"]).map(
        lambda name: {"type": "image_url", "image_url": {"url": f"https://x/{name}"}}
    ),
    st.sampled_from(["a", "b"]).map(
        lambda data: {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    ),
    st.sampled_from(["c"]).map(lambda name: {"type": "video_url", "video_url": {"url": name}}),
    st.text("abc", max_size=5).map(lambda text: {"type": "text", "text": text}),
    JSON,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.just("user"), "content": st.lists(PARTS, max_size=5) | st.text("abc", max_size=5) | st.none()}
    ),
    max_size=4,
)


@given(MESSAGES, st.data())
def test_every_item_is_found_in_its_place_and_put_back_there(
    messages: list[dict[str, Any]], data: st.DataObject
) -> None:
    items = items_of(messages)
    assert [item.place for item in items] == sorted(item.place for item in items)
    for one in items:
        assert messages[one.place[0]]["content"][one.place[1]] == one.part
        same = [other for other in items if other.part == one.part]
        assert len({other.uuid for other in same}) == 1
    known = [item for item in items if data.draw(st.booleans())]
    told = rewritten(messages, {item.place: (item, {"grid": [[1, 2], [3]]}) for item in known})
    for number, message in enumerate(messages):
        for index, part in enumerate(message["content"] if isinstance(message["content"], list) else ()):
            found = [item for item in known if item.place == (number, index)]
            if not found:
                assert told[number]["content"][index] == part
                continue
            kind = f"{found[0].modality}_embeds"
            assert told[number]["content"][index] == {"type": kind, kind: {"grid": [1, 2, 3]}, "uuid": found[0].uuid}


def test_another_picture_has_another_name_and_a_clients_own_name_counts() -> None:
    def part(url: str, **more: Any) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": url}, **more}

    def names(*parts: dict[str, Any]) -> list[str]:
        return [item.uuid for item in items_of([{"role": "user", "content": list(parts)}])]

    one, other, again, own = names(part("a"), part("b"), part("a", detail="high"), part("a", uuid="mine"))
    assert one == again != other
    assert own == "mine"
