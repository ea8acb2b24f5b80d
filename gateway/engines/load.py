"""How busy an engine says it is, in the words of each engine. Reading only; no engine's name but in its series."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

import msgspec

from gateway.engines.capabilities import Ask, fields_of

_SAMPLE = re.compile(rb"(?:\{([^}\n]*)\})?[ \t]+([^ \t\r\n]+)")
_LABEL = re.compile(rb'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Times:
    """Sums over all requests that an engine has finished, in seconds of requests: sixteen at once for a second are 16.
    vLLM books a request when it ends, and one that was aborted never (`OutputProcessor.process_outputs`, 0.32)."""

    queue: float
    prefill: float
    decode: float

    def since(self, before: Times) -> Times:
        """What has come since; all of it where the engine was started anew."""
        grown = Times(self.queue - before.queue, self.prefill - before.prefill, self.decode - before.decode)
        return self if min(grown.queue, grown.prefill, grown.decode) < 0 else grown


@dataclass(frozen=True, slots=True)
class Load:
    """All requests there, whoever sent them. `kv`: part of the KV cache in use (0..1); `capacity`: its size in tokens;
    `began`: when its process started, in seconds of Unix time. None where the engine does not say."""

    running: int
    waiting: int
    kv: float | None = None
    capacity: int | None = None
    began: float | None = None
    times: Times | None = None


BEGAN = "process_start_time_seconds"
"""The process collector of every Prometheus client; vLLM with one API server has it."""


@dataclass(frozen=True, slots=True)
class Series:
    """Under which names an engine's /metrics tells its load, newest first: releases have renamed some."""

    running: str
    waiting: str
    kv: Sequence[str] = ()
    capacity: Sequence[str] = ()
    info: str = ""
    """A gauge whose labels tell the size of the cache (vLLM)."""
    times: tuple[str, str, str] | None = None
    """Sums of the seconds that requests queued, were read and were answered (vLLM)."""


async def load_of_metrics(ask: Ask, series: Series) -> Load | None:
    """Over all series of a name (ranks, model names); None where there are none (SGLang without `--enable-metrics`)."""
    status, text = await ask("GET", "/metrics", None)
    if status != 200:
        return None
    text = b"\n" + text
    running = [value for _, value in _samples(text, series.running)]
    if not running:
        return None
    waiting = [value for _, value in _samples(text, series.waiting)]
    used = _first(text, series.kv)
    sizes = _first(text, series.capacity)
    if series.info:
        sizes = [float(_cache_size(labels)) for labels, _ in _samples(text, series.info)]
    return Load(
        running=round(sum(running)),
        waiting=round(sum(waiting)),
        kv=min(1.0, max(0.0, sum(used) / len(used))) if used else None,
        capacity=round(sum(sizes)) or None,
        began=max((value for _, value in _samples(text, BEGAN)), default=None),
        times=None if series.times is None else _times(text, series.times),
    )


async def load_of_loads(ask: Ask) -> Load | None:
    """SGLang's /v1/loads, over its data-parallel ranks; None where there is no such path."""
    told = fields_of(*await ask("GET", "/v1/loads", None)).get("loads")
    if not isinstance(told, list):
        return None
    ranks = [cast("dict[str, Any]", one) for one in cast("list[object]", told) if isinstance(one, dict)]
    if not ranks:
        return None
    used = [float(usage) for rank in ranks if isinstance(usage := rank.get("token_usage"), int | float)]
    return Load(
        running=_total(ranks, "num_running_reqs"),
        waiting=_total(ranks, "num_waiting_reqs"),
        kv=min(1.0, max(0.0, sum(used) / len(used))) if used else None,
        capacity=_total(ranks, "max_total_num_tokens") or None,
    )


async def load_of_slots(ask: Ask) -> Load | None:
    """llama-server's /slots: a slot is a share of its context, taken whole. Those who wait it does not tell here."""
    status, body = await ask("GET", "/slots", None)
    if status != 200:
        return None
    try:
        slots = msgspec.json.decode(body, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError):
        return None
    busy = sum(slot.get("is_processing") is True for slot in slots)
    return Load(busy, 0, kv=busy / len(slots) if slots else None, capacity=_total(slots, "n_ctx") or None)


def _total(rows: Sequence[dict[str, Any]], name: str) -> int:
    return sum(value for row in rows if isinstance(value := row.get(name), int))


def _samples(text: bytes, name: str) -> Iterator[tuple[bytes, float]]:
    """Labels and value of each series of this name. Found by a plain search: the text may be 200 kB of histograms."""
    wanted = b"\n" + name.encode()
    at = text.find(wanted)
    while at >= 0:
        found = _SAMPLE.match(text, at + len(wanted))
        if found is not None and (value := _number(found[2])) is not None:
            yield found[1] or b"", value
        at = text.find(wanted, at + len(wanted))


def labels_of(text: bytes, name: str) -> dict[str, str]:
    """The labels of the first series of this name."""
    for labels, _ in _samples(b"\n" + text, name):
        return {name.decode(): value.decode() for name, value in _LABEL.findall(labels)}
    return {}


def _first(text: bytes, names: Sequence[str]) -> list[float]:
    """The values of the first name that has any."""
    for name in names:
        if values := [value for _, value in _samples(text, name)]:
            return values
    return []


def _times(text: bytes, names: tuple[str, str, str]) -> Times | None:
    found = [[value for _, value in _samples(text, name)] for name in names]
    return Times(*(sum(values) for values in found)) if all(found) else None


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _cache_size(labels: bytes) -> int:
    """Tokens, as told, else blocks times their size (older releases of vLLM)."""
    told = {name: value for name, value in _LABEL.findall(labels) if value.isdigit()}
    if size := told.get(b"kv_cache_size_tokens"):
        return int(size)
    return int(told.get(b"num_gpu_blocks", b"0")) * int(told.get(b"block_size", b"0"))
