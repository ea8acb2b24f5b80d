"""A double of an OpenTelemetry collector: takes spans as OTLP over HTTP, on a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from gzip import decompress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Span:
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    is_error: bool
    kind: int


@dataclass
class Collector:
    """`raw` is all that came, as bytes; `headers` those of the last delivery."""

    url: str
    spans: list[Span] = field(default_factory=list[Span])
    raw: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    resources: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def under(self, parent: Span) -> list[Span]:
        """Its children, by their begin."""
        return sorted((span for span in self.spans if span.parent == parent.id), key=lambda span: span.start)

    def take(self, body: bytes) -> None:
        self.raw += body
        told = ExportTraceServiceRequest.FromString(body)
        for resource in told.resource_spans:
            self.resources.append(_attributes(resource.resource.attributes))
            for scope in resource.scope_spans:
                self.spans += [_span(one) for one in scope.spans]


def _span(one: Any) -> Span:
    return Span(
        name=one.name,
        trace=one.trace_id.hex(),
        id=one.span_id.hex(),
        parent=one.parent_span_id.hex(),
        start=one.start_time_unix_nano,
        end=one.end_time_unix_nano,
        attributes=_attributes(one.attributes),
        events=[(event.name, _attributes(event.attributes)) for event in one.events],
        is_error=one.status.code == 2,
        kind=one.kind,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def collecting() -> Iterator[Collector]:
    found: list[Collector] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found[0].headers = {name.lower(): value for name, value in self.headers.items()}
            found[0].take(decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.append(Collector(f"http://127.0.0.1:{server.server_port}/v1/traces"))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
