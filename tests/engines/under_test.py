"""An engine under test, looked at behind the gateway's back: is it idle, what has it generated, what are its tokens."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, ClassVar, Final

import httpx

from tests.harness import LOOK_AGAIN, Metrics

TURN_ENDS: Final = ("<|im_end|>", "<|endoftext|>", "<|im_start|>")
IDLE: Final = 3.0
"""Seconds after which an engine without requests must say so."""


class Engine:
    """What both have in common. `ready` once the gateway knows its address."""

    kind: str
    generated: str
    """The counter of tokens that it has generated, those of abandoned requests with them."""
    cold: ClassVar[dict[str, Any]] = {}
    """Fields for an answer that does not depend on what the engine has in its cache."""
    is_bare = False
    """Does it leave it to the gateway to find the thought in its text?"""

    def __init__(self, url: str) -> None:
        self.url = url

    async def running(self) -> float:
        raise NotImplementedError

    async def tokenize(self, text: str) -> list[int]:
        raise NotImplementedError

    async def never(self, *markers: str) -> dict[str, Any]:
        """Fields that keep a model from saying any of these."""
        ids = {one for marker in markers for one in await self.tokenize(marker)}
        return {"logit_bias": {str(one): -100 for one in sorted(ids)}}

    async def metrics(self) -> Metrics:
        return Metrics((await self.get("/metrics")).text)

    async def until(self, running: int, patience: float) -> None:
        """Until it runs so many requests."""
        deadline = monotonic() + patience
        while (found := await self.running()) != running:
            assert monotonic() < deadline, f"it runs {found} requests after {patience} s, not {running}"
            await asyncio.sleep(LOOK_AGAIN)

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=30) as client:
            return (await client.get(f"{self.url}{path}")).raise_for_status()

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with httpx.AsyncClient(timeout=60) as client:
            answer: dict[str, Any] = (await client.post(f"{self.url}{path}", json=body)).raise_for_status().json()
            return answer


class Vllm(Engine):
    kind = "vllm"
    generated = "vllm:generation_tokens_total"

    def __init__(self, url: str, *, parser: bool) -> None:
        super().__init__(url)
        self.is_bare = not parser
        self.model: str = httpx.get(f"{url}/v1/models").json()["data"][0]["id"]

    async def running(self) -> float:
        return (await self.metrics()).value("vllm:num_requests_running")

    async def tokenize(self, text: str) -> list[int]:
        return (await self.post("/tokenize", {"model": self.model, "prompt": text, "add_special_tokens": False}))[
            "tokens"
        ]

    async def block(self) -> int:
        """Tokens in a block of its KV cache."""
        samples = (await self.metrics()).samples
        return next(int(labels["block_size"]) for name, labels, _ in samples if name == "vllm:cache_config_info")


class Llama(Engine):
    """llama.cpp's server; here the gateway's own embedded one."""

    kind = "embedded"
    generated = "llamacpp:tokens_predicted_total"
    cold: ClassVar[dict[str, Any]] = {"cache_prompt": False}

    async def running(self) -> float:
        slots: list[dict[str, Any]] = (await self.get("/slots")).json()
        return sum(slot["is_processing"] for slot in slots)

    async def tokenize(self, text: str) -> list[int]:
        return (await self.post("/tokenize", {"content": text, "add_special": False, "parse_special": True}))["tokens"]
