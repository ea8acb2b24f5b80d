"""What came of a leg, as far as its worker is to blame: the one place that tells a full engine from a broken one.

Peers count a 429 or a client's own 400 as a failure and shut out healthy workers for it. What follows from a verdict
is others' business: a pause (`roster`), the breaker (`breaker`), another attempt (`launch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.edge.errors import UNREACHABLE, ApiError, engine_failed, pause_asked
from gateway.upstream import UpstreamError, UpstreamFault


class Kind(StrEnum):
    SUCCESS = "success"
    """It generated to a clean end."""
    BACK_PRESSURE = "back_pressure"
    """It is well but full (429, 503): to be left alone for a moment, and never held against it."""
    CLIENT = "client"
    """The request was wrong (other 4xx): any worker would say so."""
    FAILURE = "failure"
    """The transport, another 5xx, an error event, an early end, silence."""
    NEUTRAL = "neutral"
    """It was not let finish: the client left, or the gateway cut it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`pause`: seconds the worker asked to be left alone for, 0 if it named none. `is_unreachable`: nobody listens
    there, so no engine has seen the request. `is_severed`: the connection broke, so no engine works on it now."""

    kind: Kind
    pause: float = 0.0
    is_unreachable: bool = False
    is_severed: bool = False


SUCCESS = Verdict(Kind.SUCCESS)
NEUTRAL = Verdict(Kind.NEUTRAL)


def judge(error: ApiError, headers: Mapping[str, str] | None = None) -> Verdict:
    """Of an engine's refusal, an error event or a broken stream, as the client is told of it; `headers` are the
    engine's own (names in lower case)."""
    if error.status in {429, 503}:
        return Verdict(Kind.BACK_PRESSURE, pause=pause_asked((headers or {}).get("retry-after")) or 0.0)
    if 400 <= error.status < 500:
        return Verdict(Kind.CLIENT)
    return Verdict(Kind.FAILURE, is_severed=error.code == UNREACHABLE)


def judge_transport(error: UpstreamError) -> Verdict:
    """Of a connection that failed, or could not be had. Our own limit of connections is back-pressure too."""
    if error.fault is UpstreamFault.CONNECT:
        return Verdict(Kind.FAILURE, is_unreachable=True)
    return judge(engine_failed(error))
