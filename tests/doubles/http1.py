"""HTTP/1.1 as a server reads it, strictly: a request that a lenient server would guess at is an error here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_REQUEST_LINE: Final = re.compile(rb"([A-Z]+) (/[^\s]*) HTTP/1\.1")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


class BadRequest(ValueError):
    """The bytes are no well-formed request."""


@dataclass(frozen=True, slots=True)
class Head:
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    @property
    def length(self) -> int | None:
        """Bytes of the body; None when it is chunked."""
        lengths, codings = self.values("content-length"), self.values("transfer-encoding")
        if codings:
            if lengths:
                raise BadRequest("both Content-Length and Transfer-Encoding")
            if codings != ["chunked"]:
                raise BadRequest(f"Transfer-Encoding {codings}")
            return None
        if len(lengths) > 1:
            raise BadRequest("two Content-Length headers")
        if lengths and not lengths[0].isdigit():
            raise BadRequest(f"Content-Length {lengths[0]!r}")
        return int(lengths[0]) if lengths else 0


def parse_head(raw: bytes) -> Head:
    first, *lines = raw.split(b"\r\n")
    if not (line := _REQUEST_LINE.fullmatch(first)):
        raise BadRequest(f"request line {first[:80]!r}")
    headers: list[tuple[str, str]] = []
    for text in lines:
        if not (match := _HEADER.fullmatch(text)):
            raise BadRequest(f"header line {text[:80]!r}")
        headers.append((match[1].decode().lower(), match[2].decode("latin-1")))
    head = Head(line[1].decode(), line[2].decode("latin-1"), tuple(headers))
    if len(head.values("host")) != 1:
        raise BadRequest("not exactly one Host header")
    return head


def take_chunked(buffer: bytearray) -> bytes | None:
    """The whole chunked body at the front of `buffer`, removed from it; None while some of it is missing."""
    body, at = bytearray(), 0
    while (end := buffer.find(b"\r\n", at)) >= 0:
        size_line = bytes(buffer[at:end])
        if not re.fullmatch(rb"[0-9A-Fa-f]+", size_line):
            raise BadRequest(f"chunk size {size_line[:40]!r}")
        size = int(size_line, 16)
        start, stop = end + 2, end + 2 + size
        if len(buffer) < stop + 2:
            return None
        if buffer[stop : stop + 2] != b"\r\n":
            raise BadRequest("a chunk does not end where its size says")
        if size == 0:
            del buffer[: stop + 2]
            return bytes(body)
        body += buffer[start:stop]
        at = stop + 2
    return None


def head_bytes(status: int, headers: list[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK: Final = b"0\r\n\r\n"
