"""Errors as OpenAI's SDKs read them: one shape, the right status, a hint whether to retry.

Every error a client can see is made here, from a fault of its own, of an engine or of ours. Nothing in a message
comes from a key, and nothing of a prompt unless an engine's own words quote it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from math import ceil
from time import time

import msgspec

from gateway.upstream import UpstreamError, UpstreamFault
from gateway.wire import EngineErrorBody

MAX_RETRY_AFTER = 60
"""Seconds. OpenAI's Python SDK gives up beyond 120, its Node SDK sleeps whatever it is told."""

UNTOLD_RETRY_AFTER = 5
"""Seconds that a client is told to wait where an engine has named no time."""

_SECONDS = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")

INTERNAL = "internal_error"
"""The code of a fault of ours."""

UNREACHABLE = "engine_unreachable"
"""The code of a connection that could not be made, or broke."""

SHUTTING_DOWN = "shutting_down"
"""The code of what is turned away, or broken off, because the process ends."""

_TOO_LONG = ("maximum context length", "context length of", "available context size")
"""How vLLM, SGLang and llama-server say that a prompt does not fit."""


@dataclass(slots=True)
class ApiError(Exception):
    """An answer in OpenAI's error shape."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return self.message

    def body(self) -> bytes:
        """`{"error": {…}}` as JSON."""
        shape = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": shape})


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def method_not_allowed(method: str, path: str, allow: str) -> ApiError:
    message = f"{method} is not allowed on {path}."
    return ApiError(405, message, code="method_not_allowed", headers={"allow": allow} if allow else {})


def model_not_found(model: str) -> ApiError:
    return ApiError(404, f"The model {model[:200]!r} does not exist here.", param="model", code="model_not_found")


def unauthorized(message: str) -> ApiError:
    return ApiError(
        401, message, "authentication_error", code="invalid_api_key", headers={"www-authenticate": "Bearer"}
    )


def forbidden(message: str) -> ApiError:
    return ApiError(403, message, "permission_error", code="forbidden")


def body_too_large(limit: int) -> ApiError:
    return ApiError(413, f"The request body is larger than {limit} bytes.", code="request_too_large")


def not_ready(message: str, retry_after: int = UNTOLD_RETRY_AFTER) -> ApiError:
    return ApiError(503, message, "server_error", code="no_ready_worker", headers={"retry-after": str(retry_after)})


def all_busy(seconds: float) -> ApiError:
    """Every worker has asked to be left alone; `seconds` until the first may be asked again."""
    headers = {"retry-after": str(min(max(ceil(seconds), 1), MAX_RETRY_AFTER))}
    return ApiError(503, "Every worker of this model is busy.", "server_error", code="engine_busy", headers=headers)


def shutting_down() -> ApiError:
    """This process ends. Another one may answer at once, whatever has been generated here: a retry is right."""
    headers = {"retry-after": "2", "x-should-retry": "true", "connection": "close"}
    return ApiError(503, "The gateway is shutting down.", "server_error", code=SHUTTING_DOWN, headers=headers)


def explaining_busy() -> ApiError:
    """More explanations are asked for than one thread should owe."""
    message = "Too many explanations are asked for at once."
    return ApiError(503, message, "server_error", code="explaining_busy", headers={"retry-after": "1"})


def internal_error() -> ApiError:
    return ApiError(500, "thinkgate failed to handle this request.", "server_error", code=INTERNAL)


def deadline_passed(seconds: float) -> ApiError:
    """Minutes of GPU work are gone; a retry by the SDK would only burn them again."""
    message = f"The request took longer than {seconds:g} s."
    return ApiError(504, message, "server_error", code="deadline", headers={"x-should-retry": "false"})


def engine_refused(status: int, body: EngineErrorBody, headers: Mapping[str, str]) -> ApiError:
    """An engine's own error answer. 4xx is the client's fault and keeps its status; 429 and 503 are back-pressure."""
    message = body.message or f"The engine answered {status}."
    if status in {429, 503}:
        retry = {"retry-after": str(ceil(pause_asked(headers.get("retry-after")) or UNTOLD_RETRY_AFTER))}
        if status == 429:
            return ApiError(429, message, "rate_limit_error", code="engine_busy", headers=retry)
        return ApiError(503, message, "server_error", code="engine_busy", headers=retry)
    if status in {401, 403}:  # the pool's key is wrong: not something the client can mend
        return ApiError(502, "The engine refused the gateway's key.", "server_error", code="engine_auth")
    if 400 <= status < 500:
        param = body.param.removeprefix("body.") if body.param is not None else None  # vLLM says where it found it
        is_too_long = any(words in message for words in _TOO_LONG)
        return ApiError(status, message, param=param, code="context_length_exceeded" if is_too_long else body.type)
    return ApiError(502, message, "server_error", code="engine_error")


def engine_failed(error: UpstreamError) -> ApiError:
    """A transport failure on the way to an engine or in the midst of its answer."""
    if error.fault is UpstreamFault.NO_CONNECTION:
        return ApiError(503, str(error), "server_error", code="engine_busy", headers={"retry-after": "2"})
    if error.fault is UpstreamFault.TIMEOUT:
        return ApiError(504, str(error), "server_error", code="engine_timeout", headers={"x-should-retry": "false"})
    return ApiError(502, f"The engine cannot be reached: {error}.", "server_error", code=UNREACHABLE)


def engine_silent(seconds: float) -> ApiError:
    """No token in all the time an engine is given. A retry would wait as long again."""
    message = f"The engine gave no token within {seconds:g} s."
    return ApiError(504, message, "server_error", code="engine_timeout", headers={"x-should-retry": "false"})


def engine_broke_off(message: str) -> ApiError:
    """The engine's stream ended, or stopped making sense, before the answer was complete."""
    return ApiError(502, message, "server_error", code="engine_stream_broken")


def pause_asked(value: str | None) -> float | None:
    """The seconds of a `retry-after` header, as a number or until an HTTP date (RFC 9110 §10.2.3), within
    1..`MAX_RETRY_AFTER`; None where there is none, or nonsense."""
    told = (value or "").strip()
    if _SECONDS.fullmatch(told):
        return min(max(float(told), 1.0), float(MAX_RETRY_AFTER))
    try:
        seconds = parsedate_to_datetime(told).timestamp() - time()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(seconds, 1.0), float(MAX_RETRY_AFTER))
