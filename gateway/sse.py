"""Bytes ↔ server-sent events, exactly as WHATWG's "Server-sent events" (HTML §9.2) writes them.

Only framing: what an event means is decided elsewhere. Events stay bytes, so text is never cut inside a code point.
"""

from __future__ import annotations

DONE = b"[DONE]"
DONE_EVENT = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"

MAX_EVENT = 16 * 1024 * 1024
"""Bytes one event may have before the stream counts as garbage."""

_BOM = b"\xef\xbb\xbf"


class EventTooLong(ValueError):
    """An engine sent `MAX_EVENT` bytes without ending an event."""


def event(data: bytes) -> bytes:
    """One event with this payload."""
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


class Splitter:
    """Takes in bytes as they arrive, gives the `data` of every event that is complete.

    Any split of the bytes gives the same events. Comments and the other fields are dropped, several `data` lines are
    joined with a newline. The cost is linear in the bytes, also for an event that comes in a thousand pieces.
    """

    __slots__ = ("_after_cr", "_parts", "_size", "_started")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._started = False
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that this chunk completes. Raises EventTooLong."""
        if self._started and not self._parts and not self._after_cr and chunk.endswith(b"\n\n") and b"\r" not in chunk:
            return _payloads(chunk[:-2].split(b"\n\n"))  # whole events, as nearly every read of an engine gives
        if not chunk:
            return []
        if not self._started:
            chunk = self._begin(chunk)
        if self._after_cr or b"\r" in chunk:
            chunk = self._normalise(chunk)
        if not self._ends_an_event(chunk):
            self._hold(chunk)
            return []
        text = b"".join((*self._parts, chunk)) if self._parts else chunk
        self._parts.clear()
        self._size = 0
        *blocks, tail = text.split(b"\n\n")
        self._hold(tail)
        return _payloads(blocks)

    def finish(self) -> list[bytes]:
        """What an engine left without its closing blank line. The standard drops it; a last `[DONE]` must count."""
        data = _payload(b"".join(self._parts).rstrip(b"\n"))
        self._parts.clear()
        self._size = 0
        return [] if data is None else [data]

    def _begin(self, chunk: bytes) -> bytes:
        """Drop a byte order mark, also one that comes byte by byte."""
        chunk = b"".join((*self._parts, chunk))
        self._parts.clear()
        self._size = 0
        if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
            self._hold(chunk)
            return b""
        self._started = True
        return chunk.removeprefix(_BOM)

    def _normalise(self, chunk: bytes) -> bytes:
        """CRLF and CR become LF; a CR at the end may still be half of a CRLF."""
        if chunk:
            if self._after_cr and chunk.startswith(b"\n"):
                chunk = chunk[1:]
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _ends_an_event(self, chunk: bytes) -> bool:
        if b"\n\n" in chunk:
            return True
        return bool(self._parts) and chunk.startswith(b"\n") and self._parts[-1].endswith(b"\n")

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._size > MAX_EVENT:
            raise EventTooLong(f"an event of more than {MAX_EVENT} bytes")
        self._parts.append(piece)


def _payloads(blocks: list[bytes]) -> list[bytes]:
    return [data for block in blocks if (data := _payload(block)) is not None]


def _payload(block: bytes) -> bytes | None:
    if block.startswith(b"data: ") and b"\n" not in block:  # what every engine sends
        return block[6:]
    lines: list[bytes] = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None
