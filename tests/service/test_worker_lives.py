"""Workers come, warm up, fail, drain and go while requests are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from hashlib import blake2b
from time import monotonic
from typing import Any

import httpx
import pytest

from gateway.edge.keys import hash_key
from tests.doubles.script import Script
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import LOOK_AGAIN, PATIENCE, Gateway, config, pool
from tests.service.talk import assert_complete, assert_error, chat, post, stream

ADMIN = {"authorization": "Bearer tg-admin"}
USER = {"authorization": "Bearer tg-user"}
KEYS = [
    {"alias": "admin", "hash": hash_key("tg-admin"), "admin": True},
    {"alias": "user", "hash": hash_key("tg-user")},
]


@pytest.fixture(scope="module")
def trio(host: Host) -> Iterator[list[VllmDouble]]:
    doubles = [host.add(VllmDouble("life")) for _ in range(3)]
    yield doubles
    for double in doubles:
        host.remove(double)


@pytest.fixture(scope="module")
def governed(gateway: Callable[..., Gateway], trio: list[VllmDouble]) -> Gateway:
    """One worker at first."""
    return gateway(config({"life": pool(trio[0])}, keys=KEYS)).wait_workers(1)


@pytest.fixture(scope="module")
def whole(gateway: Callable[..., Gateway], trio: list[VllmDouble]) -> Gateway:
    """All three."""
    return gateway(config({"life": pool(*trio)}, keys=KEYS)).wait_workers(3)


async def rows(served: Gateway) -> dict[str, dict[str, Any]]:
    """Workers by their address."""
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{served.url}/admin/workers", headers=ADMIN)
    return {row["url"]: row for row in answer.json()["data"]}


async def until_row(served: Gateway, url: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = monotonic() + PATIENCE
    while not holds(row := (await rows(served)).get(url, {})):
        assert monotonic() < deadline, row
        await asyncio.sleep(LOOK_AGAIN)
    return row


async def administer(served: Gateway, method: str, path: str = "", **more: Any) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.request(method, f"{served.url}/admin/workers{path}", **{"headers": ADMIN, **more})


class TestAdministration:
    async def test_a_worker_is_taken_in_drained_and_forgotten(self, governed: Gateway, trio: list[VllmDouble]) -> None:
        first, second = trio[:2]
        added = await administer(governed, "POST", json={"pool": "life", "url": f"{second.url}/v1/"})
        assert (added.status_code, added.json()["state"]) == (201, "pending")
        again = await administer(governed, "POST", json={"pool": "life", "url": second.url})
        assert_error(again, 409, "invalid_request_error", "worker_exists")
        await until_row(governed, second.url, lambda row: row["ready"])

        running = asyncio.create_task(stream(governed.url, chat("life", "long", think=400, delay_ms=5), USER))
        legs = [asyncio.create_task(double.wait_for("long", tokens=20)) for double in (first, second)]
        await asyncio.wait(legs, return_when=asyncio.FIRST_COMPLETED)
        for leg in legs:
            leg.cancel()
        home, other = (first, second) if first.of("long") else (second, first)
        named = {"pool": "life", "worker": home.url}
        busy = await administer(governed, "DELETE", params=named)
        assert_error(busy, 409, "invalid_request_error", "worker_busy")
        drained = await administer(governed, "POST", "/drain", json=named)
        assert (drained.status_code, drained.json()["state"]) == (202, "draining")
        for number in range(5):
            assert_complete(await stream(governed.url, chat("life", f"late-{number}"), USER), f"late-{number}")
            assert other.of(f"late-{number}")
        assert_complete(await running, "long", think=400)
        await until_row(governed, home.url, lambda row: row["state"] == "gone")
        gone = await administer(governed, "DELETE", params=named)
        assert gone.status_code == 200
        assert set(await rows(governed)) == {other.url}
        metrics = await governed.metrics()
        assert not [labels for _, labels, _ in metrics.samples if labels.get("worker") == home.url.split("//")[1]]

    @pytest.mark.parametrize(
        ("path", "body", "status", "code"),
        [
            ("", {"pool": "nobody", "url": "http://10.0.0.7:8000"}, 404, "pool_not_found"),
            ("", {"pool": "life", "url": "10.0.0.7:8000"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": "http://10.0.0.7:8000", "weight": 2}, 400, "invalid_value"),
            ("", {"pool": "life"}, 400, "invalid_value"),
            ("", [], 400, "invalid_json"),
            ("", {"pool": "life", "url": "ftp://10.0.0.7"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": "http://10.0.0.7:99999"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": "http://user:s3cret@10.0.0.7"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": "http://10.0.0.7/?a=b"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": "http://no such host"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": "http://b\u00fccher:8000"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": "http://[::1"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": "http://10.0.0.7/a b"}, 400, "invalid_value"),
            ("", {"pool": "life", "url": ["http://10.0.0.7:8000"]}, 400, "invalid_value"),
            ("", {"pool": 5, "url": "http://10.0.0.7:8000"}, 400, "invalid_value"),
            ("", {"pool": "x" * 5_000, "url": "http://10.0.0.7:8000"}, 404, "pool_not_found"),
            ("", {"pool": "life", "url": "x" * 70_000}, 413, "request_too_large"),
            ("", "http://10.0.0.7:8000", 400, "invalid_json"),
            ("/drain", {"pool": "life", "worker": "nobody:1"}, 404, "worker_not_found"),
            ("/drain", {"pool": "nobody", "worker": "nobody:1"}, 404, "pool_not_found"),
            ("/drain", {"pool": "life", "worker": None}, 400, "invalid_value"),
            ("/nothing", {}, 404, "not_found"),
        ],
    )
    async def test_what_makes_no_sense_is_refused_and_traffic_goes_on(
        self, governed: Gateway, path: str, body: Any, status: int, code: str
    ) -> None:
        error = assert_error(await administer(governed, "POST", path, json=body), status, "invalid_request_error", code)
        assert len(error["message"]) < 500
        assert "s3cret" not in error["message"], "a password is not told again"
        key = f"on-{code}-{blake2b(str(body).encode(), digest_size=4).hexdigest()}".replace("_", "-")
        assert_complete(await stream(governed.url, chat("life", key), USER), key)

    async def test_who_is_to_be_forgotten_has_to_be_there(self, governed: Gateway) -> None:
        for params, status, code in (
            ({"pool": "life", "worker": "nobody:1"}, 404, "worker_not_found"),
            ({"pool": "nobody", "worker": "nobody:1"}, 404, "pool_not_found"),
            ({"pool": "life"}, 400, "invalid_request"),
            ({}, 400, "invalid_request"),
            ({"pool": "life", "worker": "nobody:1", "force": "banana"}, 400, "invalid_request"),
        ):
            answer = await administer(governed, "DELETE", params=params)
            assert_error(answer, status, "invalid_request_error", code)
        assert_error(await administer(governed, "PUT", json={}), 405, "invalid_request_error", "method_not_allowed")

    async def test_only_administrators_may(self, governed: Gateway) -> None:
        for headers, status in ((USER, 403), ({}, 401)):
            for method, path in (("GET", ""), ("POST", ""), ("POST", "/drain"), ("DELETE", "?pool=life&worker=x")):
                answer = await administer(governed, method, path, headers=headers)
                kind = "permission_error" if status == 403 else "authentication_error"
                assert_error(answer, status, kind, "forbidden" if status == 403 else "invalid_api_key")


class TestFailing:
    @pytest.mark.parametrize("control", [{"status": 429}, {"status": 503}, {"status": 400}, {"error_first": 503}])
    async def test_nobody_is_ejected_for_being_full_or_for_a_clients_fault(
        self, whole: Gateway, control: dict[str, int]
    ) -> None:
        """Peers refuse a healthy worker after a few of them (sglang#39464, #25811, #25822, #26713)."""
        for number in range(30):
            await post(whole.url, chat("life", f"no-{number}-{next(iter(control.values()))}", **control), headers=USER)
        metrics = await whole.metrics()
        assert metrics.value("thinkgate_worker_ejections_total") == 0
        assert metrics.value("thinkgate_worker_ready") == 3

    async def test_one_that_fails_is_ejected_and_no_client_sees_it(
        self, gateway: Callable[..., Gateway], trio: list[VllmDouble]
    ) -> None:
        """A gateway of its own: the others' failures have spent the budget of retries."""
        whole = gateway(config({"life": pool(*trio)}, keys=KEYS)).wait_workers(3)
        sick = trio[0]
        sick.default = Script(error_first=500)
        try:
            for number in range(60):
                key = f"around-{number}"
                assert_complete(await stream(whole.url, chat("life", key), USER), key)
                if not (row := (await rows(whole))[sick.url])["ready"]:
                    break  # looked at now: its time is short, and a canary follows
            assert (row["state"], row["reason"]) == ("ejected", "its requests fail")
            worker = sick.url.split("//")[1]
            metrics = await whole.metrics()
            labels = {"worker": worker, "cause": "failures"}
            assert metrics.value("thinkgate_worker_ejections_total", **labels) == 1
            assert metrics.value("thinkgate_worker_verdicts_total", worker=worker, verdict="failure") == 5
        finally:
            sick.default = Script()


class TestWarmingUp:
    async def test_a_server_that_cannot_generate_yet_gets_no_traffic(
        self, gateway: Callable[..., Gateway], host: Host, trio: list[VllmDouble]
    ) -> None:
        """/health is 200 and the model is listed while the first kernels still compile."""
        compiling = host.add(VllmDouble("life", default=Script(status=503)))
        try:
            served = gateway(config({"life": pool(trio[1], compiling)}, keys=KEYS)).wait_workers(1)
            row = await until_row(served, compiling.url, lambda row: row["state"] == "warming")
            await until_row(served, compiling.url, lambda row: "answered with 503" in row["reason"])
            for number in range(10):
                key = f"meanwhile-{number}"
                assert_complete(await stream(served.url, chat("life", key), USER), key)
                assert not compiling.of(key)
            compiling.default = Script()
            row = await until_row(served, compiling.url, lambda row: row["ready"])
            assert row["share"] < 0.5
            assert (await served.metrics()).value("thinkgate_worker_ejections_total") == 0
        finally:
            host.remove(compiling)


class TestDiscovery:
    async def test_workers_are_found_by_a_name(self, gateway: Callable[..., Gateway], trio: list[VllmDouble]) -> None:
        """`localhost` may have an IPv6 address too, where nobody listens: it is a worker that never gets ready."""
        settings = {**pool(trio[0]), "workers": [], "discover": f"http://localhost:{trio[0].port}"}
        served = gateway(config({"life": settings}, keys=KEYS)).wait_workers(1)
        assert_complete(await stream(served.url, chat("life", "found"), USER), "found")
        assert (await rows(served))[trio[0].url]["ready"]
