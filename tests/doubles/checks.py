"""What a gateway must not send, as codes and words for a double's violation log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tests.doubles.exchange import Exchange
from tests.doubles.http1 import Head

Violation = tuple[str, str]

CANARY: Final = "canary"
"""Tests put this word where nothing may travel on: in keys, dangerous fields, cookies."""
ALLOWED_HEADERS: Final = frozenset(
    {
        "host",
        "connection",
        "user-agent",
        "accept",
        "accept-encoding",
        "authorization",
        "content-type",
        "content-length",
        "transfer-encoding",
        "x-request-id",
        "traceparent",
        "tracestate",
    }
)
DANGEROUS: Final = frozenset(
    {
        "kv_transfer_params",
        "ec_transfer_params",
        "bootstrap_host",
        "bootstrap_port",
        "bootstrap_room",
        "bootstrap_pair_key",
        "custom_logit_processor",
        "logits_processors",
        "routed_dp_rank",
        "data_parallel_rank",
        "disagg_prefill_dp_rank",
        "decode_tp_size",
        "encoder_urls",
        "num_items_assigned",
        "need_wait_for_mm_inputs",
        "vllm_xargs",
        "chat_template",
        "lora_path",
        "session_params",
        "session_id",
    }
)
"""Fields that dial hosts, read other requests' memory, run code or pick ranks. None belongs in a single-worker leg."""
DIALECT: Final = frozenset({"thinking", "thinking_budget", "max_thinking_tokens", "enable_thinking", "reasoning"})
"""Client words for thinking that the gateway understands and must translate, not pass on."""
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


def check_headers(exchange: Exchange, head: Head, api_key: str | None) -> Iterator[Violation]:
    names = [name for name, _ in head.headers]
    for name in sorted(set(names)):
        if name not in ALLOWED_HEADERS | exchange.double.expected:
            yield "foreign-header", name
        if names.count(name) > 1:
            yield "repeated-header", name
    if api_key is None and "authorization" in names:
        yield "client-authorization", "an Authorization header came, and this engine has no key"
    if CANARY in repr(head.headers).lower():
        yield "canary", "in a header"
    if not exchange.is_generation:
        return
    if not _REQUEST_ID.fullmatch(exchange.request_id):
        yield "no-request-id", repr(exchange.request_id)
    if exchange.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        yield "content-type", exchange.headers.get("content-type", "none")


def check_body(
    body: dict[str, Any],
    raw: bytes,
    *,
    chat: bool,
    foreign: frozenset[str],
    expected: frozenset[str] = frozenset(),
    streamed: bool = True,
) -> Iterator[Violation]:
    """`foreign`: fields this engine does not know, so that sending one would drop a control in silence. `expected`:
    dangerous fields that belong in this leg. `streamed`: the leg should be."""
    if streamed and body.get("stream") is not True:
        yield "not-streamed", "a unary call cannot be cancelled on every engine"
    for name in sorted((DANGEROUS - expected) & body.keys()):
        yield "dangerous-field", name
    for name in sorted((DIALECT | foreign) & body.keys()):
        yield "untranslated", name
    if CANARY.encode() in raw.lower():
        yield "canary", "in the body"
    for name in ("max_tokens", "max_completion_tokens"):
        if name in body and body[name] is not None and not _is_count(body[name]):
            yield "bad-max-tokens", f"{name}={body[name]!r}"
    if "stream_options" in body and not isinstance(body["stream_options"], dict):
        yield "bad-stream-options", repr(body["stream_options"])
    if chat and not (isinstance(body.get("messages"), list) and body["messages"]):
        yield "no-messages", repr(body.get("messages"))[:80]
    if not chat and body.get("prompt") in (None, "", []):
        yield "no-prompt", repr(body.get("prompt"))
    yield from _check_repeats(raw)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_repeats(raw: bytes) -> Iterator[Violation]:
    """A key twice at the top level of a body means something else to the next parser."""
    seen: list[list[str]] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen.append([name for name, _ in pairs])
        return dict(pairs)

    json.loads(raw, object_pairs_hook=note)
    for name in {name for name in seen[-1] if seen[-1].count(name) > 1}:
        yield "repeated-field", name
