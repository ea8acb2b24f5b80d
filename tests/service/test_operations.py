"""What operators rely on: comments in silence, a drain that cuts no thought, explanations, probes, relays."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.doubles.engine import Double
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_complete, assert_error, chat, post, stream


@pytest.fixture(scope="module")
def lively(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    """Sends a comment after a fifth of a second of silence."""
    return gateway(config({"vllm": pool(vllm)}, server={"keep_alive_comment": 0.2})).wait_workers(1)


class TestSilence:
    async def test_is_filled_with_comments_and_nothing_is_lost(self, lively: Gateway) -> None:
        told = await stream(lively.url, chat("v-model", "quiet", first_ms=900))
        assert_complete(told, "quiet")
        assert set(told.comments) == {": keep-alive"}
        assert len(told.comments) >= 2

    async def test_before_a_failure_ends_in_an_error_event(self, lively: Gateway) -> None:
        """The status is out with the first comment, so the error has to come in the stream."""
        told = await stream(lively.url, chat("v-model", "quiet-fails", first_ms=900, error_first=400))
        assert told.status == 200
        assert told.comments
        assert len(told.errors) == 1
        assert not told.done

    async def test_of_a_unary_request_stays_silent(self, lively: Gateway) -> None:
        answer = await post(lively.url, chat("v-model", "quiet-unary", stream=False, first_ms=700))
        assert answer.json()["choices"][0]["finish_reason"] == "stop"


class TestDrain:
    async def test_running_streams_finish_after_sigterm(
        self, gateway: Callable[..., Gateway], host: Host, vllm: VllmDouble
    ) -> None:
        one = gateway(config({"vllm": pool(vllm)}, server={"drain": 20})).wait_workers(1)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(stream(one.url, chat("v-model", "draining", think=150, delay_ms=10)))
            await vllm.wait_for("draining", tokens=20)
            one.process.send_signal(signal.SIGTERM)
        assert_complete(running.result(), "draining", think=150)
        assert await asyncio.to_thread(one.process.wait, 20) == 0


class TestProbes:
    async def test_alive_and_ready(self, served: Gateway) -> None:
        async with httpx.AsyncClient(base_url=served.url) as client:
            assert (await client.get("/livez")).text == "ok\n"
            ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json() == {
            "ready": True,
            "draining": False,
            "pools": {"vllm": True, "sglang": True, "llama": True},
        }

    async def test_without_a_worker_it_lives_and_is_not_ready(
        self, gateway: Callable[..., Gateway], host: Host
    ) -> None:
        nobody = VllmDouble("nobody")
        host.add(nobody)
        settings = config({"nobody": pool(nobody)})
        host.remove(nobody)
        one = gateway(settings)
        async with httpx.AsyncClient(base_url=one.url) as client:
            assert (await client.get("/livez")).status_code == 200
            assert (await client.get("/readyz")).status_code == 503
            answer = await client.post("/v1/chat/completions", json=chat("nobody", "unserved"))
        assert_error(answer, 503, "server_error", "no_ready_worker")
        assert 1 <= int(answer.headers["retry-after"]) <= 60

    async def test_workers_are_shown_with_their_state(self, served: Gateway) -> None:
        async with httpx.AsyncClient(base_url=served.url) as client:
            rows = (await client.get("/admin/workers")).json()["data"]
        assert {(row["pool"], row["state"]) for row in rows} == {
            ("vllm", "ready"), ("sglang", "ready"), ("llama", "ready")
        }  # fmt: skip


class TestModels:
    async def test_routes_and_models_are_listed(self, served: Gateway) -> None:
        async with httpx.AsyncClient(base_url=served.url) as client:
            listed = (await client.get("/v1/models")).json()
            one = (await client.get("/v1/models/v-alias")).json()
            missing = await client.get("/v1/models/no/such")
        assert [row["id"] for row in listed["data"]] == ["auto", "v-model", "s-model", "l-model"]
        assert (one["id"], one["object"], one["owned_by"]) == ("v-alias", "model", "vllm")
        assert_error(missing, 404, "invalid_request_error", "model_not_found")

    async def test_the_openapi_schema_tells_of_the_chat_route(self, served: Gateway) -> None:
        async with httpx.AsyncClient(base_url=served.url) as client:
            paths = (await client.get("/openapi.json")).json()["paths"]
        assert {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/v1/route"} <= set(paths)
        fields = paths["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {"model", "messages", "thinking_budget", "reasoning_effort"} <= set(fields["properties"])


class TestExplanation:
    async def test_says_what_would_be_done_and_generates_nothing(
        self, served: Gateway, doubles: dict[str, Double]
    ) -> None:
        before = [len(double.generations) for double in doubles.values()]
        question = "Prove that there are infinitely many primes of the form 4k+3."
        body: dict[str, Any] = {"model": "auto", "max_tokens": 800, "messages": [{"role": "user", "content": question}]}
        told = (await post(served.url, body, "/v1/route")).json()
        assert (told["route"], told["pool"]) == ("reasoning", "llama")
        assert told["plan"]["how"] == "cut"
        assert 0 < told["plan"]["thinking_cap"] <= 800 - told["plan"]["answer_reserve"]
        assert told["reasons"]
        assert question not in str(told)
        assert [len(double.generations) for double in doubles.values()] == before

    async def test_refuses_what_the_chat_route_refuses(self, served: Gateway) -> None:
        body = chat("v-model", "both", body={"enable_thinking": False, "thinking_budget": 5})
        assert_error(await post(served.url, body, "/v1/route"), 400, "invalid_request_error")


class TestRelays:
    async def test_completions_pass_through(self, served: Gateway, vllm: VllmDouble) -> None:
        answer = await post(served.url, {"model": "v-alias", "prompt": "Once", "max_tokens": 5}, "/v1/completions")
        assert answer.status_code == 200
        assert answer.json()["object"] == "text_completion"
        assert vllm.pardon("not-streamed"), "this route passes through as it is, unary too"

    async def test_completions_stream_through(self, served: Gateway) -> None:
        body = {"model": "v-model", "prompt": "Once", "max_tokens": 5, "stream": True}
        answer = await post(served.url, body, "/v1/completions")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.rstrip().endswith("data: [DONE]")

    async def test_embeddings_pass_through(self, served: Gateway) -> None:
        answer = await post(served.url, {"model": "v-model", "input": "Once"}, "/v1/embeddings")
        assert answer.json()["data"][0]["embedding"]

    @pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
    async def test_unknown_models_and_broken_bodies_are_refused(self, served: Gateway, path: str) -> None:
        assert_error(await post(served.url, {"model": "nobody"}, path), 404, "invalid_request_error", "model_not_found")
        assert_error(await post(served.url, b'{"model":', path), 400, "invalid_request_error", "invalid_json")
        assert_error(await post(served.url, {"prompt": "x"}, path), 400, "invalid_request_error")
