"""What a leg to a vLLM worker must look like, as codes and words for its violation log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.doubles.checks import Violation
from tests.doubles.pair.prompt import EMBEDS, content_of, parts_of, raw_media

REMOTE: Final = ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port", "remote_request_id")
NEEDED: Final = {
    "nixl": ("remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port"),
    "nixl-push": ("remote_engine_id", "remote_request_id", "remote_host", "remote_port", "tp_size"),
    "mooncake": ("remote_bootstrap_addr", "remote_engine_id", "transfer_id"),
}
"""Without one of these a decode engine waits for ever for KV it has promised itself, or dies."""
BEAMS: Final = ("use_beam_search", "best_of")


def effective_limit(body: dict[str, Any]) -> Any:
    """The token limit as vLLM reads it: `max_completion_tokens` comes first."""
    limit = body.get("max_completion_tokens")
    return body.get("max_tokens") if limit is None else limit


def samples(body: dict[str, Any]) -> int:
    return body.get("n") or 1


def check_prefill(body: dict[str, Any], params: Any, handoff: str) -> Iterator[Violation]:
    """A prefill leg: one token, unary, one sample, its KV to be kept; nothing that ends it before it was computed."""
    if not isinstance(params, dict):
        yield "prefill-params", repr(params)
        params = {}
    elif params.get("do_remote_decode") is not True or params.get("do_remote_prefill") not in (False, None):
        yield "prefill-params", f"do_remote_decode and not do_remote_prefill, but {params}"
    if given := [name for name in REMOTE if params.get(name)]:
        yield "foreign-params", f"{given} on a prefill leg"
    if handoff == "mooncake" and not params.get("transfer_id"):
        yield "prefill-params", "no transfer_id"
    if body.get("stream"):
        yield "prefill-streamed", "a stream carries no kv_transfer_params"
    if "stream_options" in body:
        yield "prefill-stream-options", repr(body["stream_options"])
    if effective_limit(body) != 1:
        yield "prefill-tokens", f"{ {name: body.get(name) for name in ('max_tokens', 'max_completion_tokens')} }"
    if any((body.get(name) or 0) > 1 for name in ("min_tokens", "min_completion_tokens")):
        yield "prefill-min-tokens", repr(body.get("min_tokens"))
    if samples(body) != 1:
        yield "prefill-n", f"n={body['n']}"
    if given := [name for name in ("stop", "stop_token_ids") if body.get(name)]:
        yield "prefill-stop", f"{given}: a stop on the token that is thrown away hands nothing over"
    if given := [name for name in BEAMS if body.get(name)]:
        yield "prefill-beams", repr(given)
    if given := [name for name in ("logprobs", "top_logprobs", "prompt_logprobs", "echo") if body.get(name)]:
        yield "prefill-logprobs", f"{given}: nothing of this answer reaches the client"


def check_params(params: dict[str, Any], handoff: str) -> Iterator[Violation]:
    """A decode leg's parameters, before anything is looked up."""
    if params.get("do_remote_prefill") is not True or params.get("do_remote_decode"):
        yield "decode-params", f"do_remote_prefill and not do_remote_decode, but {params}"
    if handoff == "nixl" and not params.get("remote_block_ids"):
        yield "engine-killed", "do_remote_prefill without blocks fails an assertion in the engine core"
    elif missing := [name for name in NEEDED[handoff] if params.get(name) is None]:
        yield "params-incomplete", f"without {missing} it waits for ever"
    if handoff == "nixl-push" and params.get("remote_block_ids"):
        yield "decode-params", "a push has no remote_block_ids"
    if handoff == "nixl" and "tp_size" not in params:
        yield "no-tp-size", "heartbeats need it"


def check_encoded(body: dict[str, Any], encodings: dict[str, Any], *, prefill: bool) -> Iterator[Violation]:
    """Media of a prompt whose cluster has encoders: all embedded, nothing encoded twice, handles at prefill only."""
    told = body.get("ec_transfer_params") or {}
    if told and not prefill:
        yield "ec-on-decode", "handles of embeddings go to the prefill worker"
    known = {encoding.uuid: encoding for encoding in encodings.values()}
    for part in raw_media(body):
        encoded = [one for one in known.values() if one.content == content_of(part)]
        if not encoded:
            yield "not-encoded", f"a raw {part['type']}"
        elif all(one.metadata for one in encoded):
            yield "encoded-twice", f"a raw {part['type']}"
    for part in parts_of(body):
        if (kind := part.get("type")) not in EMBEDS:
            continue
        encoding = known.get(part.get("uuid", ""))
        if encoding is None or part.get(kind) != encoding.metadata:
            yield "foreign-embedding", f"{part.get('uuid')!r}"
        elif prefill and encoding.mm_hash not in told:
            yield "no-handle", f"{encoding.mm_hash} is not in ec_transfer_params"
