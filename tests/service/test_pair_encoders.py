"""The double of an encoder, and what a prefill worker holds against a front door that hands over embeddings wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from hashlib import sha256
from typing import Any

import httpx
import pytest

from tests.doubles.pair.cluster import Cluster, cluster
from tests.doubles.script import ask
from tests.doubles.server import Host
from tests.service.pairing import assert_answers, decode, new_id, prefill, prefill_body, text
from tests.service.talk import post


@pytest.fixture
def trio(host: Host) -> Iterator[Cluster]:
    with cluster(host, encoders=1) as trio:
        yield trio


def picture(name: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"https://pictures.example/{name}.png"}}


def question(trio: Cluster, key: str, *names: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": ask(key)}, *map(picture, names)]
    return {"model": trio.model, "stream": True, "messages": [{"role": "user", "content": parts}]}


def media_body(trio: Cluster, *names: str) -> dict[str, Any]:
    """An encode leg as the reference proxy sends it: media only, each with a uuid made of its content."""
    parts = [
        {**picture(name), "uuid": sha256(picture(name)["image_url"]["url"].encode()).hexdigest()} for name in names
    ]
    return {"model": trio.model, "stream": False, "messages": [{"role": "user", "content": parts}]}


async def encode(trio: Cluster, *names: str, **changes: Any) -> httpx.Response:
    body = {**media_body(trio, *names), **changes}
    return await post(trio.encoders[0].url, body, headers={"x-request-id": new_id()})


def rewritten(body: dict[str, Any], issued: dict[str, Any]) -> dict[str, Any]:
    """The prompt with each image replaced by what the encoder said of it."""
    leg = deepcopy(body)
    parts = leg["messages"][0]["content"]
    by_index = {i: entry for entry in issued.values() for i in entry["item_indices"]}
    for i in range(len(parts) - 1):
        url = parts[i + 1]["image_url"]["url"]
        uuid = sha256(url.encode()).hexdigest()
        parts[i + 1] = {"type": "image_embeds", "image_embeds": by_index[i]["metadata"], "uuid": uuid}
    return leg


def handles(issued: dict[str, Any]) -> dict[str, Any]:
    keys = ("peer_host", "peer_port", "transfer_id")
    return {mm_hash: {name: entry[name] for name in keys} for mm_hash, entry in issued.items()}


class TestARightSequence:
    async def test_tells_the_proof_of_prompt_and_pictures(self, trio: Cluster) -> None:
        body, request_id = question(trio, "e1", "cat", "dog"), new_id()
        issued = (await encode(trio, "cat", "dog")).json()["ec_transfer_params"]
        leg = rewritten(body, issued)
        first = {**prefill_body(leg), "ec_transfer_params": handles(issued)}
        params = (await prefill(trio, first, request_id)).json()["kv_transfer_params"]
        told = await decode(trio, {**leg, "kv_transfer_params": params}, request_id)
        assert_answers(told, trio, body)
        assert trio.key(body) != trio.key(question(trio, "e1", "dog", "cat")), "the order of pictures matters"
        await trio.settled(leases=False)

    async def test_what_it_gives_out_is_not_named_by_the_uuid(self, trio: Cluster) -> None:
        issued = (await encode(trio, "a", "b", "c")).json()["ec_transfer_params"]
        uuids = {part["uuid"] for part in media_body(trio, "a", "b", "c")["messages"][0]["content"]}
        assert not uuids & issued.keys()
        assert sorted(i for entry in issued.values() for i in entry["item_indices"]) == [0, 1, 2]
        assert set(handles(issued)) == set(issued)

    async def test_one_picture_twice_is_one_embedding(self, trio: Cluster) -> None:
        issued = (await encode(trio, "a", "a")).json()["ec_transfer_params"]
        assert [sorted(entry["item_indices"]) for entry in issued.values()] == [[0, 1]]

    async def test_the_processors_settings_make_another_embedding(self, trio: Cluster) -> None:
        plain = (await encode(trio, "a")).json()["ec_transfer_params"]
        other = (await encode(trio, "a", mm_processor_kwargs={"max_pixels": 9})).json()["ec_transfer_params"]
        assert plain.keys() != other.keys()


class TestAnEncodeLeg:
    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"stream": True}, "encode-streamed"),
            ({"messages": [{"role": "user", "content": "text"}]}, "encode-messages"),
            ({"messages": [{"role": "user", "content": [{"type": "text", "text": "t"}, picture("a")]}]}, "encode-text"),
            ({"messages": [{"role": "user", "content": [picture("a")]}]}, "no-uuid"),
            ({"messages": [{"role": "user", "content": [{**picture("a"), "uuid": "x"}] * 5}]}, "encode-limit"),
        ],
    )
    async def test_a_wrong_one_is_named(self, trio: Cluster, change: dict[str, Any], code: str) -> None:
        await encode(trio, "a", **change)
        trio.pardon(code)
        trio.encoders[0].violations.clear()

    async def test_a_uuid_must_come_of_the_content(self, trio: Cluster) -> None:
        for uuid in ("request-1", "request-2"):
            parts = [{**picture("a"), "uuid": uuid}]
            await encode(trio, messages=[{"role": "user", "content": parts}])
        trio.pardon("uuid-not-content")

    @pytest.mark.parametrize(("fault", "status"), [("status_500", 500), ("one_fails", 500), ("status_503", 503)])
    async def test_faults(self, trio: Cluster, fault: str, status: int) -> None:
        trio.encoders[0].faults.next(fault)
        assert (await encode(trio, "a", "b")).status_code == status

    async def test_an_item_may_come_back_without_metadata(self, trio: Cluster) -> None:
        trio.encoders[0].faults.next("no_metadata")
        issued = (await encode(trio, "a", "b")).json()["ec_transfer_params"]
        assert sorted(entry["metadata"] is None for entry in issued.values()) == [False, True]


class TestThePrefillLeg:
    async def test_raw_media_is_named(self, trio: Cluster) -> None:
        await prefill(trio, prefill_body(question(trio, "p1", "new")), new_id())
        trio.pardon("not-encoded")
        await encode(trio, "new")
        await prefill(trio, prefill_body(question(trio, "p1", "new")), new_id())
        trio.pardon("encoded-twice")

    async def test_raw_media_that_came_back_bare_is_right(self, trio: Cluster) -> None:
        trio.encoders[0].faults.next("no_metadata")
        await encode(trio, "bare")
        response = await prefill(trio, prefill_body(question(trio, "p2", "bare")), new_id())
        assert response.status_code == 200
        await trio.settled()

    async def test_an_embedding_is_good_once(self, trio: Cluster) -> None:
        body = question(trio, "p3", "cat")
        issued = (await encode(trio, "cat")).json()["ec_transfer_params"]
        leg = {**prefill_body(rewritten(body, issued)), "ec_transfer_params": handles(issued)}
        assert (await prefill(trio, leg, new_id())).status_code == 200
        assert (await prefill(trio, leg, new_id())).status_code == 500
        trio.pardon("embedding-lost")
        await trio.settled()

    async def test_an_embedding_waits_not_for_ever(self, trio: Cluster) -> None:
        body = question(trio, "p4", "cat")
        issued = (await encode(trio, "cat")).json()["ec_transfer_params"]
        trio.advance(61)
        leg = {**prefill_body(rewritten(body, issued)), "ec_transfer_params": handles(issued)}
        assert (await prefill(trio, leg, new_id())).status_code == 500
        trio.pardon("embedding-lost")

    async def test_without_its_handle_it_is_named(self, trio: Cluster) -> None:
        body = question(trio, "p5", "cat")
        issued = (await encode(trio, "cat")).json()["ec_transfer_params"]
        assert (await prefill(trio, prefill_body(rewritten(body, issued)), new_id())).status_code == 500
        trio.pardon("no-handle")
        trio.pardon("embedding-lost")

    async def test_metadata_of_another_item_is_named(self, trio: Cluster) -> None:
        body = question(trio, "p6", "cat")
        issued = (await encode(trio, "cat")).json()["ec_transfer_params"]
        leg = rewritten(body, issued)
        leg["messages"][0]["content"][1]["image_embeds"] = {"image_grid_thw": [9, 9, 9]}
        await prefill(trio, {**prefill_body(leg), "ec_transfer_params": handles(issued)}, new_id())
        trio.pardon("foreign-embedding")

    async def test_handles_at_decode_are_named(self, trio: Cluster) -> None:
        body, request_id = question(trio, "p7", "cat"), new_id()
        issued = (await encode(trio, "cat")).json()["ec_transfer_params"]
        leg = {**rewritten(body, issued), "ec_transfer_params": handles(issued)}
        params = (await prefill(trio, prefill_body(leg), request_id)).json()["kv_transfer_params"]
        told = await decode(trio, {**leg, "kv_transfer_params": params}, request_id)
        assert text(told)[0]
        trio.pardon("ec-on-decode")
