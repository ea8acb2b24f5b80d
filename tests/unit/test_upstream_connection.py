"""One exchange with an engine: bodies of every framing, break-offs, silence, back-pressure, and letting go."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from gateway import upstream, upstream_connection
from gateway.upstream import End, UpstreamError, UpstreamFault, read_whole
from tests.rawengine import (
    CHUNKED,
    OK,
    PATIENCE,
    Peer,
    answers,
    client,
    engine,
    fails,
    fetch,
    half_an_answer,
    post,
    until,
)

FRAMED = CHUNKED + b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\ntrailer: x\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nabcde"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + SIZED


@pytest.mark.parametrize("answer", [FRAMED, SIZED, UNTIL_CLOSE, INTERIM], ids=["chunked", "sized", "close", "1xx"])
@pytest.mark.parametrize("is_bytewise", [False, True])
async def test_a_body_is_read_in_every_framing(answer: bytes, is_bytewise: bool) -> None:
    parts = [bytes([byte]) for byte in answer] if is_bytewise else [answer]
    is_closing = answer is UNTIL_CLOSE
    async with engine(answers(*parts, close=is_closing)) as served, client(served) as pooled:
        response = await post(pooled)
        assert response.status == 200
        assert "link" not in response.headers
        assert await read_whole(response) == b"abcde"
        assert await response.read() == b"", "the end stays the end"
        response.end(End.FINISHED)
        assert await fetch(pooled) == b"abcde"
        assert len(served.peers) == (2 if is_closing else 1)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"\x16\x03\x01 this is not http\r\n\r\n", UpstreamFault.NOT_HTTP),
        (CHUNKED + b"zz\r\nabc\r\n", UpstreamFault.NOT_HTTP),
        (CHUNKED + b"3\r\nabcd\r\n", UpstreamFault.NOT_HTTP),
        (CHUNKED + b"3\r\nabc\r\n", UpstreamFault.CLOSED),
        (SIZED[:-1], UpstreamFault.CLOSED),
        (b"HTTP/1.1 200 OK\r\ncontent-le", UpstreamFault.CLOSED),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", UpstreamFault.NOT_HTTP),
    ],
)
async def test_an_answer_that_is_broken_off_or_is_not_http_is_an_error(answer: bytes, fault: UpstreamFault) -> None:
    async with engine(answers(answer, close=True)) as served, client(served) as pooled:
        error = await fails(pooled)
        assert error.fault is fault
        assert served.requests == 1


async def test_a_reset_in_the_body_is_an_error_after_what_had_come() -> None:
    async def resets(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(CHUNKED + b"3\r\nabc\r\n")
        await peer.request()
        peer.reset()

    async with engine(resets) as served, client(served) as pooled:
        response = await post(pooled)
        assert await response.read() == b"abc"
        served.peers[0].reset()
        with pytest.raises(UpstreamError) as caught:
            await response.read()
        assert caught.value.fault is UpstreamFault.CLOSED
        response.end(End.ABANDONED)


async def test_abandoning_closes_the_connection_at_once() -> None:
    async with engine(half_an_answer) as served, client(served) as pooled:
        response = await post(pooled)
        assert await response.read() == b"a"
        response.end(End.ABANDONED)
        await served.peers[0].gone()
        await until(lambda: pooled.connections == 0)


async def test_silence_beyond_the_watch_is_an_error_and_closes_the_connection() -> None:
    async with engine(half_an_answer) as served, client(served) as pooled:
        response = await post(pooled)
        response.watch(0.05)
        assert await response.read() == b"a"
        with pytest.raises(UpstreamError) as caught:
            await response.read()
        assert caught.value.fault is UpstreamFault.TIMEOUT
        await served.peers[0].gone()
        response.end(End.ABANDONED)


async def test_bytes_reset_the_watch() -> None:
    """Ten pieces, each well within the watch, which together take longer than it."""

    async def drips(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(CHUNKED)
        for _ in range(10):
            await asyncio.sleep(0.04)
            peer.writer.write(b"1\r\na\r\n")
        peer.writer.write(b"0\r\n\r\n")
        await peer.linger()

    async with engine(drips) as served, client(served) as pooled:
        response = await post(pooled)
        response.watch(0.3)
        assert await read_whole(response) == b"a" * 10
        response.end(End.FINISHED)


SIZE = 32 * 1024 * 1024


async def floods(peer: Peer) -> None:
    await peer.request()
    peer.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % SIZE)
    for _ in range(SIZE // 65_536):
        peer.writer.write(b"x" * 65_536)
        await peer.writer.drain()
    peer.heads.append(b"all sent")
    await peer.linger()


async def test_an_answer_nobody_reads_stalls_the_engine_and_is_no_silence() -> None:
    async with engine(floods) as served, client(served) as pooled:
        response = await post(pooled)
        response.watch(0.02)
        await until(lambda: response._connection._is_paused)  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)  # the watch is the subject: ten times its length, and it may not strike
        assert b"all sent" not in served.peers[0].heads
        first = await response.read()
        assert upstream_connection.HIGH_WATER < len(first) < 3 * upstream_connection.HIGH_WATER
        response.watch(PATIENCE)
        assert len(first) + len(await read_whole(response)) == SIZE
        response.end(End.FINISHED)


async def test_a_finished_answer_gives_its_connection_back_once_its_last_bytes_are_read() -> None:
    is_ended = asyncio.Event()

    async def ends_late(peer: Peer) -> None:
        while True:
            await peer.request()
            peer.writer.write(CHUNKED + b"1\r\na\r\n")
            await is_ended.wait()
            peer.writer.write(b"1\r\nb\r\n0\r\n\r\n")

    async with engine(ends_late) as served, client(served) as pooled:
        response = await post(pooled)
        assert await response.read() == b"a"
        response.end(End.FINISHED)
        other = await post(pooled)
        assert len(served.peers) == 2, "it is not free before that"
        is_ended.set()
        assert await read_whole(other) == b"ab"
        other.end(End.ABANDONED)
        await until(lambda: pooled.connections == 1)
        assert await fetch(pooled) == b"ab"
        assert len(served.peers) == 2


async def test_a_finished_answer_that_does_not_end_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(half_an_answer) as served, client(served) as pooled:
        response = await post(pooled)
        monkeypatch.setattr(type(response), "DRAIN", 0.02)
        response.end(End.FINISHED)
        await served.peers[0].gone()
        await until(lambda: pooled.connections == 0)


async def test_a_large_rest_is_drained_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lay unread in the buffer may not keep the rest of the answer from being read."""
    monkeypatch.setattr(upstream_connection, "HIGH_WATER", 1_000)
    is_let_go = asyncio.Event()

    async def two_halves(peer: Peer) -> None:
        while True:
            await peer.request()
            peer.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n" + b"x" * 5_000)
            await is_let_go.wait()
            for _ in range(4):
                peer.writer.write(b"x" * 1_000)
                await peer.writer.drain()
                await asyncio.sleep(0)

    async with engine(two_halves) as served, client(served) as pooled:
        response = await post(pooled)
        connection = response._connection  # type: ignore[attr-defined]
        await until(lambda: connection._is_paused)
        response.end(End.FINISHED)
        is_let_go.set()
        await until(lambda: bool(pooled._free))
        assert len(await fetch(pooled)) == 9_000
        assert len(served.peers) == 1


@pytest.mark.parametrize("extra", [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad", b"junk"])
async def test_bytes_beyond_the_answer_never_reach_the_next_request(extra: bytes) -> None:
    async def says_too_much(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(OK + extra)
        await peer.linger()

    async with engine(says_too_much, answers(OK)) as served, client(served) as pooled:
        response = await post(pooled)
        with contextlib.suppress(UpstreamError):
            assert await read_whole(response) == b"ok"
        response.end(End.FINISHED)
        assert await fetch(pooled) == b"ok"
        assert len(served.peers) == 2


async def test_a_reply_too_large_to_keep_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "MAX_REPLY", 4)
    async with engine(answers(SIZED)) as served, client(served) as pooled:
        assert "larger than 4" in str(await fails(pooled))
