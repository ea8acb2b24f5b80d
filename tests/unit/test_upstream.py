"""The pooled HTTP/1.1 client against a raw server: connections kept and dropped, bodies of every framing, failures."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway import upstream, upstream_connection
from gateway.upstream import End, PooledClient, UpstreamError, UpstreamFault, read_whole

PATIENCE = 5.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.heads: list[bytes] = []
        self.left = asyncio.Event()

    async def request(self) -> bytes:
        """The body of the next request."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        return await self.reader.readexactly(length)

    async def linger(self) -> None:
        """Say nothing more until the client closes."""
        await self.reader.read()

    async def gone(self) -> None:
        """Wait until the client has closed."""
        async with asyncio.timeout(PATIENCE):
            await self.left.wait()

    def reset(self) -> None:
        self.writer.transport.abort()


Behaviour = Callable[[Peer], Awaitable[None]]


class Engine:
    """Every connection goes to the next behaviour, the last one serves all further ones."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.behaviours = list(behaviours)
        self.peers: list[Peer] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.url = ""

    @property
    def requests(self) -> int:
        return sum(len(peer.heads) for peer in self.peers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        peer = Peer(reader, writer)
        self.peers.append(peer)
        behaviour = self.behaviours[min(len(self.peers), len(self.behaviours)) - 1]
        try:
            await behaviour(peer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            peer.left.set()
            writer.transport.abort()


@asynccontextmanager
async def engine(*behaviours: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Engine]:
    served = Engine(*behaviours)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, ssl=tls)
    served.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
        for task in served.tasks:
            task.cancel()
        await asyncio.gather(*served.tasks, return_exceptions=True)


@asynccontextmanager
async def client(
    served: Engine, *, idle: float = 60, limit: int = 10, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[PooledClient]:
    """Afterwards no task, no timer and no connection of it is left."""
    before = asyncio.all_tasks() | set(served.tasks)
    pooled = PooledClient(served.url, connect_timeout=PATIENCE, idle=idle, limit=limit, tls=tls)
    try:
        yield pooled
    finally:
        pooled.close()
        await until(lambda: pooled.connections == 0)
    await until(lambda: asyncio.all_tasks() - before <= set(served.tasks))
    timers = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    assert not [timer for timer in timers if "gateway" in repr(timer)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def post(pooled: PooledClient, body: bytes = b"{}") -> upstream.Response:
    return await pooled.post("/v1/x", {"x-a": "b"}, body)


async def fetch(pooled: PooledClient) -> bytes:
    response = await post(pooled)
    body = await read_whole(response)
    response.end(End.FINISHED)
    return body


async def fails(pooled: PooledClient) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await fetch_or_abandon(pooled)
    return caught.value


async def fetch_or_abandon(pooled: PooledClient) -> None:
    response = await post(pooled)
    try:
        await read_whole(response)
    finally:
        response.end(End.ABANDONED)


def answers(*parts: bytes, close: bool = False) -> Behaviour:
    """Answer every request with these writes."""

    async def behave(peer: Peer) -> None:
        while True:
            await peer.request()
            for part in parts:
                peer.writer.write(part)
                await peer.writer.drain()
            if close:
                return

    return behave


async def test_one_connection_serves_one_request_after_another() -> None:
    async with engine(answers(OK)) as served, client(served) as pooled:
        assert [await fetch(pooled) for _ in range(3)] == [b"ok"] * 3
        assert (len(served.peers), pooled.connections) == (1, 1)
        [head, *_] = served.peers[0].heads
        lines = head.split(b"\r\n")
        assert lines[0] == b"POST /v1/x HTTP/1.1"
        assert {b"x-a: b", b"content-length: 2", b"content-type: application/json"} <= set(lines)
        assert b"host: " + served.url[7:].encode() in lines


async def test_the_path_of_the_workers_address_stands_in_front() -> None:
    async with engine(answers(OK)) as served:
        served.url += "/base/"
        async with client(served) as pooled:
            await fetch(pooled)
            assert served.peers[0].heads[0].startswith(b"POST /base/v1/x ")


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async with engine(answers(OK)) as served, client(served) as pooled:
        first, second = await post(pooled), await post(pooled)
        for response in (first, second, first):  # a second `end` changes nothing
            await read_whole(response)
            response.end(End.FINISHED)
        third, fourth = await post(pooled), await post(pooled)
        assert len(served.peers) == 2
        assert [await read_whole(third), await read_whole(fourth)] == [b"ok", b"ok"]
        third.end(End.ABANDONED)
        fourth.end(End.ABANDONED)


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    async with engine(answers(OK)) as served, client(served, idle=0.05) as pooled:
        await fetch(pooled)
        await until(lambda: pooled.connections == 0)
        assert await fetch(pooled) == b"ok"
        assert len(served.peers) == 2


async def test_a_connection_the_engine_closed_while_idle_is_not_used() -> None:
    async with engine(answers(OK, close=True)) as served, client(served) as pooled:
        await fetch(pooled)
        await until(lambda: pooled.connections == 0)
        assert await fetch(pooled) == b"ok"
        assert served.requests == 2


async def closes_on_the_second_request(peer: Peer) -> None:
    await peer.request()
    peer.writer.write(OK)
    await peer.request()


async def test_a_connection_that_dies_on_reuse_without_a_byte_is_replaced_once_and_silently() -> None:
    async with engine(closes_on_the_second_request, answers(OK)) as served, client(served) as pooled:
        assert [await fetch(pooled), await fetch(pooled)] == [b"ok", b"ok"]
        assert served.requests == 3


async def refuses(peer: Peer) -> None:
    await peer.request()


async def test_the_replacement_is_not_replaced() -> None:
    async with engine(closes_on_the_second_request, refuses) as served, client(served) as pooled:
        await fetch(pooled)
        error = await fails(pooled)
        assert (error.fault, error.before_first_byte) == (UpstreamFault.CLOSED, True)
        assert served.requests == 3


async def test_a_fresh_connection_that_dies_is_an_error_at_once() -> None:
    async with engine(refuses) as served, client(served) as pooled:
        assert (await fails(pooled)).fault is UpstreamFault.CLOSED
        assert served.requests == 1


async def test_nothing_is_sent_again_after_a_single_byte() -> None:
    async def one_byte(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(OK)
        await peer.request()
        peer.writer.write(b"H")
        await peer.writer.drain()
        peer.writer.close()

    async with engine(one_byte, answers(OK)) as served, client(served) as pooled:
        await fetch(pooled)
        error = await fails(pooled)
        assert (error.fault, error.before_first_byte) == (UpstreamFault.CLOSED, False)
        assert served.requests == 2


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


async def test_nobody_listens() -> None:
    async with engine(answers(OK)) as served:
        pass
    async with client(served) as pooled:
        error = await fails(pooled)
        assert (error.fault, error.before_first_byte) == (UpstreamFault.CONNECT, False)


async def test_connecting_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: object, **kwargs: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    pooled = PooledClient("http://127.0.0.1:1", connect_timeout=0.01, idle=1, limit=1)
    for _ in range(2):  # the place of the first attempt is free again
        assert (await fails(pooled)).fault is UpstreamFault.CONNECT


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.linger()


async def test_a_request_given_up_before_its_head_closes_the_connection() -> None:
    async with engine(silent) as served, client(served) as pooled:
        waiting = asyncio.create_task(fetch_or_abandon(pooled))
        await until(lambda: served.requests == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await served.peers[0].gone()
        await until(lambda: pooled.connections == 0)


async def half_an_answer(peer: Peer) -> None:
    await peer.request()
    peer.writer.write(CHUNKED + b"1\r\na\r\n")
    await peer.linger()


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


async def test_connection_close_is_obeyed() -> None:
    async with engine(answers(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) as served, client(served) as pooled:
        assert [await fetch(pooled), await fetch(pooled)] == [b"ok", b"ok"]
        assert len(served.peers) == 2


@pytest.mark.parametrize("extra", [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad", b"junk"])
async def test_bytes_beyond_the_answer_never_reach_the_next_request(extra: bytes) -> None:
    async def says_too_much(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(OK + extra)
        await peer.linger()

    async with engine(says_too_much, answers(OK)) as served, client(served) as pooled:
        response = await post(pooled)
        body = b""
        try:
            body = await read_whole(response)
        except UpstreamError as error:
            assert error.fault is UpstreamFault.NOT_HTTP
        response.end(End.FINISHED)
        assert body in {b"", b"ok"}
        assert await fetch(pooled) == b"ok"
        assert len(served.peers) == 2


class TestLimit:
    async def test_no_more_connections_than_allowed(self) -> None:
        async with engine(half_an_answer) as served, client(served, limit=2) as pooled:
            held = [await post(pooled), await post(pooled)]
            assert (await fails(pooled)).fault is UpstreamFault.NO_CONNECTION
            for response in held:
                response.end(End.ABANDONED)

    async def test_an_abandoned_connection_frees_its_place_at_once(self) -> None:
        """A flight that cuts a thought abandons its leg and starts the next in the same breath."""
        async with engine(half_an_answer) as served, client(served, limit=1) as pooled:
            (await post(pooled)).end(End.ABANDONED)
            (await post(pooled)).end(End.ABANDONED)

    async def test_an_expired_idle_connection_is_not_in_the_way(self) -> None:
        async with engine(answers(OK)) as served, client(served, limit=1) as pooled:
            await fetch(pooled)
            pooled._free[0].idle_since -= 1_000
            assert await fetch(pooled) == b"ok"
            assert len(served.peers) == 2


async def test_closing_the_client_ends_running_answers() -> None:
    async with engine(half_an_answer) as served, client(served) as pooled:
        response = await post(pooled)
        assert await response.read() == b"a"
        reading = asyncio.create_task(response.read())
        await asyncio.sleep(0)
        pooled.close()
        with pytest.raises(UpstreamError):
            await reading
        response.end(End.ABANDONED)


async def test_a_reply_too_large_to_keep_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "MAX_REPLY", 4)
    async with engine(answers(SIZED)) as served, client(served) as pooled:
        assert "larger than 4" in str(await fails(pooled))


async def test_tls_is_verified_unless_told_otherwise(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=x"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with engine(answers(OK), tls=server) as served:
        async with client(served, tls=trusting) as pooled:
            assert [await fetch(pooled), await fetch(pooled)] == [b"ok", b"ok"]
            assert len([peer for peer in served.peers if peer.heads]) == 1
        async with client(served, tls=ssl.create_default_context()) as pooled:
            assert (await fails(pooled)).fault is UpstreamFault.CONNECT
