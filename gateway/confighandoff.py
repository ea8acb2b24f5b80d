"""A pool's `disaggregation`: which workers prefill and encode for those that decode, and how the KV cache travels.

Keys, types, ranges, defaults and what they mean; no wiring. What the words mean on the wire is `pools/handoff`'s.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from gateway.configvalues import Name, Seconds, Strict, WorkerUrl, by_url_names


class HandOffKind(StrEnum):
    """How the KV cache gets from the worker that prefills to the one that decodes."""

    NIXL = "nixl"
    NIXL_PUSH = "nixl-push"
    MOONCAKE = "mooncake"
    SGLANG = "sglang"


class PrefillWorker(Strict):
    """A worker that prefills, and how the decode workers reach its cache."""

    url: WorkerUrl = Field(description="Base address, without /v1.")
    kv_host: Name | None = Field(
        default=None,
        description="Host at which decode workers reach its cache, where that is not the host of `url`: the bootstrap "
        "host of SGLang and Mooncake, the side channel's of NIXL.",
    )
    bootstrap_port: Annotated[int, Field(ge=1, le=65_535)] = Field(
        default=8998, description="Port of its bootstrap server (`sglang`, `mooncake`)."
    )
    side_channel_port: Annotated[int, Field(ge=1, le=65_535)] = Field(
        default=5600, description="Port of its NIXL side channel (`nixl-push`)."
    )
    engine_id: Name | None = Field(
        default=None, description="`engine_id` of its `--kv-transfer-config` (`nixl-push` needs one)."
    )
    tp_size: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="Its tensor parallel size (`nixl-push`)."
    )
    pp_size: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="Its pipeline parallel size (`nixl-push`)."
    )
    dp_size: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="Its data parallel size: ranks are taken in turn (`sglang`, `mooncake`)."
    )

    @property
    def host(self) -> str:
        """Where decode workers reach it; an IPv6 address without brackets."""
        return (self.kv_host or urlsplit(self.url).hostname or "").strip("[]")


def _named(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


class Disaggregation(Strict):
    """Prefill and decode on different workers. The pool's own `workers` decode."""

    handoff: HandOffKind = Field(
        description="`nixl` (vLLM pulls), `nixl-push` (vLLM pushes), `mooncake` (vLLM), `sglang`: as the workers were "
        "started."
    )
    prefill: tuple[
        Annotated[PrefillWorker, BeforeValidator(_named, json_schema_input_type=PrefillWorker | str)], ...
    ] = Field(min_length=1, description="The workers that prefill: addresses, or the keys below.")
    encode: tuple[WorkerUrl, ...] = Field(
        default=(), description="vLLM workers that encode pictures and sound for them (`--ec-transfer-config`)."
    )
    encode_batch: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=4, description="Pictures in one request to an encoder: at most its `--limit-mm-per-prompt`."
    )
    groups: Annotated[dict[Name, Name], AfterValidator(by_url_names)] = Field(
        default_factory=dict[str, str],
        description="Transfer group by worker address. Only workers of one group are paired; unnamed ones with each "
        "other.",
    )
    local_below: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default=256,
        description="Prompts of fewer tokens, as estimated, are prefilled by the decode worker itself: moving them "
        "costs more. 0: none. Not on SGLang, whose decode workers cannot.",
    )
    without_prefill: Literal["refuse", "local"] = Field(
        default="refuse",
        description="When no prefill worker can be had: `refuse` (503), or `local`: the decode worker prefills, for "
        "a fifth of the requests at most. Not on SGLang.",
    )
    if_missing: Literal["local", "refuse"] = Field(
        default="local",
        description="When a prefill worker answers and hands nothing off: `local`, the decode worker prefills, within "
        "the same limit; or `refuse`: another prefill worker is asked. Not on SGLang.",
    )
    lease: Seconds = Field(
        default=30,
        description="Seconds a prefill worker keeps a cache that nobody fetches (vLLM's `kv_lease_duration`). Above "
        "60, a cache whose request is gone is fetched once to free it.",
    )


def loopback(host: str) -> bool:
    """Is this host the machine itself, whoever asks?"""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified
