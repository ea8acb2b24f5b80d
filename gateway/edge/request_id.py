"""The id that follows a request through headers, engines and logs."""

from __future__ import annotations

import re
import secrets

HEADER = "x-request-id"
LONGEST = 128
_SANE = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}")


def request_id(given: str | None) -> str:
    """The client's own id if it is sane (1 to 128 of letters, digits, `.`, `_`, `-`), else a new one."""
    if given is not None and _SANE.fullmatch(given):
        return given
    return "tg-" + secrets.token_hex(12)


def leg_id(request: str, leg: int) -> str:
    """The id an engine sees: each leg has its own, since vLLM takes it for the generation's, and keeps to the limit."""
    suffix = f"-{leg}"
    return request[: LONGEST - len(suffix)] + suffix
