"""Spans of a request over OpenTelemetry: chat → route, queue, leg (prefill, decode, a cut as its event), continuation.

Attributes follow the GenAI conventions (github.com/open-telemetry/semantic-conventions-genai, status Development) where
they have a name, else `thinkgate.*`. No content: not a prompt, not an answer, not a header's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns
from typing import Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from gateway import __version__
from gateway.config import Tracing
from gateway.observe.trace import Landed, Routed

EXPORT_PATIENCE: Final = 5
"""Seconds for one delivery to the collector, off the event loop."""

CONTINUES: Final = frozenset({"first", "retry"})
"""Kinds of legs that do not go on from another one."""

W3C: Final = TraceContextTextMapPropagator()


class OtelTracer:
    """Sends batches from a thread of its own; a collector that is down costs spans, never a request."""

    def __init__(self, settings: Tracing) -> None:
        assert settings.endpoint is not None
        headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample)),
            resource=Resource.create({"service.name": settings.service, "service.version": __version__}),
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=settings.endpoint, headers=headers, timeout=EXPORT_PATIENCE)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("thinkgate", __version__)

    def begin(self, headers: Mapping[str, str]) -> OtelFlight:
        # A malformed `traceparent` starts a trace of its own, as W3C asks.
        carrier = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        return OtelFlight(self._tracer, W3C.extract(carrier, Context()))

    def close(self) -> None:
        self._provider.shutdown()


class OtelFlight:
    """A request's span, and those under it."""

    def __init__(self, tracer: trace.Tracer, parent: Context) -> None:
        self._tracer = tracer
        self._root = tracer.start_span("chat", parent, SpanKind.SERVER)
        self._root.set_attribute("gen_ai.operation.name", "chat")
        self._under = trace.set_span_in_context(self._root, Context())
        self._route = tracer.start_span("route", self._under)
        self._waits_since: int | None = None

    def routed(self, routed: Routed) -> None:
        self._root.update_name(f"chat {routed.model}")
        decided: dict[str, AttributeValue] = {
            "gen_ai.request.model": routed.model,
            "thinkgate.route": routed.route,
            "thinkgate.pool": routed.pool,
            "thinkgate.complexity": round(routed.complexity, 3),
            "thinkgate.thinking.how": routed.how,
        }
        if routed.cap is not None:
            decided["thinkgate.thinking.cap"] = routed.cap
        self._root.set_attributes(decided)
        self._route.set_attributes({**decided, "thinkgate.tier": routed.tier})
        self._route.end()
        self._waits_since = time_ns()

    def leg(self, kind: str, worker: str, url: str, engine: str, model: str) -> OtelLeg:
        if self._waits_since is not None:
            self._tracer.start_span("queue", self._under, start_time=self._waits_since).end()
            self._waits_since = None
        name = "leg" if kind in CONTINUES else "continuation"
        span = self._tracer.start_span(name, self._under, SpanKind.CLIENT)
        place = urlsplit(url)
        span.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": engine,
                "gen_ai.request.model": model,
                "server.address": place.hostname or "",
                "server.port": place.port or (443 if place.scheme == "https" else 80),
                "thinkgate.leg.kind": kind,
                "thinkgate.worker": worker,
            }
        )
        return OtelLeg(self._tracer, span)

    def landed(self, landed: Landed) -> None:
        told: dict[str, AttributeValue] = {
            "gen_ai.usage.input_tokens": landed.prompt,
            "gen_ai.usage.output_tokens": landed.completion,
            "gen_ai.usage.reasoning.output_tokens": landed.reasoning,
            "thinkgate.outcome": landed.outcome,
            "thinkgate.legs": landed.legs,
        }
        if landed.ended_by is not None:
            told["thinkgate.thinking.ended_by"] = landed.ended_by
        self._root.set_attributes(told)
        if landed.problem:
            self.refused(landed.status, landed.problem)

    def refused(self, status: int, problem: str) -> None:
        self._root.set_attributes({"http.response.status_code": status, "error.type": problem})
        if status >= 500:  # a client's own error is none of the server's, say the conventions for HTTP
            self._root.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        for span in (self._route, self._root):
            if span.is_recording():
                span.end()


class OtelLeg:
    """A generation's span: `prefill` until its first token, `decode` from there."""

    def __init__(self, tracer: trace.Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._under = trace.set_span_in_context(span, Context())
        self._phase: Span | None = tracer.start_span("prefill", self._under)
        self.headers: dict[str, str] = {}
        W3C.inject(self.headers, self._under)

    def generates(self) -> None:
        if self._phase is not None:
            self._phase.end()
            self._phase = self._tracer.start_span("decode", self._under)

    def cut(self, reason: str) -> None:
        self._span.add_event("cut", {"thinkgate.cut.reason": reason})

    def end(self, how: str) -> None:
        if self._phase is None:
            return
        self._phase.end()
        self._phase = None
        self._span.set_attribute("thinkgate.leg.end", how)
        self._span.end()
