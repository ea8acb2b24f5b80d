"""Looking at a prefill worker's bootstrap server, which listens beside its API and may be dead while that is well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gateway.engines.capabilities import fields_of

Get = Callable[[str], Awaitable[tuple[int, bytes]]]
"""URL → (status, body). Raises what a failed connection raises."""


def bracketed(host: str) -> str:
    """As it stands in an address."""
    return f"[{host}]" if ":" in host else host


async def fields_at(get: Get, url: str) -> dict[str, Any]:
    """A JSON object that is answered with 200; empty for anything else."""
    return fields_of(*await get(url))
