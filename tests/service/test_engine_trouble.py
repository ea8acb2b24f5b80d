"""Engines that are down, full, wrong, lying or dying: the client gets the truth, once, in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.exchange import End
from tests.doubles.script import thought
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.conftest import MODELS
from tests.service.talk import Stream, assert_complete, assert_error, chat, post, stream

EARLY = [{"die_after": 0}, {"status": 500}, {"status": 503}, {"error_first": 503}, {"drop_request": 1}]
FULL = {f"full-{status}-{model}": model for status in (503, 429, "days") for model in MODELS}
"""Pools of their own: a worker that names a time is not asked before it is over."""
IDLE = {"first_token": 20, "idle": 1.5}


@pytest.fixture(scope="module")
def pair(host: Host) -> Iterator[tuple[VllmDouble, VllmDouble]]:
    """Two replicas."""
    first, second = host.add(VllmDouble("pair")), host.add(VllmDouble("pair"))
    yield first, second
    host.remove(first)
    host.remove(second)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], doubles: dict[str, Double], pair: tuple[VllmDouble, VllmDouble]) -> Gateway:
    vllm, sglang, llama = doubles.values()
    hasty = {"first_token": 1, "idle": 1}
    pools = {
        "vllm": pool(vllm, timeouts=IDLE),
        "sglang": pool(sglang, timeouts=IDLE),
        "hasty": pool(vllm, model="hasty", upstream_model="v-model", timeouts=hasty),
        "pair": pool(*pair, timeouts=IDLE),
        **{name: pool(doubles[model], model=name, upstream_model=model) for name, model in FULL.items()},
        "llama": pool(llama, timeouts=IDLE),
    }
    return gateway(config(pools)).wait_workers(6 + len(FULL))


def _at(fault: str, tokens: int) -> dict[str, Any]:
    return {fault: tokens}


def assert_broken(told: Stream, key: str) -> dict[str, object]:
    """One terminal error event after a part of the truth, and no `[DONE]`."""
    assert told.status == 200
    assert len(told.errors) == 1
    assert "error" in told.events[-1]
    assert not told.done
    assert told.reasons == []
    assert thought(key, 24).startswith(told.thought.strip())
    error = told.errors[0]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "server_error"
    return error


class TestRefusals:
    @pytest.mark.parametrize("status", [503, 429])
    async def test_back_pressure_is_passed_on_with_its_delay(
        self, served: Gateway, model: str, double: Double, status: int
    ) -> None:
        key = f"full-{status}-{model}"
        response = await post(served.url, chat(f"full-{status}-{model}", key, status=status, retry_after=7))
        assert_error(response, status, "rate_limit_error" if status == 429 else "server_error")
        assert response.headers["retry-after"] == "7"
        assert len(double.of(key)) == 1

    async def test_a_worker_that_named_a_time_is_not_asked_before(
        self, served: Gateway, model: str, double: Double
    ) -> None:
        name = f"full-days-{model}"
        response = await post(served.url, chat(name, f"days-{model}", status=503, retry_after=999_999))
        assert response.headers["retry-after"] == "60", "SDKs would sleep for days"
        response = await post(served.url, chat(name, f"before-{model}"))
        assert_error(response, 503, "server_error", "engine_busy")
        assert 1 <= int(response.headers["retry-after"]) <= 60
        assert double.of(f"before-{model}") == []

    async def test_after_back_pressure_the_worker_serves_on(self, served: Gateway, model: str) -> None:
        for n in range(8):
            await post(served.url, chat(model, f"many-{n}-{model}", status=503))
        assert_complete(await stream(served.url, chat(model, f"then-{model}")), f"then-{model}")

    @pytest.mark.parametrize("streamed", [True, False])
    async def test_a_bad_request_is_the_clients(
        self, served: Gateway, model: str, double: Double, streamed: bool
    ) -> None:
        key = f"bad-{streamed}-{model}"
        response = await post(served.url, chat(model, key, status=400, stream=streamed))
        error = assert_error(response, 400, "invalid_request_error")
        assert "The double answers 400." in error["message"]
        assert len(double.of(key)) == 1

    @pytest.mark.parametrize(("code", "status"), [(503, 503), (400, 400), (500, 502)])
    async def test_an_error_as_first_event_becomes_a_status(
        self, served: Gateway, model: str, code: int, status: int
    ) -> None:
        """vLLM and SGLang say 200 before they know."""
        response = await post(served.url, chat(model, f"first-{code}-{model}", error_first=code))
        kind = "invalid_request_error" if status == 400 else "server_error"
        error = assert_error(response, status, kind)
        assert "The double refuses this." in error["message"]

    async def test_an_engine_that_fails_is_asked_a_second_time(self, served: Gateway, model: str) -> None:
        key = f"again-{model}"
        assert_complete(await stream(served.url, chat(model, key, status=500, times=1)), key)


class TestDown:
    async def test_a_dead_engine_is_an_error_until_it_is_back(
        self, served: Gateway, model: str, double: Double
    ) -> None:
        workers = (await served.metrics()).value("thinkgate_worker_ready")
        double.down()
        try:
            response = await post(served.url, chat(model, f"down-{model}"))
            error = assert_error(response, response.status_code, "server_error")
            assert response.status_code in {502, 503}
            assert "127.0.0.1" not in error["message"]
        finally:
            double.up()
        await served.wait_metric("thinkgate_worker_ready", {}, lambda ready: ready == workers)
        assert_complete(await stream(served.url, chat(model, f"back-{model}")), f"back-{model}")

    async def test_a_sick_engine_is_left_alone(self, served: Gateway, doubles: dict[str, Double]) -> None:
        sglang = doubles["s-model"]
        sglang.health = 503
        await served.wait_metric("thinkgate_worker_ready", {"pool": "sglang"}, lambda ready: ready == 0)
        assert_error(await post(served.url, chat("s-model", "sick")), 503, "server_error")
        assert sglang.of("sick") == []
        sglang.health = 200
        await served.wait_metric("thinkgate_worker_ready", {"pool": "sglang"}, lambda ready: ready == 1)


class TestBreaking:
    @pytest.mark.parametrize("fault", ["die_after", "eof_after", "drop_after", "error_after", "garbage_after"])
    async def test_in_mid_stream_is_one_error_event(self, served: Gateway, model: str, fault: str) -> None:
        key = f"{fault.replace('_', '-')}-{model}"
        told = await stream(served.url, chat(model, key, delay_ms=1, **_at(fault, 10)))
        assert_broken(told, key)

    @pytest.mark.parametrize("fault", ["die_after", "eof_after", "error_after"])
    async def test_in_mid_stream_is_a_502_for_who_waits_for_the_whole(
        self, served: Gateway, model: str, fault: str
    ) -> None:
        key = f"whole-{fault.replace('_', '-')}-{model}"
        response = await post(served.url, chat(model, key, stream=False, **_at(fault, 10)))
        assert_error(response, 502, "server_error")

    async def test_a_stall_is_ended_and_the_engine_let_go(self, served: Gateway, model: str, double: Double) -> None:
        key = f"stall-{model}"
        told = await stream(served.url, chat(model, key, stall_after=10))
        assert_broken(told, key)
        assert (await double.wait_end(double.of(key)[0])).end is End.ABORTED

    async def test_no_first_token_in_time(self, served: Gateway, doubles: dict[str, Double]) -> None:
        response = await post(served.url, chat("hasty", "hasty", stall_after=0))
        assert_error(response, 504, "server_error")
        assert response.headers["x-should-retry"] == "false"
        assert (await doubles["v-model"].wait_end(doubles["v-model"].of("hasty")[0])).end is End.ABORTED

    async def test_the_truth_after_a_lie_about_usage(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"lies-{model}", tells="lying"))
        assert_complete(told, f"lies-{model}")
        usage = told.usages[0]
        assert usage["completion_tokens_details"]["reasoning_tokens"] <= usage["completion_tokens"]

    async def test_usage_is_counted_if_the_engine_gives_none(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"none-{model}", tells="none"))
        assert_complete(told, f"none-{model}")
        assert told.usages[0]["completion_tokens"] >= 36


class TestReplicas:
    @pytest.mark.parametrize("fault", EARLY, ids=str)
    async def test_a_failure_before_the_first_token_is_not_seen(
        self, served: Gateway, pair: tuple[VllmDouble, VllmDouble], fault: dict[str, Any]
    ) -> None:
        key = f"pair-{'-'.join(f'{name}{value}' for name, value in fault.items()).replace('_', '-')}"
        assert_complete(await stream(served.url, chat("pair", key, times=1, **fault)), key)
        # A request dropped on a used connection is sent once more on a new one, to the same worker.
        assert sum(len(double.of(key)) for double in pair) == 2

    async def test_a_failure_after_it_is_never_repeated(
        self, served: Gateway, pair: tuple[VllmDouble, VllmDouble]
    ) -> None:
        """A second run from the start would say again what the client has read."""
        told = await stream(served.url, chat("pair", "seen", die_after=10, times=1, delay_ms=1))
        if told.errors:
            assert_broken(told, "seen")
        else:
            assert_complete(told, "seen")


class TestConnections:
    async def test_are_used_again(self, served: Gateway, model: str, double: Double) -> None:
        for n in range(3):
            await post(served.url, chat(model, f"reuse-{n}-{model}"))
        assert double.of(f"reuse-2-{model}")[0].number > 1

    async def test_closed_while_idle_cost_no_request(self, served: Gateway, model: str, double: Double) -> None:
        for n in range(5):
            key = f"idle-{n}-{model}"
            assert_complete(await stream(served.url, chat(model, key)), key)
            await double.wait_idle()
            double.close_idle()

    async def test_closed_under_a_request_without_a_byte_are_tried_afresh(
        self, served: Gateway, model: str, double: Double
    ) -> None:
        """The race that an idle timeout always leaves: closed just as the request was written."""
        await post(served.url, chat(model, f"warm-{model}"))
        double.drop_reused(1)
        assert_complete(await stream(served.url, chat(model, f"race-{model}")), f"race-{model}")
        double.drop_reused(0)

    async def test_none_is_left_in_use(self, served: Gateway, doubles: dict[str, Double]) -> None:
        await served.wait_grounded()
        for double in doubles.values():
            await double.wait_idle()
