"""How a dialect's questions reach a worker outside the streaming path: over httpx, with an id of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.engines.capabilities import Ask
from gateway.pools.worker import Worker


def asker(client: httpx.AsyncClient, worker: Worker, patience: float) -> Ask:
    """`patience` in seconds. What is asked raises httpx.HTTPError where there is no answer."""

    async def ask(method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        headers = {REQUEST_ID: request_id(None)}
        answer = await client.request(method, f"{worker.url}{path}", json=body, headers=headers, timeout=patience)
        return answer.status_code, answer.content

    return ask
