"""`deploy/nginx/thinkgate.conf` on a real nginx, between a real gateway and a client that hides nothing.

Around it stands what a distribution or a colleague may have set for all servers: compression of everything, and no heed
of `X-Accel-Buffering`. So the file's own lines are what is tried; without them, `careless` shows what would happen.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.doubles.exchange import End
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import PATIENCE, Gateway, config, pool
from tests.proxies import Proxy, free_port, is_installed, nginx, nobody
from tests.service.talk import Listener, assert_complete, assert_error, chat, post, socket_to, stream

pytestmark = pytest.mark.skipif(not is_installed("nginx"), reason="nginx is not installed (Debian package nginx-light)")

SHIPPED: Final = (Path(__file__).parents[2] / "deploy" / "nginx" / "thinkgate.conf").read_text(encoding="utf-8")
COMPRESSING: Final = {"    gzip off;": "#"}
CARELESS: Final = COMPRESSING | {"    proxy_buffering off;": "#"}
COMPRESSED: Final = "gzip on; gzip_types *; gzip_min_length 1; gzip_proxied any;\n"
AROUND: Final = f"{COMPRESSED} proxy_ignore_headers X-Accel-Buffering;\n"
LIMIT: Final = 32 * 1024 * 1024
HOPS: Final = {"connection", "date", "server", "transfer-encoding"}
"""Headers that are each server's own."""


def shipped(port: int, *gateways: str, changes: dict[str, str] | None = None) -> str:
    """The file, for loopback. Of all that is changed there must be exactly one."""
    servers = "\n    ".join(f"server {url.removeprefix('http://')} max_fails=3;" for url in gateways)
    changed = SHIPPED
    for old, new in {
        "listen 80 default_server;": f"listen 127.0.0.1:{port} default_server;",
        "server 127.0.0.1:8080 max_fails=3;": servers,
        **(changes or {}),
    }.items():
        assert changed.count(old) == 1, old
        changed = changed.replace(old, new)
    return changed


@pytest.fixture(scope="module")
def behind(gateway: Callable[..., Gateway], vllm: VllmDouble, sglang: SglangDouble) -> Gateway:
    """Sends a comment after a fifth of a second of silence, and grades a prompt in the same way each time."""
    pools = {"vllm": pool(vllm), "sglang": pool(sglang)}
    settings = config(pools, server={"keep_alive_comment": 0.2}, router={"mode": "fast"})
    return gateway(settings).wait_workers(2)


@pytest.fixture(scope="module")
def front(behind: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[dict[str, str]], Proxy]]:
    """Starts nginx with the file, these lines of it changed; all end with the module."""
    with ExitStack() as stack:

        def start(changes: dict[str, str]) -> Proxy:
            port = free_port()
            http = AROUND + shipped(port, behind.url, changes=changes)
            return stack.enter_context(nginx(tmp_path_factory.mktemp("nginx"), http, port))

        yield start


@pytest.fixture(scope="module")
def proxy(front: Callable[[dict[str, str]], Proxy]) -> Proxy:
    """The file as it is."""
    return front({})


@pytest.fixture(scope="module")
def compressing(front: Callable[[dict[str, str]], Proxy]) -> Proxy:
    """Without `gzip off`: what is compressed is sent on with every token all the same."""
    return front(COMPRESSING)


@pytest.fixture(scope="module")
def careless(front: Callable[[dict[str, str]], Proxy]) -> Proxy:
    """Without `proxy_buffering off` either: the compressor keeps what it has."""
    return front(CARELESS)


@pytest.fixture(scope="module")
def secure(front: Callable[[dict[str, str]], Proxy], tmp_path_factory: pytest.TempPathFactory) -> int:
    """The port where TLS and HTTP/2 are spoken, with the lines of the file that stand there as comments."""
    if shutil.which("openssl") is None or shutil.which("curl") is None:
        pytest.skip("openssl and curl are not installed")
    folder = tmp_path_factory.mktemp("secure")
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    subprocess.run(
        [*make.split(), "-keyout", "tls.key", "-out", "tls.crt"], cwd=folder, check=True, capture_output=True
    )
    port = free_port()
    front(
        {
            "# listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
            "# ssl_certificate /etc/nginx/tls/tls.crt;": f"ssl_certificate {folder}/tls.crt;",
            "# ssl_certificate_key /etc/nginx/tls/tls.key;": f"ssl_certificate_key {folder}/tls.key;",
        }
    )
    return port


def test_nginx_finds_no_fault_in_the_file(tmp_path: Path) -> None:
    port = free_port()
    told = nginx(tmp_path, shipped(port, "http://127.0.0.1:8080"), port).check()
    assert "warn" not in told


class TestStreams:
    @pytest.mark.parametrize("tokens", [1, 7])
    @pytest.mark.parametrize("settings", ["proxy", "compressing"])
    async def test_a_token_is_there_before_the_next_is_made(
        self, request: pytest.FixtureRequest, vllm: VllmDouble, settings: str, tokens: int
    ) -> None:
        chosen: Proxy = request.getfixturevalue(settings)
        key = f"held-{settings}-{tokens}"
        listener = Listener("v-model", tokens)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(listener.listen(chosen.url, key))
            await listener.wait()
            exchange = await vllm.wait_for(key)
            assert (exchange.end, exchange.tokens) == (End.RUNNING, tokens)
            exchange.release()
        assert_complete(listening.result(), key)

    async def test_without_the_lines_it_would_not_be(self, behind: Gateway, careless: Proxy, vllm: VllmDouble) -> None:
        """Nothing comes, though the gateway has told a client that asked later, and nginx has served another since."""
        listener, witness = Listener("v-model", 7), Listener("v-model", 7)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(listener.listen(careless.url, "kept"))
            kept = await vllm.wait_for("kept", tokens=7)
            group.create_task(witness.listen(behind.url, "later"))
            await witness.wait()
            async with httpx.AsyncClient() as other:
                assert (await other.get(f"{careless.url}/readyz")).status_code == 200
            assert listener.heard == 0
            kept.release()
            (await vllm.wait_for("later")).release()
        assert_complete(listening.result(), "kept")

    async def test_comments_come_before_the_first_token(self, proxy: Proxy, vllm: VllmDouble) -> None:
        async with socket_to(proxy.port) as client:
            await client.send_chat(chat("v-model", "silent", first_ms=600_000))
            seen = await client.read_until(b": keep-alive\n\n", 2)
        assert b"data:" not in seen
        assert (await vllm.wait_end(await vllm.wait_for("silent"))).tokens == 0

    async def test_are_whole_and_not_compressed_for_who_accepts_it(self, proxy: Proxy) -> None:
        told = await stream(proxy.url, chat("v-model", "whole"), {"accept-encoding": "gzip, br"})
        assert_complete(told, "whole")
        assert "content-encoding" not in told.headers

    async def test_would_be_compressed_without_the_line(self, careless: Proxy) -> None:
        told = await stream(careless.url, chat("v-model", "packed"), {"accept-encoding": "gzip"})
        assert told.headers["content-encoding"] == "gzip"

    async def test_tell_the_next_proxy_not_to_buffer(self, proxy: Proxy) -> None:
        assert (await stream(proxy.url, chat("v-model", "onwards"))).headers["x-accel-buffering"] == "no"


class TestLeaving:
    @pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "unary"])
    async def test_stops_the_engine(self, proxy: Proxy, vllm: VllmDouble, streamed: bool) -> None:
        key = f"leaves-{streamed}"
        async with socket_to(proxy.port) as client:
            await client.send_chat(chat("v-model", key, stream=streamed, stall_after=10))
            exchange = await vllm.wait_for(key, tokens=10)
        await vllm.wait_end(exchange)
        assert (exchange.end, exchange.tokens) == (End.ABORTED, 10)


class TestHttp2:
    async def test_a_token_is_there_before_the_next_and_leaving_stops_the_engine(
        self, secure: int, vllm: VllmDouble
    ) -> None:
        body = httpx.Request("POST", "http://x", json=chat("v-model", "second", stall_after=7)).content
        address = f"https://127.0.0.1:{secure}/v1/chat/completions"
        command = [
            "curl",
            "-siNk",
            "--http2",
            "--compressed",
            "-H",
            "content-type: application/json",
            "-d",
            "@-",
            address,
        ]
        curl = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        assert curl.stdin is not None
        assert curl.stdout is not None
        try:
            curl.stdin.write(body)
            curl.stdin.close()
            seen = b""
            async with asyncio.timeout(PATIENCE):
                while seen.count(b'"reasoning_content"') < 7:
                    data = await curl.stdout.read(65_536)
                    assert data, seen
                    seen += data
        finally:
            curl.kill()
            await curl.wait()
        assert seen.startswith(b"HTTP/2 200")
        exchange = await vllm.wait_end(await vllm.wait_for("second"))
        assert (exchange.end, exchange.tokens) == (End.ABORTED, 7)


class TestAnswers:
    """What the gateway says passes as it is."""

    async def test_have_all_their_headers(self, behind: Gateway, proxy: Proxy) -> None:
        asked = {"x-request-id": "asked.by-me_1"}
        straight = await stream(behind.url, chat("v-model", "same"), asked)
        through = await stream(proxy.url, chat("v-model", "same"), asked)
        ours = {name: value for name, value in straight.headers.items() if name not in HOPS}
        assert ours["x-request-id"] == "asked.by-me_1"
        assert {"x-thinkgate-pool", "x-thinkgate-thinking-cap", "cache-control", "content-type"} <= set(ours)
        assert {name: value for name, value in through.headers.items() if name not in HOPS} == ours

    @pytest.mark.parametrize("body", [b'{"model":', b'{"model": "nobody", "messages": []}'], ids=["broken", "unknown"])
    async def test_errors_are_the_same(self, behind: Gateway, proxy: Proxy, body: bytes) -> None:
        straight, through = await post(behind.url, body), await post(proxy.url, body)
        assert 400 <= straight.status_code < 500
        assert (through.status_code, through.content) == (straight.status_code, straight.content)

    async def test_back_pressure_keeps_its_pause(self, proxy: Proxy) -> None:
        answer = await post(proxy.url, chat("s-model", "busy", stream=False, status=429, retry_after="7"))
        assert_error(answer, 429, "rate_limit_error", "engine_busy")
        assert answer.headers["retry-after"] == "7"
        assert answer.headers["x-thinkgate-pool"] == "sglang"

    async def test_a_502_of_the_gateway_is_not_taken_for_nginx_own(self, proxy: Proxy) -> None:
        answer = await post(proxy.url, chat("v-model", "fails", stream=False, status=500))
        assert_error(answer, 502, "server_error", "engine_error")

    async def test_an_id_that_is_none_is_replaced_for_all(self, proxy: Proxy, vllm: VllmDouble) -> None:
        answer = await post(proxy.url, chat("v-model", "named"), headers={"x-request-id": "no id"})
        given = answer.headers["x-request-id"]
        assert len(given) == 32
        assert (await vllm.wait_for("named")).request_id.startswith(given)


class TestBodies:
    async def test_of_the_limit_pass(self, proxy: Proxy) -> None:
        body = httpx.Request("POST", "http://x", json=chat("v-model", "long", stream=False)).content
        answer = await post(proxy.url, body.ljust(LIMIT))
        assert answer.json()["choices"][0]["finish_reason"] == "stop"

    async def test_above_are_refused_in_the_gateways_words(self, behind: Gateway, proxy: Proxy) -> None:
        heads: list[tuple[bytes, bytes]] = []
        for port in (behind.port, proxy.port):
            async with socket_to(port) as client:
                head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {LIMIT + 1}\r\n\r\n"
                await client.send(head.encode())
                told = await client.read_until(b"}}")
                heads.append((told.split(b"\r\n")[0].split()[1], told.partition(b"\r\n\r\n")[2]))
        assert heads[0][0] == b"413"
        assert heads[1] == heads[0]

    async def test_above_are_refused_though_no_length_was_announced(self, proxy: Proxy) -> None:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(33):
                yield b" " * 1024 * 1024

        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{proxy.url}/v1/chat/completions", content=parts())
        assert_error(answer, 413, "invalid_request_error", "request_too_large")
        assert answer.headers["x-request-id"]


INSIDE: Final = ["/metrics", "/admin/workers", "/admin/loops", "/admin/reload", "/docs", "/openapi.json", "/livez", "/"]
DETOURS: Final = [
    "//admin/workers",
    "/v1/../admin/workers",
    "/v1/%2e%2e/admin/workers",
    "/v1/..%2fadmin/workers",
    "/v1/./../metrics?x=/v1/",
    "/admin/workers/../../v1/models",
    "/admin%2fworkers/../../v1/models",
    "/metrics/../v1/models",
    "/metrics#/../v1/models",
]


class TestWhatStaysInside:
    @pytest.mark.parametrize("path", INSIDE + DETOURS)
    async def test_is_not_found(self, proxy: Proxy, path: str) -> None:
        async with socket_to(proxy.port) as client:
            await client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            told = await client.read_all()
        assert told.split(b"\r\n")[0].split()[1] == b"404", told
        assert b'"code":"not_found"' in told

    async def test_is_there_for_who_is_inside(self, behind: Gateway) -> None:
        async with httpx.AsyncClient(base_url=behind.url) as client:
            for path in ("/metrics", "/admin/workers", "/livez"):
                assert (await client.get(path)).status_code == 200

    async def test_readiness_may_be_asked(self, proxy: Proxy) -> None:
        async with httpx.AsyncClient(base_url=proxy.url) as client:
            assert (await client.get("/readyz")).json()["ready"] is True
            assert (await client.get("/v1/models")).status_code == 200


class TestNginxOwnErrors:
    async def test_of_a_gateway_that_is_gone(self, tmp_path: Path) -> None:
        port = free_port()
        with nobody() as gone, nginx(tmp_path, shipped(port, gone), port) as alone:
            answer = await post(alone.url, chat("v-model", "nobody"), headers={"x-request-id": "mine"})
        assert_error(answer, 502, "server_error", "gateway_unreachable")
        assert answer.json()["error"]["message"] == "No gateway can be reached."
        assert (answer.headers["retry-after"], answer.headers["x-request-id"]) == ("2", "mine")
        assert "x-should-retry" not in answer.headers

    @pytest.mark.parametrize("first", ["", "refused"], ids=["alone", "after one that is gone"])
    async def test_of_a_gateway_that_dies_of_it(self, tmp_path: Path, first: str) -> None:
        """No SDK sends again what a gateway has got, though the first that was tried may have refused."""
        port = free_port()
        async with breaking() as (dying, got):
            with nobody() as gone:
                gateways = [gone, dying] if first else [dying]
                # In their order, and not the one that has least to do.
                http = shipped(port, *gateways, changes={"    least_conn;": "    #"})
                with nginx(tmp_path, http, port) as proxy:
                    answer = await post(proxy.url, chat("v-model", "lost"), headers={"x-request-id": "mine"})
        assert_error(answer, 502, "server_error", "gateway_unreachable")
        assert answer.json()["error"]["message"] == "The connection to the gateway was lost."
        assert (answer.headers["x-should-retry"], answer.headers["x-request-id"]) == ("false", "mine")
        assert "retry-after" not in answer.headers
        assert len(got) == 1

    async def test_of_a_gateway_that_says_nothing_for_too_long(
        self, behind: Gateway, vllm: VllmDouble, tmp_path: Path
    ) -> None:
        """The engine is let go, and no SDK begins the same again, though the first that was tried refused."""
        port = free_port()
        # Long enough for a slow machine to bring the request to the engine.
        hurried = {"proxy_read_timeout 3660s;": "proxy_read_timeout 3s;", "    least_conn;": "    #"}
        with nobody() as gone, nginx(tmp_path, shipped(port, gone, behind.url, changes=hurried), port) as hasty:
            answer = await post(hasty.url, chat("v-model", "endless", stream=False, stall_after=3))
        assert_error(answer, 504, "server_error", "gateway_timeout")
        assert answer.headers["x-should-retry"] == "false"
        assert (await vllm.wait_end(await vllm.wait_for("endless"))).end is End.ABORTED


class TestSeveralGateways:
    async def test_one_that_is_gone_costs_nothing(self, behind: Gateway, tmp_path: Path) -> None:
        port = free_port()
        with nobody() as gone, nginx(tmp_path, shipped(port, gone, behind.url), port) as both:
            for n in range(3):
                assert_complete(await stream(both.url, chat("v-model", f"other-{n}")), f"other-{n}")

    async def test_what_one_has_got_is_never_sent_to_another(self, tmp_path: Path) -> None:
        port = free_port()
        async with breaking() as (one, got_one), breaking() as (other, got_other):
            with nginx(tmp_path, shipped(port, one, other), port) as both:
                answer = await post(both.url, chat("v-model", "once"))
        assert_error(answer, 502, "server_error", "gateway_unreachable")
        assert len(got_one) + len(got_other) == 1

    async def test_one_lost_request_does_not_send_all_others_elsewhere(self, behind: Gateway, tmp_path: Path) -> None:
        """A gateway is left out after three within ten seconds, and not after the first."""
        port = free_port()
        async with breaking() as (dying, got):
            with nginx(tmp_path, shipped(port, dying, behind.url), port) as both:
                codes = [(await post(both.url, b"{}")).status_code for _ in range(10)]
        assert codes.count(502) == len(got) == 3


DEBIAN: Final = "server {{ listen {at} default_server; root {folder}; server_name _; location / {{ return 418; }} }}\n"
IMAGE: Final = "server {{ listen {at}; server_name localhost; location / {{ return 418; }} }}\n"
"""What the sites that nginx comes with say of who is served (nginx-light 1.22 of Debian, the image nginx:1.29)."""


class TestStockSites:
    @pytest.mark.parametrize("is_first", [True, False], ids=["before", "behind"])
    def test_beside_debians_it_is_refused(self, tmp_path: Path, is_first: bool) -> None:
        """Instead of standing there without effect."""
        port = free_port()
        stock = DEBIAN.format(at=f"127.0.0.1:{port}", folder=tmp_path)
        files = [stock, shipped(port, "http://127.0.0.1:8080")]
        with pytest.raises(AssertionError, match="duplicate default server"):
            nginx(tmp_path, "\n".join(files if is_first else files[::-1]), port).check()

    @pytest.mark.parametrize("is_first", [True, False], ids=["before", "behind"])
    async def test_beside_the_images_it_answers_by_any_name_but_localhost(self, tmp_path: Path, is_first: bool) -> None:
        port = free_port()
        with nobody() as gone:
            files = [IMAGE.format(at=f"127.0.0.1:{port}"), shipped(port, gone)]
            with nginx(tmp_path, "\n".join(files if is_first else files[::-1]), port) as proxy:
                async with httpx.AsyncClient(base_url=proxy.url) as client:
                    ours = await client.get("/v1/models", headers={"host": "llm.example.com"})
                    theirs = await client.get("/v1/models", headers={"host": "localhost"})
        assert (ours.status_code, theirs.status_code) == (502, 418)


@asynccontextmanager
async def breaking() -> AsyncIterator[tuple[str, list[bytes]]]:
    """The address of a gateway that dies of each request, and what it got."""
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", got


AS_IT_COMES: Final = COMPRESSED + "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {url}; }} }}"


class TestNginxAsItComes:
    """Buffering and compression on, HTTP/1.0 to the gateway: what `X-Accel-Buffering` is sent for."""

    async def test_every_token_gets_through_at_once(self, behind: Gateway, vllm: VllmDouble, tmp_path: Path) -> None:
        port, listener = free_port(), Listener("v-model", 5)
        with nginx(tmp_path, AS_IT_COMES.format(port=port, url=behind.url), port) as plain:
            async with asyncio.TaskGroup() as group:
                group.create_task(listener.listen(plain.url, "plain"))
                await listener.wait()
                (await vllm.wait_for("plain")).release()
