"""Any split of any bytes gives the same events, and they are those of WHATWG's event-stream rules read literally."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.sse import Splitter

LINE_ENDS = [b"\n", b"\r\n", b"\r"]
LINES = [b"data: a", b"data:b", b"data:  c", b"data", b"data:", b": comment", b":", b"id: 1", b"event", b"other: x: y"]
SCRAPS = [b"", b"", b"\xef\xbb\xbf", b"d", b"data: \xc3\xa9", b"data: [DONE]", b" data: z", b"\xef", b"\x00"]

lines = st.tuples(st.sampled_from([*LINES, *SCRAPS]), st.sampled_from(LINE_ENDS)).map(b"".join)
streams = st.one_of(
    st.lists(lines, max_size=12).map(b"".join),
    st.lists(st.sampled_from([*LINE_ENDS, b"data: a", b"data", b":", b"\xef\xbb\xbf"]), max_size=16).map(b"".join),
    st.binary(max_size=40),
)


def reference(stream: bytes) -> list[bytes]:
    """HTML §9.2.6, slowly: one BOM, lines by CRLF, LF or CR, fields, dispatch at every blank line."""
    stream = stream.removeprefix(b"\xef\xbb\xbf")
    parsed: list[bytes] = []
    line = b""
    at = 0
    while at < len(stream):
        if stream[at : at + 2] == b"\r\n":
            parsed.append(line)
            line, at = b"", at + 2
        elif stream[at : at + 1] in {b"\r", b"\n"}:
            parsed.append(line)
            line, at = b"", at + 1
        else:
            line, at = line + stream[at : at + 1], at + 1
    # What follows the last line end is an unfinished line, and an unfinished event is discarded with it.
    events: list[bytes] = []
    data = b""
    for line in parsed:
        if not line:
            if data:
                events.append(data[:-1])
            data = b""
        elif not line.startswith(b":"):
            name, _, value = line.partition(b":")
            if name == b"data":
                data += value.removeprefix(b" ") + b"\n"
    return events


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    bounds = sorted({0, *(min(at, len(stream)) for at in cuts), len(stream)})
    return [stream[low:high] for low, high in pairwise(bounds)]


@settings(max_examples=600, deadline=None)
@given(streams, st.lists(st.integers(0, 120), max_size=8))
def test_any_split_gives_the_events_of_the_standard(stream: bytes, cuts: list[int]) -> None:
    expected = reference(stream)
    for chunks in ([stream], cut(stream, cuts), [bytes([byte]) for byte in stream]):
        splitter = Splitter()
        assert [event for chunk in chunks for event in splitter.feed(chunk)] == expected


@settings(max_examples=300, deadline=None)
@given(streams, st.lists(st.integers(0, 120), max_size=8))
def test_what_is_left_at_the_end_is_the_same_for_any_split(stream: bytes, cuts: list[int]) -> None:
    whole = Splitter()
    whole.feed(stream)
    left = whole.finish()
    for chunks in (cut(stream, cuts), [bytes([byte]) for byte in stream]):
        splitter = Splitter()
        for chunk in chunks:
            splitter.feed(chunk)
        assert splitter.finish() == left
