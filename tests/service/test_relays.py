"""/v1/completions and /v1/embeddings meet the same engines as chat does: full, failing, dying, silent, left alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import httpx
import pytest

from tests.doubles.exchange import End
from tests.doubles.script import ask, expected_answer
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_error, post, socket_to

PATH = "/v1/completions"
PROMPTLY = 5.0
"""Seconds, on a busy machine; a gateway that does not close at all takes for ever."""


@pytest.fixture(scope="module")
def pair(host: Host) -> Iterator[list[VllmDouble]]:
    doubles = [host.add(VllmDouble("pair")) for _ in range(2)]
    yield doubles
    for double in doubles:
        host.remove(double)


@pytest.fixture(scope="module")
def single(host: Host) -> Iterator[VllmDouble]:
    double = host.add(VllmDouble("single"))
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], pair: list[VllmDouble], single: VllmDouble) -> Gateway:
    pools = {
        "pair": pool(*pair, timeouts={"idle": 1.5}),
        "trice": pool(*pair, model="trice", upstream_model="pair"),
        "single": pool(single, timeouts={"idle": 1.5, "first_token": 20}),
        "hasty": pool(single, model="hasty", upstream_model="single", timeouts={"first_token": 1, "total": 1.5}),
        "busy": pool(single, model="busy", upstream_model="single"),
    }
    return gateway(config(pools)).wait_workers(7)


@pytest.fixture(autouse=True)
def unary_is_no_violation(no_violations: None, pair: list[VllmDouble], single: VllmDouble) -> Iterator[None]:
    """These routes pass through as they are asked, unary too."""
    yield
    for double in (*pair, single):
        double.violations[:] = [said for said in double.violations if not said.startswith("not-streamed")]


def completion(model: str, key: str, *, streamed: bool, **controls: Any) -> dict[str, Any]:
    return {"model": model, "prompt": ask(key, **controls), "stream": streamed}


def told(text: str) -> list[dict[str, Any]]:
    """The events of a stream but for `[DONE]`; every block has to be a whole one."""
    blocks = [block for block in text.split("\n\n") if block]
    assert all(block.startswith("data: ") for block in blocks), blocks[-3:]
    return [json.loads(block[6:]) for block in blocks if block != "data: [DONE]"]


def assert_whole(answer: httpx.Response, key: str, *, streamed: bool) -> None:
    assert answer.status_code == 200, answer.text
    if streamed:
        assert answer.text.count("data: [DONE]") == 1
        assert answer.text.rstrip().endswith("data: [DONE]")
        text = "".join(choice["text"] for event in told(answer.text) for choice in event["choices"])
    else:
        text = answer.json()["choices"][0]["text"]
    assert text.strip() == expected_answer(key, "")


def asked(doubles: list[VllmDouble], key: str) -> int:
    return sum(len(double.of(key)) for double in doubles)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "unary"])
class TestElsewhere:
    @pytest.mark.parametrize(
        "fault",
        [{"status": 500}, {"status": 503}, {"status": 429}, {"drop_request": 1}],
        ids=lambda fault: "-".join(f"{name}-{value}" for name, value in fault.items()).replace("_", "-"),
    )
    async def test_a_failure_that_nobody_has_seen_is_repaired(
        self, served: Gateway, pair: list[VllmDouble], fault: dict[str, Any], streamed: bool
    ) -> None:
        key = "-".join(["repair", *(f"{name}{value}" for name, value in fault.items()), str(streamed)]).replace(
            "_", "-"
        )
        answer = await post(served.url, completion("pair", key, streamed=streamed, times=1, **fault), PATH)
        assert_whole(answer, key, streamed=streamed)
        assert asked(pair, key) == 2

    async def test_three_are_asked_at_most(self, served: Gateway, pair: list[VllmDouble], streamed: bool) -> None:
        key = f"three-{streamed}"
        answer = await post(served.url, completion("trice", key, streamed=streamed, status=500), PATH)
        assert_error(answer, 502, "server_error")
        assert asked(pair, key) == 3

    async def test_a_bad_request_is_the_clients(self, served: Gateway, pair: list[VllmDouble], streamed: bool) -> None:
        key = f"bad-{streamed}"
        answer = await post(served.url, completion("pair", key, streamed=streamed, status=400), PATH)
        assert_error(answer, 400, "invalid_request_error")
        assert asked(pair, key) == 1

    async def test_a_full_pool_is_told_with_its_delay(
        self, served: Gateway, single: VllmDouble, streamed: bool
    ) -> None:
        key = f"full-{streamed}"
        body = completion("busy", key, streamed=streamed, status=429, retry_after=3)
        answer = await post(served.url, body, PATH)
        if answer.json()["error"]["type"] == "rate_limit_error":  # else it was the other case that it refused
            assert_error(answer, 429, "rate_limit_error")
            assert answer.headers["retry-after"] == "3"
            assert len(single.of(key)) == 1
        again = await post(served.url, completion("busy", f"{key}-again", streamed=streamed), PATH)
        assert_error(again, 503, "server_error", "engine_busy")
        assert 1 <= int(again.headers["retry-after"]) <= 3
        assert single.of(f"{key}-again") == []

    async def test_a_connection_that_was_closed_while_idle_costs_nothing(
        self, served: Gateway, single: VllmDouble, streamed: bool
    ) -> None:
        await post(served.url, completion("single", f"warm-{streamed}", streamed=streamed), PATH)
        single.drop_reused(1)
        key = f"race-{streamed}"
        answer = await post(served.url, completion("single", key, streamed=streamed), PATH)
        single.drop_reused(0)
        assert_whole(answer, key, streamed=streamed)

    async def test_a_client_that_leaves_stops_the_engine(
        self, served: Gateway, single: VllmDouble, streamed: bool
    ) -> None:
        key = f"leaves-{streamed}"
        raw = json.dumps(completion("single", key, streamed=streamed, ans=20_000, delay_ms=1)).encode()
        async with socket_to(served.port) as client:
            head = f"POST {PATH} HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}"
            await client.send(f"{head}\r\n\r\n".encode() + raw)
            exchange = await single.wait_for(key, tokens=20)
            left = monotonic()
        await single.wait_end(exchange)
        assert exchange.end is End.ABORTED
        assert exchange.detected is not None
        assert exchange.detected - left < PROMPTLY
        await served.wait_metric("thinkgate_abort_seconds_count", {"pool": "single"}, lambda count: count >= 1)


class TestEmbeddings:
    async def test_a_dead_worker_is_not_seen(self, served: Gateway, pair: list[VllmDouble]) -> None:
        pair[0].down()
        try:
            for number in range(10):
                answer = await post(served.url, {"model": "pair", "input": f"Once {number}"}, "/v1/embeddings")
                assert answer.status_code == 200, answer.text
        finally:
            pair[0].up()
        await served.wait_metric("thinkgate_worker_ready", {"pool": "pair"}, lambda ready: ready == 2)


class TestStreams:
    async def test_an_error_as_first_event_is_repaired_or_becomes_a_status(
        self, served: Gateway, pair: list[VllmDouble], single: VllmDouble
    ) -> None:
        """vLLM says 200 before it knows."""
        answer = await post(served.url, completion("trice", "first", streamed=True, error_first=500, times=1), PATH)
        assert_whole(answer, "first", streamed=True)
        assert asked(pair, "first") == 2
        answer = await post(served.url, completion("single", "refused", streamed=True, error_first=400), PATH)
        assert_error(answer, 400, "invalid_request_error")

    async def test_every_event_gets_through_at_once(self, served: Gateway, single: VllmDouble) -> None:
        body = completion("single", "held", streamed=True, stall_after=5)
        async with (
            httpx.AsyncClient(timeout=60) as client,
            client.stream("POST", f"{served.url}{PATH}", json=body) as answer,
        ):
            seen = ""
            async with asyncio.timeout(20):
                async for text in answer.aiter_text():
                    seen += text
                    if seen.count('"text"') >= 5:
                        break
            single.of("held")[0].release()

    @pytest.mark.parametrize("fault", ["die_after", "eof_after", "drop_after", "error_after", "stall_after"])
    async def test_a_break_is_one_error_event(self, served: Gateway, single: VllmDouble, fault: str) -> None:
        key = fault.replace("_", "-")
        controls: dict[str, Any] = {fault: 10}
        answer = await post(served.url, completion("single", key, streamed=True, delay_ms=1, **controls), PATH)
        events = told(answer.text)
        assert answer.status_code == 200
        assert [event for event in events if "error" in event] == events[-1:]
        assert set(events[-1]["error"]) == {"message", "type", "param", "code"}
        assert "[DONE]" not in answer.text
        assert len(single.of(key)) == 1, "what was seen is not said again"
        await single.wait_end(single.of(key)[0])

    async def test_no_first_event_in_time(self, served: Gateway, single: VllmDouble) -> None:
        answer = await post(served.url, completion("hasty", "silent", streamed=True, stall_after=0), PATH)
        assert_error(answer, 504, "server_error", "engine_timeout")
        assert (await single.wait_end(single.of("silent")[0])).end is End.ABORTED

    async def test_the_whole_time_is_limited(self, served: Gateway, single: VllmDouble) -> None:
        answer = await post(served.url, completion("hasty", "long", streamed=True, ans=9_000, delay_ms=1), PATH)
        events = told(answer.text)
        assert events[-1]["error"]["code"] == "deadline"
        assert (await single.wait_end(single.of("long")[0])).end is End.ABORTED
        answer = await post(served.url, completion("hasty", "whole", streamed=False, ans=9_000, delay_ms=1), PATH)
        assert_error(answer, 504, "server_error", "deadline")
        assert (await single.wait_end(single.of("whole")[0])).end is End.ABORTED


@pytest.mark.parametrize("path", [PATH, "/v1/embeddings", "/v1/chat/completions", "/v1/route", "/v1/feedback"])
async def test_what_is_refused_before_it_is_sent_is_counted_on_every_route(served: Gateway, path: str) -> None:
    before = (await served.metrics()).value("thinkgate_rejections_total", status="400")
    assert (await post(served.url, {"model": 7}, path)).status_code == 400
    assert (await served.metrics()).value("thinkgate_rejections_total", status="400") == before + 1
