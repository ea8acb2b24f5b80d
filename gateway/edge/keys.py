"""Client keys: making one, hashing it, and finding whose a presented one is.

Only SHA-256 hashes are known here. That is enough, and fast, because keys come from `new_key` and are too long to
guess; a password would need a slow hash. What a key allows, and what an error looks like, is for the callers.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from hashlib import sha256

from gateway.config import ApiKey

PREFIX = "tg-"  # lets secret scanners and people see what it is
_BEARER = re.compile(r"[ \t]*bearer[ \t]+([\x21-\x7e]+)[ \t]*", re.IGNORECASE | re.ASCII)


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    # surrogatepass: a presented key is anything a client sends, and none may raise.
    return "sha256:" + sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class KeyRing:
    """The configured keys. True when there are any; without any, nobody is asked for one."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._keys = tuple(keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(key.alias for key in self._keys)})"

    def find(self, presented: str) -> ApiKey | None:
        """Every entry is compared, and each in constant time: how long it takes tells nothing about the keys."""
        hashed = hash_key(presented)
        found: ApiKey | None = None
        for key in self._keys:
            if hmac.compare_digest(key.hash, hashed) and found is None:
                found = key
        return found


def read_bearer(value: bytes | str | None) -> str | None:
    """The token of an `Authorization: Bearer …` header; None for anything else, with no attempt to guess."""
    if value is None:
        return None
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    match = _BEARER.fullmatch(text)
    return match[1] if match else None
