"""vLLM's encode stage: workers that turn a request's pictures and sounds into embeddings, before anybody prefills.

Each item goes to the encoder that its content names, whose cache may hold it. All must succeed. The prefill worker is
told where the embeddings lie; the decode worker only that there are some (vLLM's `disagg_epd_proxy.py`). Which is for
connectors from which the prefill worker fetches; those that push (`ECMooncakeConnector`) are not spoken here.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.pools.handoff.base import Place, Side, TransferFailed, ask_whole, senseless
from gateway.pools.handoff.media import Item, items_of, rewritten
from gateway.pools.meter import Bill
from gateway.pools.roster import Roster
from gateway.pools.worker import Worker
from gateway.query import encode_object

CHAT_PATH = "/v1/chat/completions"

ALIKE = ("mm_processor_kwargs", "media_io_kwargs")
"""What decides how an item is cut into patches, and so what its embeddings are."""

TRIES = 2
"""Encoders that are asked for an item: it is the same work again, and no client has seen anything."""

KNOWN = ("modality", "item_indices", "metadata")
"""What an encoder says of an item; all else is the handle by which it is fetched."""


@dataclass(frozen=True, slots=True)
class Found:
    """One item as an encoder has told of it."""

    item: Item
    mm_hash: str
    metadata: Mapping[str, Any] | None
    handle: Mapping[str, Any]


class Encoding:
    """Of one pool. `batch`: pictures in one request."""

    def __init__(self, encoders: Roster, batch: int, bill: Bill | None = None) -> None:
        self._encoders = encoders
        self._batch = batch
        self._bill = bill

    def billed(self, bill: Bill | None) -> Encoding:
        """The same, for one request: `bill` is its."""
        return Encoding(self._encoders, self._batch, bill)

    async def run(self, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The body with places for embeddings, and what the prefill worker is told besides. Raises TransferFailed, and
        ApiError (503) where no encoder is ready."""
        items = items_of(body["messages"])
        if not items:
            return body, {}
        whole = [found for group in await self._all(headers, body, items) for found in group]
        if any(found.metadata is None and found.item.modality == "audio" for found in whole):
            return body, {}  # the processor would take the places of the others for its own
        known = {found.item.place: (found.item, found.metadata) for found in whole if found.metadata is not None}
        handles = {found.mm_hash: dict(found.handle) for found in whole if found.item.place in known}
        shown = {**body, "messages": rewritten(body["messages"], known)}
        return shown, {"ec_transfer_params": handles} if handles else {}

    async def _all(self, headers: Mapping[str, str], body: dict[str, Any], items: Sequence[Item]) -> list[list[Found]]:
        """The first that fails fails all, and the others are let go."""
        turns: defaultdict[Worker, asyncio.Lock] = defaultdict(asyncio.Lock)
        tasks: list[asyncio.Task[list[Found]]] = []
        for number, (worker, group) in enumerate(self._groups(items)):
            own = {**headers, REQUEST_ID: f"{headers[REQUEST_ID][:110]}-e{number}"}
            asked = self._group(own, encode_object(_question(body, group)), group, worker, turns)
            tasks.append(asyncio.ensure_future(asked))
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    def _groups(self, items: Sequence[Item]) -> list[tuple[Worker, list[Item]]]:
        """Pictures for the same encoder go together, as many as it takes; sounds and films each by itself."""
        groups: list[tuple[Worker, list[Item]]] = []
        open_groups: dict[Worker, list[Item]] = {}
        for item in items:
            worker = self._encoders.pick(key=item.uuid)
            group = open_groups.get(worker)
            if item.modality == "image" and group is not None and len(group) < self._batch:
                group.append(item)
                continue
            groups.append((worker, [item]))
            if item.modality == "image":
                open_groups[worker] = groups[-1][1]
        return groups

    async def _group(
        self,
        headers: Mapping[str, str],
        question: bytes,
        items: list[Item],
        worker: Worker,
        turns: Mapping[Worker, asyncio.Lock],
    ) -> list[Found]:
        """Of one request an encoder has one group at a time: with all of them at once it would be too late for each
        (llm-d-router#1615)."""
        tried = [worker]
        while True:
            try:
                async with turns[worker]:
                    answer = await ask_whole(Place(worker, 0, self._bill), CHAT_PATH, headers, question, Side.ENCODE)
                return _matched(items, answer.ec_transfer_params or {}, worker)
            except TransferFailed as failed:
                is_clients = 400 <= failed.error.status < 500 and failed.error.status != 429
                if is_clients or len(tried) >= TRIES or not self._encoders.has_other(tried):
                    raise
            worker = self._encoders.pick(tried)
            tried.append(worker)


def _question(body: Mapping[str, Any], items: Sequence[Item]) -> dict[str, Any]:
    """The items and nothing else: an encoder reads no text."""
    parts = [{**item.part, "uuid": item.uuid} for item in items]
    kept = {name: body[name] for name in ALIKE if name in body}
    message = {"role": "user", "content": parts}
    return {"model": body["model"], "messages": [message], "stream": False, "max_tokens": 1, **kept}


def _matched(items: Sequence[Item], told: Mapping[str, Any], worker: Worker) -> list[Found]:
    """Which item each of the embeddings is of: by its place in the request, else by its name. An item of which nothing
    is told stays as it is. Raises TransferFailed on what fits no item, or one twice."""
    found: dict[int, Found] = {}
    for mm_hash, value in told.items():
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        for index in _indices(mm_hash, fields, items):
            if not 0 <= index < len(items) or index in found:
                raise senseless(Place(worker, 0), "The encode worker's answer fits no item.", Side.ENCODE)
            metadata = fields.get("metadata")
            known = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) and metadata else None
            handle = {name: one for name, one in fields.items() if name not in KNOWN}
            found[index] = Found(items[index], mm_hash, known, handle)
    return [found.get(index) or Found(item, "", None, {}) for index, item in enumerate(items)]


def _indices(mm_hash: str, fields: Mapping[str, Any], items: Sequence[Item]) -> list[int]:
    told = fields.get("item_indices")
    if isinstance(told, list) and told:
        return [index if isinstance(index, int) else -1 for index in cast("list[object]", told)]
    named = [index for index, item in enumerate(items) if item.uuid == mm_hash]
    return named or ([0] if len(items) == 1 else [-1])
