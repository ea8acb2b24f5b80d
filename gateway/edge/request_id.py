"""The id that follows a request through headers, engines and logs."""

from __future__ import annotations

import re
import secrets

HEADER = "x-request-id"
_SANE = re.compile(r"[A-Za-z0-9._-]{1,128}")


def request_id(given: str | None) -> str:
    """The client's own id if it is sane (1 to 128 of letters, digits, `.`, `_`, `-`), else a new one."""
    if given is not None and _SANE.fullmatch(given):
        return given
    return "tg-" + secrets.token_hex(12)
