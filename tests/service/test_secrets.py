"""Secrets sent in every place a secret can stand, and then looked for in all that an operator can read.

Logs at `debug`, /metrics, traces as delivered, every /admin answer. What the engine is
sent is another matter: it gets the prompt, since that is its work.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.edge.keys import hash_key
from tests.doubles.collector import Collector, collecting
from tests.doubles.script import ask
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool

CANARY = "xyzzy-canary"
"""Part of each secret; where this is found, something has leaked."""
KEY, ADMIN = f"tg-{CANARY}-team", f"tg-{CANARY}-admin"
ENGINE_KEY = f"sk-{CANARY}-engine"
COLLECTOR_KEY = f"{CANARY}-collector"
ADMIN_PATHS = ("/admin/workers", "/admin/loops", "/readyz", "/livez", "/v1/models", "/openapi.json")


class House:
    """A gateway with all that could tell, and all that was sent there."""

    def __init__(self, gateway: Gateway, collector: Collector) -> None:
        self.gateway = gateway
        self.collector = collector

    async def send(self, method: str, path: str, content: bytes, **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.request(method, f"{self.gateway.url}{path}", content=content, headers=headers)


@pytest.fixture(params=["json", "pretty"])
def house(
    request: pytest.FixtureRequest, gateway: Callable[..., Gateway], host: Host, tmp_path: Path
) -> Iterator[House]:
    double = host.add(VllmDouble("s-model", api_key=ENGINE_KEY))
    with collecting() as collector:
        settings = config(
            {"vllm": pool(double, thinking={"native_cap": False})},
            keys=[
                {"alias": "team", "hash": hash_key(KEY)},
                {"alias": "boss", "hash": hash_key(ADMIN), "admin": True},
            ],
            logs={"format": request.param, "level": "debug", "loop_samples": 50},
            tracing={"endpoint": collector.url, "headers": {"x-key": COLLECTOR_KEY}},
        )
        yield House(gateway(settings).wait_workers(1), collector)
    host.remove(double)


def chat(text: str = "", **fields: Any) -> bytes:
    """A chat body with a secret in every field that travels."""
    body: dict[str, Any] = {
        "model": "s-model",
        "messages": [
            {"role": "system", "content": f"{CANARY} system"},
            {"role": "user", "content": f"{CANARY} user {text}"},
            {"role": "assistant", "content": f"{CANARY} said", "reasoning_content": f"{CANARY} thought"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": f"{CANARY}-call", "type": "function",
                 "function": {"name": "f", "arguments": json.dumps({"password": f"{CANARY} arguments"})}}]},
            {"role": "tool", "tool_call_id": f"{CANARY}-call", "content": f"{CANARY} result"},
            {"role": "user", "content": text or f"{CANARY} asks"},
        ],
        "user": f"{CANARY}-user",
        "metadata": {"secret": f"{CANARY} metadata"},
        "stop": [f"{CANARY} stop"],
        "stream": True,
    }  # fmt: skip
    return json.dumps({**body, **fields}).encode()


def sent() -> list[tuple[str, str, bytes, dict[str, str]]]:
    """(method, path, body, headers): what goes well, what goes wrong at the edge, in the engine and at the admin's."""
    team = {
        "authorization": f"Bearer {KEY}",
        "content-type": "application/json",
        "x-secret": f"{CANARY} header",
        "cookie": f"session={CANARY}",
        "tracestate": f"vendor={CANARY}",
        "baggage": f"secret={CANARY}",
        "user-agent": f"{CANARY}/1.0",
    }
    boss = {**team, "authorization": f"Bearer {ADMIN}"}
    chats = "/v1/chat/completions"
    return [
        ("POST", chats, chat(ask("well")), team),
        ("POST", chats, chat(ask("cut", think=60), thinking_budget=10), team),
        ("POST", chats, chat(ask("looping", think=600, loop_after=20)), team),
        ("POST", chats, chat(ask("unary"), stream=False), team),
        ("POST", chats, chat(ask("refused", status=400)), team),
        ("POST", chats, chat(ask("ill", error_after=6)), team),
        ("POST", chats, chat(ask("garbled", garbage_after=4, times=1)), team),
        ("POST", chats, chat(model=f"{CANARY}-model"), team),
        ("POST", chats, chat(thinking_budget=f"{CANARY}"), team),
        ("POST", chats, chat(stop={"bad": CANARY}), team),
        ("POST", chats, chat(messages=f"{CANARY}"), team),
        ("POST", chats, b'{"' + CANARY.encode() + b'": ', team),
        ("POST", chats, chat(), {**team, "authorization": f"Bearer {CANARY}-wrong"}),
        ("POST", chats, chat(), {**team, "authorization": f"Basic {CANARY}"}),
        ("POST", chats, chat(), {**team, "x-thinkgate-loops": CANARY}),
        ("PUT", chats, chat(), team),
        ("GET", f"/{CANARY}?key={CANARY}", b"", team),
        ("POST", "/v1/route", chat(), team),
        ("POST", "/v1/completions", json.dumps({"model": "s-model", "prompt": CANARY, "stream": True}).encode(), team),
        ("POST", "/v1/embeddings", json.dumps({"model": "s-model", "input": CANARY}).encode(), team),
        ("POST", "/v1/feedback", json.dumps({"request_id": CANARY, "verdict": CANARY}).encode(), team),
        ("POST", "/v1/feedback", json.dumps({"request_id": CANARY, "verdict": "good"}).encode(), team),
        ("GET", "/admin/workers", b"", team),
        ("POST", "/admin/workers", json.dumps({"pool": CANARY, "url": f"http://{CANARY}:1"}).encode(), boss),
        ("POST", "/admin/workers", json.dumps({"pool": "vllm", "url": f"http://u:{CANARY}@h:1"}).encode(), boss),
        ("POST", "/admin/workers/drain", json.dumps({"pool": "vllm", "worker": CANARY}).encode(), boss),
    ]


async def test_none_is_ever_told(house: House) -> None:
    statuses: set[int] = set()
    for method, path, body, headers in sent():
        statuses.add((await house.send(method, path, body, **headers)).status_code)
    assert {200, 400, 401, 403, 404, 405} <= statuses, "the ways out that were meant to be taken"
    await house.gateway.wait_grounded()
    boss = {"authorization": f"Bearer {ADMIN}"}
    answers = {path: (await house.send("GET", path, b"", **boss)).text for path in ADMIN_PATHS}
    answers["/metrics"] = (await house.send("GET", "/metrics", b"")).text
    assert "thinkgate_loops_total" in answers["/metrics"]
    await asyncio.to_thread(house.gateway.stop)
    log = house.gateway.log_text()
    for where, text in {**answers, "the log": log, "the traces": house.collector.raw.decode("latin-1")}.items():
        assert CANARY not in text.lower(), f"{where}: {text[max(0, text.lower().find(CANARY) - 300) :][:600]}"
    assert len(house.collector.spans) > 20
    flights = [line for line in log.splitlines() if "outcome" in line and "well" not in line]
    assert len(flights) >= 6, "one line a flight"
