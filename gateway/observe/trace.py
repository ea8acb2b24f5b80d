"""What a request's way through the gateway tells a tracer, and where a tracer comes from.

Off by default: then nothing of OpenTelemetry is imported, and a request does no more than ask whether there is one.

Moments, names from the config, numbers: no text of anybody's, no key, no request id that a client chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.config import Tracing


@dataclass(frozen=True, slots=True)
class Routed:
    """What was decided."""

    model: str
    route: str
    pool: str
    tier: str
    complexity: float
    cap: int | None
    how: str


@dataclass(frozen=True, slots=True)
class Landed:
    """How it ended. Tokens; `problem` is an error's code, empty where there is none."""

    outcome: str
    prompt: int
    completion: int
    reasoning: int
    legs: int
    ended_by: str | None
    status: int
    problem: str


class LegTrace(Protocol):
    """Of one generation."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What the engine is sent, so that its spans hang under this one (W3C trace context)."""
        ...

    def generates(self) -> None:
        """The first token has come."""
        ...

    def cut(self, reason: str) -> None:
        """A thought ends here."""
        ...

    def end(self, how: str) -> None:
        """Once or more; the first counts."""
        ...


class FlightTrace(Protocol):
    """Of one request."""

    def routed(self, routed: Routed) -> None: ...
    def leg(self, kind: str, worker: str, url: str, engine: str, model: str) -> LegTrace: ...
    def landed(self, landed: Landed) -> None: ...
    def refused(self, status: int, problem: str) -> None:
        """Answered with an error before any flight."""
        ...

    def end(self) -> None: ...


class Tracer(Protocol):
    """Of the process."""

    def begin(self, headers: Mapping[str, str]) -> FlightTrace:
        """A request has come, with these headers (names in lower case)."""
        ...

    def close(self) -> None:
        """Send what was not sent yet; some seconds at most. Blocks."""
        ...


class TracingUnavailable(Exception):
    """Traces are wanted and the extra is not installed; the message is one line for a person."""


def tracer_of(settings: Tracing) -> Tracer | None:
    """None where no endpoint is named. Raises TracingUnavailable."""
    if settings.endpoint is None:
        return None
    try:
        from gateway.observe.otel import OtelTracer  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise TracingUnavailable("`tracing.endpoint` needs the extra: pip install 'thinkgate[otel]'") from error
    return OtelTracer(settings)
