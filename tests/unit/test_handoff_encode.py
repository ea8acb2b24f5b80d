"""The encode stage against scripted encoders: what they are asked, and what the two legs are told of their answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.config import EngineKind
from gateway.config import Pool as PoolConfig
from gateway.edge.errors import ApiError
from gateway.pools import Pool
from gateway.pools.handoff import Encoding, TransferFailed
from gateway.pools.handoff.encode import TRIES
from gateway.pools.role import Role
from gateway.upstream import UpstreamError, UpstreamFault
from tests.scripted import ScriptedResponse, make_ready, refusal, reply
from tests.scriptedpair import HEADERS, Answer, PairedClient


def picture(name: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"https://x/{name}.png"}}


SOUND = {"type": "input_audio", "input_audio": {"data": "abc", "format": "wav"}}
TEXT = {"type": "text", "text": "what is it?"}


class Bench:
    """Encoders that know every item, if they are not told otherwise: `answers` are the next ones, of whichever."""

    def __init__(self, encoders: int = 1, batch: int = 4) -> None:
        urls = tuple(f"http://e{i}:1" for i in range(encoders))
        self.pool = Pool("pool", PoolConfig(model="m", engine=EngineKind.VLLM, workers=urls), role=Role.ENCODE)
        make_ready(self.pool)
        self.answers: list[Answer] = []
        self.clients: list[PairedClient] = []
        for worker in self.pool.workers:
            client = PairedClient(lambda asked: self.answers.pop(0) if self.answers else self.well(asked.body))
            worker.client, worker.departed = client, None
            self.clients.append(client)
        self.encoding = Encoding(self.pool, batch)

    def well(self, body: dict[str, Any]) -> ScriptedResponse:
        """Each item by its hash, in the reverse of their order, the same ones together."""
        told: dict[str, Any] = {}
        for index, part in reversed(list(enumerate(body["messages"][0]["content"]))):
            entry = told.setdefault(
                f"h-{part['uuid']}",
                {"modality": "image", "item_indices": [], "metadata": {"of": part["uuid"]}, "token": "t"},
            )
            entry["item_indices"].append(index)
        return reply({"ec_transfer_params": told})

    async def run(self, *parts: Any, **more: Any) -> tuple[list[Any], dict[str, Any]]:
        """The last message's parts as both legs see them, and what the prefill worker is told besides."""
        body = {"model": "m", "messages": [{"role": "user", "content": [TEXT, *parts]}], **more}
        shown, extra = await self.encoding.run(HEADERS, body)
        return shown["messages"][-1]["content"], extra

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [one.body for client in self.clients for one in client.asked]

    @property
    def is_quiet(self) -> bool:
        return not any(worker.in_flight for worker in self.pool.workers)


def uuids(parts: list[Any]) -> list[str | None]:
    """Of whom the embeddings in these places are, as their metadata says."""
    return [part["image_embeds"]["of"] if part["type"] == "image_embeds" else None for part in parts]


async def test_each_picture_gets_the_embeddings_that_are_its_own() -> None:
    bench = Bench()
    parts, extra = await bench.run(*(picture(str(i)) for i in range(10)))
    assert parts[0] == TEXT
    assert uuids(parts[1:]) == [part["uuid"] for part in parts[1:]]
    assert len(set(uuids(parts[1:]))) == 10
    assert set(extra["ec_transfer_params"]) == {f"h-{part['uuid']}" for part in parts[1:]}
    assert all(handle == {"token": "t"} for handle in extra["ec_transfer_params"].values())
    assert [len(body["messages"][0]["content"]) for body in bench.asked] == [4, 4, 2]
    assert bench.is_quiet


async def test_an_encoder_is_asked_for_pictures_and_nothing_else() -> None:
    bench = Bench()
    await bench.run(picture("a"), mm_processor_kwargs={"max_pixels": 9}, temperature=1, tools=[{}], stream=True)
    [body] = bench.asked
    assert set(body) == {"model", "messages", "stream", "max_tokens", "mm_processor_kwargs"}
    assert (body["stream"], body["max_tokens"]) == (False, 1)
    assert [part["type"] for part in body["messages"][0]["content"]] == ["image_url"]
    [asked] = bench.clients[0].asked
    assert asked.headers["x-request-id"].startswith("r-e")


async def test_the_same_picture_twice_is_one_embedding_in_two_places() -> None:
    parts, extra = await Bench().run(picture("a"), picture("b"), picture("a"))
    first, _, last = uuids(parts[1:])
    assert first == last
    assert len(extra["ec_transfer_params"]) == 2


async def test_sounds_go_one_by_one_and_pictures_together() -> None:
    bench = Bench()
    await bench.run(picture("a"), SOUND, picture("b"), {**SOUND, "uuid": "other"})
    groups = sorted([part["type"] for part in body["messages"][0]["content"]] for body in bench.asked)
    assert groups == [["image_url", "image_url"], ["input_audio"], ["input_audio"]]


async def test_the_same_picture_goes_to_the_same_encoder() -> None:
    bench = Bench(encoders=3)
    for _ in range(4):
        await bench.run(*(picture(str(i)) for i in range(9)))
    homes: dict[str, set[int]] = {}
    for number, client in enumerate(bench.clients):
        for one in client.asked:
            for part in one.body["messages"][0]["content"]:
                homes.setdefault(part["uuid"], set()).add(number)
    assert all(len(home) == 1 for home in homes.values())
    assert len({number for home in homes.values() for number in home}) > 1


async def test_a_picture_without_metadata_stays_as_it_is() -> None:
    bench = Bench()
    bench.answers = [
        reply({"ec_transfer_params": {"h": {"item_indices": [0], "metadata": {"of": "x"}}, "g": {"item_indices": [1]}}})
    ]
    parts, extra = await bench.run(picture("a"), picture("b"))
    assert (uuids(parts[1:]), parts[2]) == (["x", None], picture("b"))
    assert set(extra["ec_transfer_params"]) == {"h"}


async def test_a_sound_without_metadata_leaves_all_to_the_prefill_worker() -> None:
    """Its processor would take the places of the others for its own."""
    bench = Bench()
    bench.answers = [reply({"ec_transfer_params": {"h": {"item_indices": [0], "metadata": {"of": "x"}}}}), reply({})]
    parts, extra = await bench.run(picture("a"), SOUND)
    assert (parts, extra) == ([TEXT, picture("a"), SOUND], {})


@pytest.mark.parametrize(
    "told",
    [
        {"h": {"item_indices": [2], "metadata": {"of": "x"}}},
        {"h": {"item_indices": [-1], "metadata": {"of": "x"}}},
        {"h": {"item_indices": ["0"], "metadata": {"of": "x"}}},
        {"h": {"item_indices": [0], "metadata": {"of": "x"}}, "g": {"item_indices": [0], "metadata": {"of": "y"}}},
        {"of-nobody": {"metadata": {"of": "x"}}},
        {"of-nobody": "no object"},
    ],
)
async def test_an_answer_that_fits_no_item_is_not_used(told: dict[str, Any]) -> None:
    """Embeddings in the wrong place would be another picture's."""
    bench = Bench()
    bench.answers = [reply({"ec_transfer_params": told})]
    with pytest.raises(TransferFailed) as caught:
        await bench.run(picture("a"), picture("b"))
    assert (caught.value.error.status, caught.value.side) == (502, "encode")
    assert bench.is_quiet


async def test_items_may_be_named_by_their_uuid_or_be_alone() -> None:
    bench = Bench()
    bench.answers = [
        reply({"ec_transfer_params": {"mine": {"metadata": {"of": "x"}}, "yours": {"metadata": {"of": "y"}}}})
    ]
    parts, _ = await bench.run({**picture("a"), "uuid": "yours"}, {**picture("b"), "uuid": "mine"})
    assert uuids(parts[1:]) == ["y", "x"]
    bench.answers = [reply({"ec_transfer_params": {"some-hash": {"metadata": {"of": "z"}}}})]
    assert uuids((await bench.run(picture("a")))[0][1:]) == ["z"]


@pytest.mark.parametrize("failure", [UpstreamError(UpstreamFault.CLOSED, "broke off"), 500, 503])
async def test_epd38_an_encoder_that_fails_is_replaced_once(failure: Any) -> None:
    bench = Bench(encoders=3)
    bench.answers = [failure if isinstance(failure, UpstreamError) else refusal(failure)]
    parts, _ = await bench.run(picture("a"))
    assert uuids(parts[1:]) == [parts[1]["uuid"]]
    assert [len(client.asked) for client in bench.clients if client.asked] == [1] * TRIES
    bench.answers = [refusal(500)] * 9
    with pytest.raises(TransferFailed):
        await bench.run(picture("b"))
    assert len(bench.answers) == 9 - TRIES
    assert bench.is_quiet


async def test_what_a_client_did_wrong_is_not_tried_elsewhere() -> None:
    bench = Bench(encoders=2)
    bench.answers = [refusal(400, "no such picture")]
    with pytest.raises(TransferFailed) as caught:
        await bench.run(picture("a"))
    assert caught.value.error.status == 400
    assert len(bench.asked) == 1


async def test_nobody_to_encode_is_503_and_a_text_needs_nobody() -> None:
    bench = Bench()
    for worker in list(bench.pool.workers):
        bench.pool.remove(worker)
    with pytest.raises(ApiError) as caught:
        await bench.run(picture("a"))
    assert caught.value.status == 503
    assert (await bench.run())[1] == {}


async def test_epd39_one_group_at_a_time_and_the_rest_is_let_go_when_one_fails() -> None:
    bench = Bench()
    bench.answers = ["hang", refusal(400)]
    task = asyncio.create_task(bench.run(*(picture(str(i)) for i in range(8))))
    for _ in range(20):
        await asyncio.sleep(0)
    assert [worker.in_flight for worker in bench.pool.workers] == [1]
    assert len(bench.asked) == 1
    task.cancel()
    await asyncio.wait({task})
    for _ in range(20):
        await asyncio.sleep(0)
    assert bench.is_quiet
    assert asyncio.all_tasks() == {asyncio.current_task()}
