"""The kinds of values that thinkgate.yaml is made of, each with its bounds, and the model that all models stand on.

No key of the file stands here.
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

KEY_HASH_PATTERN = r"^sha256:[0-9a-f]{64}$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$"

_HOST = re.compile(r"[A-Za-z0-9._-]+")
"""A name or an IPv4 address; other scripts in their ASCII form (RFC 3490)."""


def _worker_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        host, is_plain = parts.hostname or "", value.isascii() and value.isprintable() and " " not in value
        is_host = bool(_HOST.fullmatch(host)) or ":" in host  # an IPv6 address, which `urlsplit` has looked at
        is_address = parts.scheme in {"http", "https"} and is_plain and is_host and parts.port != 0
    except ValueError:  # its own words would quote the value, and with it a password
        is_address, parts = False, urlsplit("")
    if not is_address:
        raise ValueError("a worker is an http:// or https:// address, for example http://10.0.0.7:8000")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError("a worker's address carries no query, fragment or password (a key goes to the pool's api_key)")
    return value.rstrip("/").removesuffix("/v1")


def _header_value(value: SecretStr) -> SecretStr:
    secret = value.get_secret_value()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("a key is one word of printable ASCII")
    return value


def _line(value: SecretStr) -> SecretStr:
    secret = value.get_secret_value()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ValueError("a header's value is a line of printable ASCII")
    return value


def _http_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address, parts = False, urlsplit("")
    if not is_address or parts.username or parts.password:
        raise ValueError(
            "an http:// or https:// address without a password, for example http://10.0.0.7:4318/v1/traces"
        )
    return value


def by_url(weights: dict[str, float]) -> dict[str, float]:
    return {_worker_url(url): weight for url, weight in weights.items()}


def by_url_names(names: dict[str, str]) -> dict[str, str]:
    return {_worker_url(url): name for url, name in names.items()}


WorkerUrl = Annotated[str, AfterValidator(_worker_url)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
LineSecret = Annotated[SecretStr, AfterValidator(_line)]
HeaderSecret = Annotated[SecretStr, AfterValidator(_header_value)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Tokens = Annotated[int, Field(ge=0, le=10_000_000)]


class Strict(BaseModel):
    """An unknown key is an error: a typo must never become a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True)
