"""Framing of server-sent events: the shapes engines send, the bounds, and the cost of an event in many pieces."""

from __future__ import annotations

import pytest

from gateway import sse
from gateway.sse import EventTooLong, Splitter


def split(*chunks: bytes) -> list[bytes]:
    splitter = Splitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: \xef\xbb\xbfa\n\n", [b"\xef\xbb\xbfa"]),
        (b": hello\n\ndata: a\n\n: bye\n\n", [b"a"]),
        (b": hello\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a: b\n\n", [b"a: b"]),
        (b"data\n\n", [b""]),
        (b"data\ndata\n\n", [b"\n"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"event: x\n\n", []),
        (b"DATA: a\n\n", []),
        (b" data: a\n\n", []),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data: a\n", []),
        (b"", []),
    ],
)
def test_every_shape_of_the_standard_in_one_piece_and_byte_by_byte(stream: bytes, events: list[bytes]) -> None:
    assert split(stream) == events
    assert split(*(stream[at : at + 1] for at in range(len(stream)))) == events


def test_an_empty_line_after_a_line_that_ended_in_cr_lf_ends_the_event_however_it_arrives() -> None:
    """The LF of a CRLF that was cut in two is swallowed once; the next LF is a line end of its own."""
    assert split(b"data: a\r", b"\n", b"\n", b"data: b\n\n") == [b"a", b"b"]


def test_an_event_comes_as_soon_as_its_blank_line_is_complete() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\n") == [b"a"]
    assert splitter.feed(b"data: b\r\n\r") == [b"b"], "a CR ends the line whether an LF follows or not"
    assert splitter.feed(b"\ndata: c\n\n") == [b"c"]


def test_the_end_gives_an_event_without_its_blank_line() -> None:
    for tail in (b"data: [DONE]", b"data: [DONE]\n", b"data: [DONE]\r", b"data: [DONE]\r\n"):
        splitter = Splitter()
        assert splitter.feed(b"data: a\n\n" + tail) == [b"a"]
        assert splitter.finish() == [sse.DONE]
        assert splitter.finish() == []


def test_the_end_gives_nothing_where_nothing_was_begun() -> None:
    for tail in (b"", b": comment", b"\xef\xbb", b"id: 3\n"):
        splitter = Splitter()
        splitter.feed(tail)
        assert splitter.finish() == []


def test_our_own_events_come_back_as_they_went() -> None:
    assert split(sse.event(b'{"a":1}') + sse.KEEP_ALIVE + sse.DONE_EVENT) == [b'{"a":1}', sse.DONE]


class _Counted(bytes):
    """Bytes that count how many of them are searched."""

    searched = 0

    def __contains__(self, item: object) -> bool:
        type(self).searched += len(self)
        return bytes.__contains__(self, item)  # type: ignore[operator]


def test_an_event_in_many_pieces_is_searched_once_not_once_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work counted, not time: what is searched for a line end stays within a few times the bytes that came."""
    monkeypatch.setattr(_Counted, "searched", 0)
    splitter = Splitter()
    piece, pieces = b"x" * 100, 2_000
    events = list(splitter.feed(_Counted(b"data: ")))
    for _ in range(pieces):
        events += splitter.feed(_Counted(piece))
    events += splitter.feed(_Counted(b"\n\n"))
    assert events == [piece * pieces]
    assert 0 < _Counted.searched <= 4 * pieces * len(piece)


def test_bytes_without_an_end_are_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 1_000)
    splitter = Splitter()
    assert splitter.feed(b"data: " + b"x" * 900) == []
    with pytest.raises(EventTooLong, match="1000"):
        splitter.feed(b"x" * 100)


def test_the_limit_is_for_one_event_not_for_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 100)
    splitter = Splitter()
    for _ in range(50):
        splitter.feed(b"data: " + b"x" * 60)
        assert splitter.feed(b"\n\n") == [b"x" * 60]
