"""A vLLM that encodes images and sounds for a prefill worker, and what it gives out for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from secrets import token_hex
from time import time
from typing import Any, ClassVar, Final

from tests.doubles.engine import Refused, answer_json, dumps
from tests.doubles.exchange import Exchange
from tests.doubles.pair.fabric import KVFabric, Member
from tests.doubles.pair.faults import ENCODE, Faults, strike
from tests.doubles.pair.prompt import RAW, content_of, parts_of
from tests.doubles.server import Wire
from tests.doubles.vllm import VllmDouble

KEPT: Final = 60.0
"""Seconds an embedding waits for its consumer."""


@dataclass(eq=False, slots=True)
class Encoding:
    """One item, encoded: what the consumer is told of it, and the tokens with which it may be fetched, once each."""

    uuid: str
    content: str
    mm_hash: str
    modality: str
    mark: str
    """What a model knows that has seen it."""
    metadata: dict[str, Any] | None
    waiting: set[str] = field(default_factory=set[str])

    def take(self, handle: dict[str, Any]) -> bool:
        """Fetched by the consumer, if this handle is good and was not used."""
        token = handle.get("transfer_id")
        fits = token in self.waiting
        self.waiting.discard(str(token))
        return fits


class FakeEncoder(Member, VllmDouble):
    """`limit`: its --limit-mm-per-prompt."""

    role: ClassVar[str] = "encode"
    speaks: ClassVar[bool] = False
    streamed: ClassVar[bool] = False

    def __init__(
        self, fabric: KVFabric, model: str = "double", *, limit: int = 4, faults: Faults | None = None, **more: Any
    ) -> None:
        super().__init__(model, **more)
        self.join(fabric)
        self.limit = limit
        self.faults = faults or Faults(ENCODE)
        self.encoded: list[str] = []
        """Contents it encoded, in order."""
        self._shuffle = Random(7)

    async def _completions(self, exchange: Exchange, wire: Wire) -> None:
        self.violate("encode-path", exchange.path)
        raise Refused(400, "an encoder has no text")

    async def _chat(self, exchange: Exchange, wire: Wire) -> None:
        body = exchange.json
        items = parts_of(body)
        self._check(body, items)
        if not items or any(item.get("type") not in RAW for item in items):
            raise Refused(400, "no media in the request")
        fault = self.faults.draw()
        if await strike(fault, exchange, wire):
            return
        if fault == "one_fails" and len(items) > 1:
            raise Refused(500, f"item {len(items) - 1} could not be encoded")
        told: dict[str, Any] = {}
        issued = list(enumerate(items))
        self._shuffle.shuffle(issued)
        for i, item in issued:
            encoding = self._encode(body, item, bare=fault == "no_metadata" and i == 0)
            if encoding.mm_hash not in told:
                told[encoding.mm_hash] = {"modality": encoding.modality, "item_indices": [], **self._offer(encoding)}
            told[encoding.mm_hash]["item_indices"].append(i)
        await answer_json(wire, self._answer(exchange, told))

    def _check(self, body: dict[str, Any], items: list[dict[str, Any]]) -> None:
        messages = body.get("messages") or []
        if len(messages) != 1 or messages[0].get("role") != "user" or not isinstance(messages[0].get("content"), list):
            self.violate("encode-messages", "one user message with parts, nothing else")
        if body.get("stream"):
            self.violate("encode-streamed", "an encoder answers once")
        if extra := {item.get("type") for item in items} - RAW:
            self.violate("encode-text", f"{sorted(map(str, extra))} are not for an encoder")
        if len(items) > self.limit:
            self.violate("encode-limit", f"{len(items)} items, and the limit is {self.limit}")
            raise Refused(400, f"At most {self.limit} image(s) may be provided in one prompt.")
        kinds = {item["type"] for item in items if item.get("type") in RAW}
        if len(items) > 1 and kinds != {"image_url"}:
            self.violate("encode-grouped", f"{sorted(kinds)}: audio and video go one by one")
        for item in items:
            if item.get("type") not in RAW:
                continue
            content, uuid = content_of(item), item.get("uuid")
            if not uuid:
                self.violate("no-uuid", item["type"])
            elif self.fabric.uuids.setdefault(content, uuid) != uuid:
                self.violate("uuid-not-content", f"{uuid}, and {self.fabric.uuids[content]} before for the same item")

    def _encode(self, body: dict[str, Any], item: dict[str, Any], *, bare: bool) -> Encoding:
        uuid, content = item.get("uuid") or content_of(item), content_of(item)
        mm_hash = sha256(f"{uuid}|{dumps(body.get('mm_processor_kwargs'))}".encode()).hexdigest()
        modality = "audio" if "audio" in item["type"] else item["type"].removesuffix("_url")
        side = int(content[:2], 16) % 30 + 2
        metadata = None if bare else {f"{modality}_grid_thw": [1, side, side]}
        mark = self.fabric.mark(f"seen.{content}")
        encoding = self.fabric.encodings.setdefault(mm_hash, Encoding(uuid, content, mm_hash, modality, mark, metadata))
        encoding.metadata = metadata
        self.encoded.append(content)
        return encoding

    def _offer(self, encoding: Encoding) -> dict[str, Any]:
        """What the consumer needs, with a token that is good once and not for long."""
        token = token_hex(16)
        encoding.waiting.add(token)
        self.fabric.clock.after(KEPT, lambda: encoding.waiting.discard(token))
        return {"metadata": encoding.metadata, "peer_host": "127.0.0.1", "peer_port": 5_601, "transfer_id": token}

    def _answer(self, exchange: Exchange, told: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": None, "reasoning": None}
        choice = {"index": 0, "message": message, "finish_reason": "length", "stop_reason": None}
        head = {"id": f"chatcmpl-{exchange.request_id}", "object": "chat.completion", "created": int(time())}
        usage = {"prompt_tokens": 1, "total_tokens": 1, "completion_tokens": 0}
        more = {"usage": usage, "kv_transfer_params": None, "ec_transfer_params": told}
        return {**head, "model": self.model, "choices": [choice], **more}
