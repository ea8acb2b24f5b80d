"""vLLM's NIXL connector as it pulls: first the prefill leg, whose answer says where the cache lies, then the other.

The dictionary travels as it came, unread but for what must be in it: a decode worker that is told to fetch and not told
from where hangs, or dies (vLLM 0.32 and 0.33, `nixl/pull_scheduler.py`). It is good for one leg only: a second fetch
may get another request's cache, and its answer (vllm#52234).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from gateway.confighandoff import PrefillWorker, loopback
from gateway.pools.handoff.base import Answer, Pair, TransferFailed, ask_whole, note_usage, senseless
from gateway.pools.handoff.look import Get
from gateway.pools.handoff.prompts import prefill_of
from gateway.pools.verdict import NEUTRAL, Verdict
from gateway.query import encode_object
from gateway.upstream import End, Response

OFFER = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""What the prefill leg carries (vLLM's example proxies)."""


LONG_LEASE = 60.0
"""Seconds. A cache that nobody fetches is left to its lease up to here; beyond, it is fetched to be freed."""


FULL = frozenset({429, 503})
"""What a decode worker answers that has not looked at the request. In any other case it may have fetched the cache, and
a second fetch could fill its prefix cache with another prompt's."""


class PullWay:
    """`lease`: seconds that a prefill worker keeps what nobody fetches."""

    can_be_local = True
    takes_strangers = True

    def __init__(self, lease: float) -> None:
        self._frees = lease > LONG_LEASE

    async def look(self, get: Get, source: PrefillWorker) -> str | None:
        return None

    def transfer(self, pair: Pair) -> Pull:
        return Pull(pair, frees=self._frees)


class Pull:
    """`frees`: is a cache that nobody has fetched to be fetched at the end, so that it is freed?"""

    def __init__(self, pair: Pair, *, frees: bool) -> None:
        self._source = pair.source
        self._place = pair.place
        self._decode = pair.decode
        self._errands = pair.errands if frees else None
        self._may_be_local = pair.may_be_local
        self._unfetched: tuple[str, dict[str, str], dict[str, Any]] | None = None
        self.has_asked = False
        self.report = pair.report

    async def post(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any], extra: Mapping[str, Any]
    ) -> Response:
        offer = {**prefill_of(body), **extra, "kv_transfer_params": OFFER}
        answer = await ask_whole(self._place, path, headers, encode_object(offer))
        self.has_asked = True
        self.report.prefilled = asyncio.get_running_loop().time()
        note_usage(self.report, answer)
        params = self._fetchable(answer)
        if params is None:
            self.report.is_missing = True
            if extra or not self._may_be_local():  # of what was encoded elsewhere a decode worker has only the place
                raise senseless(self._place, "The prefill worker has handed nothing off.")
            self.report.is_local = True
            return await self._decode.client.post(path, headers, encode_object(body))
        fetching = {**body, "kv_transfer_params": params}
        sent = asyncio.Event()
        try:
            response = await self._decode.client.post(path, headers, encode_object(fetching), sent)
        except BaseException:
            if not sent.is_set():
                self._unfetched = (path, dict(headers), fetching)
            raise
        if response.status in FULL:
            self._unfetched = (path, dict(headers), fetching)
        return response

    @property
    def failure(self) -> TransferFailed | None:
        return None

    async def confirm(self, *, strictly: bool = False) -> None:
        """The prefill leg was over before the decode leg began."""

    def blame(self, verdict: Verdict) -> None:
        self._place.leave(verdict, aborted=True)

    def end(self, how: End) -> None:
        self._place.leave(NEUTRAL)
        unfetched, self._unfetched = self._unfetched, None
        if unfetched is not None and self._errands is not None:
            path, headers, body = unfetched
            self._errands.send(self._decode, path, headers, {**prefill_of(body), **_params_of(body)})

    def _fetchable(self, answer: Answer) -> dict[str, Any] | None:
        """The dictionary, if a decode worker can follow it; else nothing was handed off."""
        params = answer.kv_transfer_params
        if params is None or not is_fetchable(params):
            return None
        host = params["remote_host"]
        decode_host = urlsplit(self._decode.url).hostname or ""
        if self._source.kv_host is not None or (loopback(host) and not loopback(decode_host)):
            return {**params, "remote_host": self._source.host}
        return params


def _params_of(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"kv_transfer_params": body["kv_transfer_params"]}


def is_fetchable(params: Mapping[str, Any]) -> bool:
    """Is all in it that vLLM's scheduler takes for given?"""
    port = params.get("remote_port")
    words = (params.get(name) for name in ("remote_engine_id", "remote_request_id", "remote_host"))
    return (
        params.get("do_remote_prefill") is True
        and _has_blocks(params.get("remote_block_ids"))
        and all(isinstance(word, str) and word for word in words)
        and isinstance(port, int)
        and not isinstance(port, bool)
    )


def _has_blocks(found: object) -> bool:
    """A list of lists, one for each group of layers, or the flat list of older releases; and something in it."""
    if not isinstance(found, list) or not found:
        return False
    groups = cast("list[object]", found)
    return not any(isinstance(group, list) for group in groups) or any(group for group in groups)
