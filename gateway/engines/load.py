"""How many requests an engine runs or holds waiting, in the words of each engine. Reading only."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, cast

import msgspec

from gateway.engines.capabilities import Ask, fields_of

_SAMPLE = re.compile(rb"^([A-Za-z_:][\w:]*)(?:\{[^}]*\})?\s+(\S+)", re.MULTILINE)


async def sum_of_metrics(ask: Ask, names: Collection[str]) -> int | None:
    """The sum of these gauges over all their series on /metrics; None where there are none (SGLang without
    `--enable-metrics`)."""
    status, text = await ask("GET", "/metrics", None)
    if status != 200:
        return None
    wanted = {name.encode() for name in names}
    found = [float(value) for name, value in _SAMPLE.findall(text) if name in wanted]
    return round(sum(found)) if found else None


async def sum_of_loads(ask: Ask) -> int | None:
    """SGLang's /v1/loads, over its data-parallel ranks."""
    told = fields_of(*await ask("GET", "/v1/loads", None)).get("loads")
    if not isinstance(told, list):
        return None
    ranks = [cast("dict[str, Any]", one) for one in cast("list[object]", told) if isinstance(one, dict)]
    counts = [rank.get(name) for rank in ranks for name in ("num_running_reqs", "num_waiting_reqs")]
    return sum(count for count in counts if isinstance(count, int))


async def busy_slots(ask: Ask) -> int | None:
    """llama-server's /slots."""
    status, body = await ask("GET", "/slots", None)
    if status != 200:
        return None
    try:
        slots = msgspec.json.decode(body, type=list[dict[str, Any]])
    except msgspec.DecodeError:
        return None
    return sum(slot.get("is_processing") is True for slot in slots)
