"""Both legs of a pair written by hand, field by field as the protocol has them: what a right front door sends."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from uuid import uuid4

import httpx

from tests.doubles.pair.cluster import Cluster
from tests.doubles.script import expected_answer, thought
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, Metrics, config, pool
from tests.service.talk import Stream, chat, post, stream

OFFER: dict[str, Any] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""What a NIXL prefill leg carries."""
CHAT = "/v1/chat/completions"


def question(cluster: Cluster, key: str, **more: Any) -> dict[str, Any]:
    return chat(cluster.model, key, **more)


def new_id() -> str:
    return str(uuid4())


def prefill_body(body: dict[str, Any], params: dict[str, Any] | None = None) -> dict[str, Any]:
    """The client's body as a prefill leg of vLLM: one token, unary, nothing that could end it sooner."""
    leg = deepcopy(body)
    for name in ("stream_options", "min_tokens", "stop", "stop_token_ids", "logprobs", "top_logprobs", "n"):
        leg.pop(name, None)
    if "max_completion_tokens" in leg:
        leg["max_completion_tokens"] = 1
    return {**leg, "stream": False, "max_tokens": 1, "ignore_eos": True, "kv_transfer_params": params or OFFER}


async def prefill(
    cluster: Cluster, body: dict[str, Any], request_id: str, *, worker: int = 0, path: str = CHAT, **headers: str
) -> httpx.Response:
    return await post(cluster.prefills[worker].url, body, path, {"x-request-id": request_id, **headers})


async def decode(cluster: Cluster, body: dict[str, Any], request_id: str, *, worker: int = 0) -> Stream:
    return await stream(cluster.decodes[worker].url, body, {"x-request-id": request_id})


async def pull(cluster: Cluster, body: dict[str, Any]) -> Stream:
    """NIXL: prefill, then decode with what it gave."""
    request_id = new_id()
    response = await prefill(cluster, prefill_body(body), request_id)
    return await decode(cluster, {**body, "kv_transfer_params": response.json()["kv_transfer_params"]}, request_id)


async def push(cluster: Cluster, body: dict[str, Any]) -> Stream:
    """NIXL push: both at once, matched by the request id."""
    request_id, (worker, *_) = new_id(), [one for one in cluster.addresses if one["role"] == "prefill"]
    params = {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "remote_engine_id": worker["engine_id"],
        "remote_host": worker["kv_host"],
        "remote_port": worker["kv_port"],
        "remote_request_id": request_id,
        "tp_size": 1,
        "pp_size": 1,
    }
    legs = (
        prefill(cluster, prefill_body(body), request_id),
        decode(cluster, {**body, "kv_transfer_params": params}, request_id),
    )
    response, told = await asyncio.gather(*legs)
    assert response.status_code == 200
    return told


async def mooncake(cluster: Cluster, body: dict[str, Any], rank: int = 0) -> Stream:
    """Mooncake: both at once, matched by a transfer id, to one rank of the prefill worker."""
    request_id, transfer = new_id(), f"xfer-{new_id()}"
    bootstrap = cluster.prefill.bootstrap
    async with httpx.AsyncClient() as client:
        ranks = (await client.get(f"{bootstrap.url}/query")).json()
    offer = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer}
    params = {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "remote_bootstrap_addr": bootstrap.url,
        "remote_engine_id": ranks[str(rank)]["engine_id"],
        "transfer_id": transfer,
    }
    response, told = await asyncio.gather(
        prefill(cluster, prefill_body(body, offer), request_id, **{"x-data-parallel-rank": str(rank)}),
        decode(cluster, {**body, "kv_transfer_params": params}, request_id),
    )
    assert response.status_code == 200
    return told


def room_of(cluster: Cluster, *, worker: int = 0) -> dict[str, Any]:
    """Host, port and a new room at this prefill worker, and an id to abort by."""
    one = cluster.prefills[worker]
    room = secrets.randbits(63)
    return {
        "bootstrap_host": one.kv_host,
        "bootstrap_port": one.bootstrap.port,
        "bootstrap_room": room,
        "rid": uuid4().hex,
    }


async def room(cluster: Cluster, body: dict[str, Any]) -> Stream:
    """SGLang: the same body to both at once."""
    both = {**body, **room_of(cluster)}
    headers = {"x-request-id": new_id()}
    _, told = await asyncio.gather(
        stream(cluster.prefill.url, both, headers), stream(cluster.decode.url, both, headers)
    )
    return told


RIGHT = {"nixl": pull, "nixl-push": push, "mooncake": mooncake, "sglang": room}
"""By hand-off: a right sequence, to its answer."""


def text(told: Stream) -> tuple[str, str]:
    """Thought and answer, in whichever field the engine puts the thought."""
    said = [delta.get("reasoning") or delta.get("reasoning_content") or "" for delta in told.deltas]
    return "".join(said).strip(), told.answer.strip()


def says(key: str, think: int = 24) -> tuple[str, str]:
    """Thought and answer of this key."""
    return thought(key, think), expected_answer(key, thought(key, think))


def assert_answers(told: Stream, cluster: Cluster, body: dict[str, Any]) -> None:
    assert told.status == 200, told.body
    assert told.errors == []
    assert text(told) == says(cluster.key(body))
    assert told.done


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


def pool_of(made: Cluster, **settings: Any) -> dict[str, Any]:
    """A pool of the gateway's with these workers in their roles. `settings` are keys of a pool, nested dicts merged."""
    by_role = {role: [one for one in made.addresses if one["role"] == role] for role in ("prefill", "encode")}
    names = {"kv_port": "side_channel_port"}
    prefill = [
        {names.get(name, name): value for name, value in one.items() if name != "role"} for one in by_role["prefill"]
    ]
    apart = {
        "handoff": made.handoff,
        "prefill": prefill,
        "encode": [one["url"] for one in by_role["encode"]],
        "local_below": 0,  # the prompts of tests are short
    }
    return pool(
        *made.decodes,
        **{
            "thinking": {"native_cap": False},
            **settings,
            "disaggregation": {**apart, **settings.pop("disaggregation", {})},
        },
    )


@contextmanager
def before(
    served: Gateway, unified: VllmDouble, made: Cluster, *, ready: int | None = None, **settings: Any
) -> Iterator[Gateway]:
    """The gateway before this cluster for the length of a block, all of whose workers are ready, or so many of them."""
    served.reconfigure(config({"unified": pool(unified), "apart": pool_of(made, **settings)}))
    served.wait_workers(1 + (len(made.workers) if ready is None else ready))
    try:
        yield served
    finally:
        served.reconfigure(config({"unified": pool(unified)}))
        served.wait_workers(1)
