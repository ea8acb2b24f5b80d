"""The router as users meet it: routes of the operator's own, a key's own route, the shadow, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.edge.keys import hash_key
from router.loading import ASSETS
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_complete, assert_error, chat, post, stream

KEYS = ("tg-free", "tg-batch", "tg-lab")
FREE, BATCH, LAB = ({"authorization": f"Bearer {key}"} for key in KEYS)
HARD = "Prove by induction that the sum of the first n odd numbers is n^2, for every positive integer n."
EASY = "what is the capital of Peru?"

ROLES = ("user", "wizard", "assistant", "tool")
ROUTER: dict[str, Any] = {
    # Patience, so that a slow machine cannot turn the encoder's verdicts into those of words.
    "deadline": 20,
    "routes": {
        "incidents": {"route": "reasoning", "pool": "s-model", "regex": r"\bINC-\d{4,}\b"},
        "legal": {"route": "reasoning", "keywords": ["subpoena"]},
        "refunds": {
            "route": "standard",
            "pool": "sglang",
            "utterances": [
                "I want my money back",
                "how do I return this jacket",
                "the parcel arrived broken, refund please",
                "can I get a refund for my order",
                "return label for order 1234",
            ],
        },
    },
}


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble, sglang: SglangDouble, llama: LlamaDouble) -> Gateway:
    pools = {"vllm": pool(vllm), "sglang": pool(sglang), "llama": pool(llama)}
    rules: list[dict[str, Any]] = [{}, {"route": "standard"}, {"route": "reasoning", "pool": "s-model"}]
    keys = [
        {"alias": key.removeprefix("tg-"), "hash": hash_key(key), **rule} for key, rule in zip(KEYS, rules, strict=True)
    ]
    router = {**ROUTER, "shadow_head": str(ASSETS / "head.npz")}
    return gateway(config(pools, keys=keys, router=router)).wait_workers(3)


async def told(served: Gateway, messages: str | list[dict[str, Any]], key: dict[str, str] = FREE, **body: Any) -> Any:
    turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    answer = await post(served.url, {"model": "auto", "messages": turns, **body}, "/v1/route", key)
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestRoutesOfOnesOwn:
    @pytest.mark.parametrize(
        ("text", "rule", "route", "target"),
        [
            ("what is up with INC-20331", "incidents", "reasoning", "sglang"),
            ("say hello to the SUBPOENA", "legal", "reasoning", "llama"),
            ("please refund my order, I want the money back", "refunds", "standard", "sglang"),
            (EASY, None, "standard", "vllm"),
            (HARD, None, "reasoning", "llama"),
        ],
    )
    async def test_each_way_to_match_and_abstaining(
        self, served: Gateway, text: str, rule: str | None, route: str, target: str
    ) -> None:
        answer = await told(served, text)
        assert (answer["explanation"]["rule"], answer["route"], answer["pool"]) == (rule, route, target)
        assert (answer["tier"] == "rule") is (rule is not None)

    async def test_a_chat_goes_where_it_was_told(self, served: Gateway) -> None:
        body = chat("auto", "inc", text="see INC-20331 please")
        answer = await stream(served.url, body, FREE)
        assert_complete(answer, "inc")
        assert answer.headers["x-thinkgate-pool"] == "sglang"
        assert answer.headers["x-thinkgate-route"] == "reasoning"


class TestRouteOfAKey:
    @pytest.mark.parametrize(
        ("key", "text", "route", "target"),
        [
            (BATCH, HARD, "standard", "vllm"),
            (BATCH, EASY, "standard", "vllm"),
            (LAB, EASY, "reasoning", "sglang"),
            (LAB, HARD, "reasoning", "sglang"),
        ],
    )
    async def test_its_requests_go_there(
        self, served: Gateway, key: dict[str, str], text: str, route: str, target: str
    ) -> None:
        answer = await told(served, text, key)
        assert (answer["route"], answer["pool"], answer["tier"]) == (route, target, "rule")
        assert answer["reasons"][0] == "the default route of this key"

    async def test_the_classifier_still_says_how_hard(self, served: Gateway) -> None:
        easy, hard = await told(served, EASY, LAB), await told(served, HARD, LAB)
        assert hard["complexity"] > easy["complexity"]
        assert hard["explanation"]["route"] == "reasoning"
        assert easy["explanation"]["route"] == "standard"

    async def test_a_route_of_ones_own_and_the_client_come_before_it(self, served: Gateway) -> None:
        assert (await told(served, "what is up with INC-20331", BATCH))["pool"] == "sglang"
        assert (await told(served, EASY, BATCH, reasoning_effort="high"))["route"] == "reasoning"
        assert (await told(served, HARD, LAB, reasoning_effort="none"))["route"] == "standard"
        assert (await told(served, HARD, BATCH, model="l-model"))["pool"] == "llama"

    async def test_a_chat_goes_there_too(self, served: Gateway) -> None:
        answer = await stream(served.url, chat("auto", "home", text=EASY), LAB)
        assert_complete(answer, "home")
        assert answer.headers["x-thinkgate-pool"] == "sglang"

    @pytest.mark.parametrize(
        ("key", "message"),
        [({"pool": "vllm"}, "needs its 'route'"), ({"route": "standard", "pool": "no"}, "not exist")],
    )
    def test_a_key_that_leads_nowhere_is_refused(self, key: dict[str, str], message: str) -> None:
        from gateway.config import Config

        one = {"alias": "a", "hash": hash_key("tg-a"), **key}
        only = {"model": "m", "engine": "vllm", "workers": ["http://a"]}
        with pytest.raises(ValueError, match=message):
            Config.model_validate({"pools": {"vllm": only}, "keys": [one]})


class TestShadow:
    async def test_it_is_counted_and_has_no_effect(self, served: Gateway) -> None:
        """The shadow here is the head in force, always with the encoder: on a plain case the two agree."""
        before = (await served.metrics()).value("thinkgate_router_shadow_total", agrees="yes")
        await told(served, "Prove that there are infinitely many primes of the form 4k+3.")
        await served.wait_metric("thinkgate_router_shadow_total", {"agrees": "yes"}, lambda value: value > before)

    async def test_a_contrary_shadow_changes_nothing(
        self, gateway: Callable[..., Gateway], vllm: VllmDouble, llama: LlamaDouble, tmp_path: Path
    ) -> None:
        from router.loading import read_head

        contrary = read_head(ASSETS / "head.npz")
        contrary.output[:] = -contrary.output
        contrary.write(tmp_path / "contrary.npz")
        router = {"deadline": 20, "shadow_head": str(tmp_path / "contrary.npz")}
        served = gateway(config({"vllm": pool(vllm), "llama": pool(llama)}, router=router)).wait_workers(2)
        for text, route in ((HARD, "reasoning"), (EASY, "standard")):
            assert (await told(served, text, {}))["route"] == route
        await served.wait_metric("thinkgate_router_shadow_total", {"agrees": "no"}, lambda value: value == 2)


class TestExplanation:
    async def test_all_of_it_is_told(self, served: Gateway) -> None:
        found = (await told(served, f"Good morning. {HARD}"))["explanation"]
        assert 0 <= found["p_raw"] <= 1
        assert found["margin"] == pytest.approx(found["p_reasoning"] - found["threshold"], abs=1e-3)
        assert len(found["exemplars"]) == 5
        assert len(found["features"]) == 6
        assert {one["text"] for one in found["sentences"]} == {"Good morning.", HARD}
        assert found["history"] == {"effect": "none", "p_without": found["p_calibrated"], "p_before": None}

    async def test_a_whole_chat_body_with_tools_history_and_noise(self, served: Gateway) -> None:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You are a maths tutor."},
            {"role": "user", "content": HARD},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "tool", "tool_call_id": "1", "content": "42"},
            {"role": "user", "content": [{"type": "text", "text": "<system-reminder>be nice</system-reminder>go on"}]},
        ]
        tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        answer = await told(served, messages, tools=tools, max_tokens=900, stream=True, temperature=0.1)
        assert (answer["route"], answer["explanation"]["history"]["effect"]) == ("reasoning", "go-ahead")
        assert answer["plan"]["max_tokens"] == 900

    async def test_what_the_client_says_decides_and_the_classifier_is_still_told(self, served: Gateway) -> None:
        answer = await told(served, HARD, thinking={"type": "disabled"})
        assert (answer["route"], answer["tier"], answer["plan"]["how"]) == ("standard", "rule", "off")
        assert answer["explanation"]["route"] == "reasoning"

    async def test_the_headers_are_those_of_the_chat(self, served: Gateway) -> None:
        body = {"model": "auto", "messages": [{"role": "user", "content": HARD}]}
        answer = await post(served.url, body, "/v1/route", FREE)
        assert answer.headers["x-thinkgate-pool"] == answer.json()["pool"]
        assert answer.headers["x-thinkgate-route"] == answer.json()["route"]

    async def test_the_schema_documents_the_answer(self, served: Gateway) -> None:
        async with httpx.AsyncClient(base_url=served.url) as client:
            schema = (await client.get("/openapi.json")).json()
        route = schema["paths"]["/v1/route"]["post"]
        answer = route["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer == {"$ref": "#/components/schemas/RouteTold"}
        assert "messages" in route["requestBody"]["content"]["application/json"]["schema"]["properties"]
        told_fields = schema["components"]["schemas"]["ExplanationTold"]["properties"]
        assert {"p_raw", "p_calibrated", "margin", "exemplars", "features", "history"} <= set(told_fields)

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            ({"model": "no-such", "messages": [{"role": "user", "content": "x"}]}, 404, "model_not_found"),
            ({"messages": [{"role": "user", "content": "x"}]}, 400, "missing_required_parameter"),
            ({"model": "auto", "messages": []}, 400, "empty_array"),
            ({"model": "auto", "messages": [{"content": "x"}]}, 400, "invalid_type"),
            (b"{torn", 400, "invalid_json"),
            (b"[" * 5000, 400, "invalid_json"),
            (b"", 400, "invalid_json"),
        ],
    )
    async def test_errors_have_openais_shape(self, served: Gateway, body: Any, status: int, code: str) -> None:
        assert_error(await post(served.url, body, "/v1/route", FREE), status, "invalid_request_error", code)

    async def test_a_key_is_asked_for(self, served: Gateway) -> None:
        body = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}
        assert_error(await post(served.url, body, "/v1/route"), 401, "authentication_error")

    @pytest.mark.parametrize(
        "content",
        [
            None,
            "",
            [],
            "\x00\x01\ufffe" * 200,
            "x " * 500_000,
            "<memory>x</memory>" * 50_000,
            [{"type": "text", "text": "x"}] * 20_000,
            [[[["deep"]]], {"type": "text"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
        ],
        ids=["null", "empty", "no parts", "binary", "1 MB", "noise", "20 000 parts", "odd parts"],
    )
    async def test_odd_content_gets_an_answer(self, served: Gateway, content: Any) -> None:
        answer = await told(served, [{"role": "user", "content": content}])
        assert answer["route"] in ("standard", "reasoning")
        assert answer["explanation"]["tier"] in ("rule", "cheap", "encoder")

    async def test_five_hundred_messages_of_unknown_roles(self, served: Gateway) -> None:
        turns = [
            {"role": role, "content": "hm"} for _ in range(125) for role in ("user", "wizard", "assistant", "tool")
        ]
        assert (await told(served, [*turns, {"role": "user", "content": HARD}]))["route"] == "reasoning"


async def test_of_a_crowd_that_asks_why_each_gets_an_answer(served: Gateway) -> None:
    """Explanations are for people: of two hundred at once some are asked to come again, and none waits for all."""
    async with httpx.AsyncClient(base_url=served.url, timeout=60, headers=FREE) as client:

        async def one(number: int) -> httpx.Response:
            question = f"Is {number} * 7 + 3 a prime, and why?"
            body = {"model": "auto", "messages": [{"role": "user", "content": question}]}
            return await client.post("/v1/route", json=body)

        answers = await asyncio.gather(*(one(number) for number in range(200)))
    busy = [answer for answer in answers if answer.status_code != 200]
    assert len(busy) < 200
    for answer in busy:
        assert_error(answer, 503, "server_error", "explaining_busy")
        assert answer.headers["retry-after"] == "1"


async def test_a_crowd_of_chats_is_routed_and_counted(served: Gateway) -> None:
    """Two hundred at once, all different, each with its verdict; what it could not wait for is counted, not lost."""
    before = (await served.metrics()).value("thinkgate_router_decisions_total")
    bodies = [chat("auto", f"c{number}", think=4, ans=2, text=f"Is {number} a prime?") for number in range(200)]
    answers = await asyncio.gather(*(stream(served.url, body, FREE) for body in bodies))
    for number, answer in enumerate(answers):
        assert_complete(answer, f"c{number}", 4, 2)
    assert (await served.metrics()).value("thinkgate_router_decisions_total") == before + 200
