"""A chat through the whole gateway: complete, in order, clean of markers, rightly counted, rightly labelled."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.script import expected_answer, thought
from tests.harness import Gateway
from tests.service.talk import Stream, assert_complete, assert_error, chat, post, stream

THINK, ANS = 24, 12


def assert_usage(usage: dict[str, object], think: int = THINK, ans: int = ANS) -> None:
    """Markers, the white space around them and the end token may count, nothing else."""
    details = usage["completion_tokens_details"]
    assert isinstance(details, dict)
    completion, prompt = usage["completion_tokens"], usage["prompt_tokens"]
    assert isinstance(completion, int)
    assert isinstance(prompt, int)
    assert think <= details["reasoning_tokens"] <= think + 3
    assert think + ans <= completion <= think + ans + 8
    assert prompt > 0
    assert usage["total_tokens"] == prompt + completion


class TestStreamed:
    async def test_arrives_whole_and_in_order(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"whole-{model}"))
        assert_complete(told, f"whole-{model}")

    async def test_usage_comes_once_with_no_choices_before_done(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"usage-{model}"))
        assert len(told.usages) == 1
        assert told.events[-1]["usage"] == told.usages[0]
        assert told.events[-1]["choices"] == []
        assert_usage(told.usages[0])

    async def test_no_usage_unless_asked(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"silent-{model}", usage=False))
        assert told.usages == []
        assert all(event["choices"] for event in told.events)

    async def test_every_chunk_is_of_one_answer(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"one-{model}"))
        assert len({event["id"] for event in told.events}) == 1
        assert {event["object"] for event in told.events} == {"chat.completion.chunk"}
        assert {event["model"] for event in told.events} == {model}
        assert [delta["role"] for delta in told.deltas if delta.get("role")] == ["assistant"]

    async def test_headers_say_what_was_decided(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"heads-{model}"))
        heads = told.headers
        assert heads["content-type"] == "text/event-stream; charset=utf-8"
        assert heads["cache-control"] == "no-cache"
        assert heads["x-accel-buffering"] == "no"
        assert heads["x-thinkgate-route"] in {"standard", "reasoning"}
        assert heads["x-thinkgate-pool"] == {"v": "vllm", "s": "sglang", "l": "llama"}[model[0]]
        assert 0 <= float(heads["x-thinkgate-complexity"]) <= 1
        assert re.match(r"none|\d+", heads["x-thinkgate-thinking-cap"])
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,128}", heads["x-request-id"])

    @pytest.mark.parametrize(
        "style",
        [{"burst": 40}, {"write_bytes": 1, "think": 6, "ans": 3}, {"write_bytes": 113}, {"per_event": 6}],
        ids=str,
    )
    async def test_however_the_engine_writes(self, served: Gateway, model: str, style: dict[str, Any]) -> None:
        key = f"style-{'-'.join(style)}-{model}"
        told = await stream(served.url, chat(model, key, **style))
        assert_complete(told, key, style.get("think", THINK), style.get("ans", ANS))

    async def test_one_delta_with_thought_and_answer(self, served: Gateway) -> None:
        told = await stream(served.url, chat("v-model", "mixed", mixed=1, per_event=4))
        assert_complete(told, "mixed")

    @pytest.mark.parametrize("model", ["v-model", "s-model"])
    @pytest.mark.parametrize("size", [1, 3, 50])
    async def test_markers_in_the_text_are_split_by_the_gateway(self, served: Gateway, model: str, size: int) -> None:
        """As with an engine that was started without a reasoning parser; llama-server always has one."""
        key = f"raw-{size}-{model}"
        told = await stream(served.url, chat(model, key, format="raw", chunk_chars=size))
        assert_complete(told, key)

    async def test_an_answer_without_thought(self, served: Gateway, model: str) -> None:
        body = {"chat_template_kwargs": {"enable_thinking": False}}
        told = await stream(served.url, chat(model, f"off-{model}", body=body))
        assert told.thought == ""
        assert told.answer.strip() == expected_answer(f"off-{model}", "")
        assert told.headers["x-thinkgate-thinking-cap"] == "none"

    async def test_max_tokens_ends_it_with_length(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"short-{model}", ans=200, body={"max_tokens": 60}))
        assert told.reasons == ["length"]
        assert told.done
        assert told.usages[0]["completion_tokens"] <= 60


class TestUnary:
    async def test_is_the_same_text_in_one_body(self, served: Gateway, model: str) -> None:
        key = f"unary-{model}"
        response = await post(served.url, chat(model, key, stream=False))
        body = response.json()
        message = body["choices"][0]["message"]
        assert response.status_code == 200
        assert body["object"] == "chat.completion"
        assert body["model"] == model
        assert message["role"] == "assistant"
        assert message["reasoning_content"].strip() == thought(key, THINK)
        assert message["content"].strip() == expected_answer(key, thought(key, THINK))
        assert body["choices"][0]["finish_reason"] == "stop"
        assert_usage(body["usage"])
        assert response.headers["x-thinkgate-route"] in {"standard", "reasoning"}

    async def test_the_engine_is_asked_for_a_stream_all_the_same(
        self, served: Gateway, model: str, double: Double
    ) -> None:
        await post(served.url, chat(model, f"always-{model}", stream=False))
        asked = double.of(f"always-{model}")[0].json
        assert asked["stream"] is True
        assert asked["stream_options"]["include_usage"] is True


class TestNames:
    async def test_an_alias_serves_its_pool(self, served: Gateway) -> None:
        told = await stream(served.url, chat("v-alias", "alias"))
        assert_complete(told, "alias")
        assert told.headers["x-thinkgate-pool"] == "vllm"

    async def test_the_route_auto_picks_one_of_its_two_pools(self, served: Gateway) -> None:
        told = await stream(served.url, chat("auto", "auto"))
        assert_complete(told, "auto")
        expected = {"standard": "vllm", "reasoning": "llama"}[told.headers["x-thinkgate-route"]]
        assert told.headers["x-thinkgate-pool"] == expected

    async def test_asking_for_thought_takes_the_reasoning_pool(self, served: Gateway) -> None:
        told = await stream(served.url, chat("auto", "ask-on", body={"reasoning_effort": "high"}))
        assert told.headers["x-thinkgate-pool"] == "llama"
        told = await stream(served.url, chat("auto", "ask-off", body={"reasoning_effort": "none"}))
        assert told.headers["x-thinkgate-pool"] == "vllm"

    @pytest.mark.parametrize("streamed", [True, False])
    async def test_an_unknown_model_is_not_found(self, served: Gateway, streamed: bool) -> None:
        response = await post(served.url, chat("nobody", "x", stream=streamed))
        error = assert_error(response, 404, "invalid_request_error", "model_not_found")
        assert error["param"] == "model"


class TestRequestIds:
    async def test_a_sane_id_is_echoed_and_travels(self, served: Gateway, model: str, double: Double) -> None:
        response = await post(served.url, chat(model, f"id-{model}"), headers={"x-request-id": "my-id.1"})
        assert response.headers["x-request-id"] == "my-id.1"
        assert double.of(f"id-{model}")[0].request_id.startswith("my-id.1")

    @pytest.mark.parametrize("given", ["", "a b", "x" * 129, "<script>"])
    async def test_another_gets_a_new_one(self, served: Gateway, given: str) -> None:
        response = await post(served.url, chat("v-model", "new-id"), headers={"x-request-id": given})
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,128}", response.headers["x-request-id"])
        assert response.headers["x-request-id"] != given

    async def test_the_longest_id_still_suits_the_engine(self, served: Gateway) -> None:
        """The engines take 128 characters; whatever the gateway adds must fit."""
        told: Stream = await stream(served.url, chat("v-model", "long-id"), {"x-request-id": "y" * 128})
        assert told.headers["x-request-id"] == "y" * 128
