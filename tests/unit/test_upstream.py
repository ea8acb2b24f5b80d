"""The pooled client against a raw server: connections reused, expired, replaced, limited, given up, encrypted."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from gateway.upstream import End, PooledClient, Terms, UpstreamError, UpstreamFault, read_whole
from tests.rawengine import (
    OK,
    Peer,
    answers,
    client,
    engine,
    fails,
    fetch,
    fetch_or_abandon,
    half_an_answer,
    post,
    silent,
    until,
)


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
    pooled = PooledClient("http://127.0.0.1:1", Terms(connect=0.01, idle=1, limit=1))
    for _ in range(2):  # the place of the first attempt is free again
        assert (await fails(pooled)).fault is UpstreamFault.CONNECT


async def test_a_request_given_up_before_its_head_closes_the_connection() -> None:
    async with engine(silent) as served, client(served) as pooled:
        waiting = asyncio.create_task(fetch_or_abandon(pooled))
        await until(lambda: served.requests == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await served.peers[0].gone()
        await until(lambda: pooled.connections == 0)


async def test_connection_close_is_obeyed() -> None:
    async with (
        engine(answers(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) as served,
        client(served) as pooled,
    ):
        assert [await fetch(pooled), await fetch(pooled)] == [b"ok", b"ok"]
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


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """(certificate, key) of 127.0.0.1, signed by itself."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=x"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


async def test_tls_is_spoken_and_verified(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with engine(answers(OK), tls=server) as served:
        async with client(served, tls=trusting) as pooled:
            assert [await fetch(pooled), await fetch(pooled)] == [b"ok", b"ok"]
            assert len([peer for peer in served.peers if peer.heads]) == 1
        async with client(served, tls=ssl.create_default_context()) as pooled:
            assert (await fails(pooled)).fault is UpstreamFault.CONNECT


async def test_an_endless_head_is_an_error_and_not_a_full_memory() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(b"HTTP/1.1 200 OK\r\nx: ")
        while True:
            peer.writer.write(b"x" * 65_536)
            await peer.writer.drain()

    async with engine(endless) as served, client(served) as pooled:
        with pytest.raises(UpstreamError, match="longer than 65536 bytes"):
            await pooled.post("/v1/x", {}, b"{}")
