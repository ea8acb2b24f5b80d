"""Thinking held to a number of tokens: the thought ends at the cap, the answer follows from exactly that thought, and
the client sees one seamless answer with one usage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.exchange import End
from tests.doubles.script import expected_answer, thought
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import Stream, assert_complete, chat, post, stream

CAP = 40
PHRASE = "Time is up; I answer now."
CUT: dict[str, Any] = {"closing_phrase": f"\n\n{PHRASE}\n", "native_cap": False}
LONG: dict[str, Any] = {"think": 400, "delay_ms": 1}


@pytest.fixture(scope="module")
def native(host: Host) -> Iterator[VllmDouble]:
    double = host.add(VllmDouble("native"))
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def liar(host: Host) -> Iterator[VllmDouble]:
    """Takes a budget, and thinks on."""
    double = host.add(VllmDouble("liar", overruns=True))
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def served(
    gateway: Callable[..., Gateway], doubles: dict[str, Double], native: VllmDouble, liar: VllmDouble
) -> Gateway:
    vllm, sglang, llama = doubles.values()
    pools = {
        "vllm": pool(vllm, thinking=CUT),
        "sglang": pool(sglang, thinking=CUT),
        "native": pool(native, thinking={**CUT, "native_cap": True}),
        "liar": pool(liar, thinking={**CUT, "native_cap": True}),
        "small": pool(vllm, model="small", upstream_model="v-model", thinking={**CUT, "max_cap": 16}),
        "leading": pool(llama, model="leading", thinking={**CUT, "answer_lead_in": "In short:"}),
        "llama": pool(llama, thinking=CUT),
    }
    return gateway(config(pools)).wait_workers(7)


async def assert_cut(thought_seen: str, answer: str, double: Double, key: str, cap: int = CAP) -> None:
    """The thought ended at the cap, the second leg had it, and only it, and the answer is the one to it."""
    first, second = [await double.wait_end(leg) for leg in double.of(key)]
    seen, phrase, rest = thought_seen.partition(PHRASE)
    assert thought(key, 1000).startswith(seen.strip())
    assert 0.8 * cap <= len(seen.split()) <= cap
    assert (phrase, rest.strip()) == (PHRASE, "")
    assert first.end is End.ABORTED
    assert second.end is End.FINISHED
    assert second.added == PHRASE
    assert 0.8 * len(seen.split()) <= second.ours_given <= len(seen.split())
    assert second.thought_given.strip().startswith(thought(key, second.ours_given))
    assert answer.strip() == expected_answer(key, second.thought_given)


def report_of(told: Stream) -> dict[str, Any]:
    return told.extension["thinking"]


DIALECTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "thinking_budget": ({"thinking_budget": CAP}, {}),
    "reasoning.max_tokens": ({"reasoning": {"max_tokens": CAP}}, {}),
    "thinking.budget_tokens": ({"thinking": {"type": "enabled", "budget_tokens": CAP}}, {}),
    "thinking_token_budget": ({"thinking_token_budget": CAP}, {}),
    "max_thinking_tokens": ({"max_thinking_tokens": CAP}, {}),
    "template": ({"chat_template_kwargs": {"thinking_budget": CAP}}, {}),
    "header": ({}, {"x-thinking-budget": str(CAP)}),
}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_whatever_words_the_client_uses(served: Gateway, doubles: dict[str, Double], dialect: str) -> None:
    body, headers = DIALECTS[dialect]
    key = f"words-{dialect.replace('.', '-').replace('_', '-')}"
    told = await stream(served.url, chat("l-model", key, body=body, **LONG), headers)
    await assert_cut(told.thought, told.answer, doubles["l-model"], key)
    assert told.headers["x-thinkgate-thinking-cap"].startswith(str(CAP))


class TestEveryEngine:
    async def test_streamed_it_is_one_seamless_answer(self, served: Gateway, model: str, double: Double) -> None:
        key = f"seamless-{model}"
        told = await stream(served.url, chat(model, key, body={"thinking_budget": CAP}, **LONG))
        await assert_cut(told.thought, told.answer, double, key)
        assert told.errors == []
        assert told.reasons == ["stop"]
        assert told.done
        assert "think>" not in told.thought + told.answer
        assert len({event["id"] for event in told.events}) == 1
        assert {event["model"] for event in told.events} == {model}
        assert len([delta for delta in told.deltas if delta.get("role")]) == 1
        fields = [("reasoning_content" in delta, "content" in delta) for delta in told.deltas if "role" not in delta]
        assert fields == sorted(fields, reverse=True, key=lambda field: field[0])

    async def test_usage_is_told_once_and_covers_both_legs(self, served: Gateway, model: str, double: Double) -> None:
        key = f"once-{model}"
        told = await stream(served.url, chat(model, key, body={"thinking_budget": CAP}, **LONG))
        assert len(told.usages) == 1
        usage = told.usages[0]
        assert CAP <= usage["completion_tokens_details"]["reasoning_tokens"] <= CAP + 20
        assert CAP + 12 <= usage["completion_tokens"] <= CAP + 12 + 30
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert usage["prompt_tokens"] < 60

    async def test_the_report_says_that_the_cap_ended_it(self, served: Gateway, model: str) -> None:
        told = await stream(served.url, chat(model, f"report-{model}", body={"thinking_budget": CAP}, **LONG))
        assert report_of(told)["ended_by"] == "cap"
        assert report_of(told)["cap"] == CAP
        assert told.extension["legs"] == 2

    async def test_unary_it_is_the_same(self, served: Gateway, model: str, double: Double) -> None:
        key = f"unary-{model}"
        body = chat(model, key, stream=False, body={"thinking_budget": CAP}, **LONG)
        answer = (await post(served.url, body)).json()
        message = answer["choices"][0]["message"]
        await assert_cut(message["reasoning_content"], message["content"], double, key)
        assert answer["thinkgate"]["thinking"]["ended_by"] == "cap"
        assert answer["choices"][0]["finish_reason"] == "stop"

    @pytest.mark.parametrize("model", ["v-model", "s-model"])
    async def test_markers_in_the_text_change_nothing(self, served: Gateway, model: str, double: Double) -> None:
        key = f"raw-{model}"
        controls: dict[str, Any] = {"format": "raw", **LONG}
        told = await stream(served.url, chat(model, key, body={"thinking_budget": CAP}, **controls))
        await assert_cut(told.thought, told.answer, double, key)

    async def test_a_short_thought_is_left_alone(self, served: Gateway, model: str, double: Double) -> None:
        key = f"short-{model}"
        told = await stream(served.url, chat(model, key, body={"thinking_budget": CAP}))
        assert_complete(told, key)
        assert report_of(told)["ended_by"] == "model"
        assert len(double.of(key)) == 1

    async def test_both_legs_stay_within_max_tokens(self, served: Gateway, model: str, double: Double) -> None:
        key = f"within-{model}"
        body = {"thinking_budget": CAP, "max_tokens": 90}
        told = await stream(served.url, chat(model, key, ans=300, body=body, **LONG))
        assert told.reasons == ["length"]
        assert told.usages[0]["completion_tokens"] <= 90
        second = double.of(key)[1].json
        assert second["max_tokens"] <= 90 - CAP
        assert told.answer.strip()

    async def test_the_answer_is_never_starved(self, served: Gateway, model: str) -> None:
        """Half of a small `max_tokens` is kept for it, whatever the model would think."""
        key = f"starved-{model}"
        told = await stream(served.url, chat(model, key, body={"max_tokens": 64}, **LONG))
        assert len(told.answer.split()) >= 5
        assert told.usages[0]["completion_tokens"] <= 64

    async def test_a_model_that_stops_in_mid_thought_still_answers(self, served: Gateway, model: str) -> None:
        key = f"quits-{model}"
        told = await stream(served.url, chat(model, key, quits=1))
        assert told.thought.strip().startswith(thought(key, 24))
        assert told.answer.strip().startswith("Answer(")
        assert report_of(told)["ended_by"] == "stop"

    async def test_a_failure_of_the_second_leg_is_an_error(self, served: Gateway, model: str, double: Double) -> None:
        key = f"second-{model}"
        told = await stream(served.url, chat(model, key, body={"thinking_budget": CAP}, **LONG, eof_after=400))
        assert len(double.of(key)) >= 2
        assert len(told.errors) == 1
        assert not told.done


class TestNative:
    async def test_an_engine_that_keeps_to_it_is_not_cut(self, served: Gateway, native: VllmDouble) -> None:
        told = await stream(served.url, chat("native", "kept", body={"thinking_budget": CAP}, **LONG))
        assert told.thought.strip() == thought("kept", CAP)
        assert told.answer.strip() == expected_answer("kept", thought("kept", CAP))
        assert len(native.of("kept")) == 1
        assert native.of("kept")[0].json["thinking_token_budget"] == CAP

    async def test_an_engine_that_overruns_is_cut_all_the_same(self, served: Gateway, liar: VllmDouble) -> None:
        told = await stream(served.url, chat("liar", "overrun", body={"thinking_budget": CAP}, **LONG))
        legs = liar.of("overrun")
        assert len(legs) == 2
        assert len(told.thought.split()) <= CAP + 32 + len(PHRASE.split())
        assert told.answer.strip() == expected_answer("overrun", legs[1].thought_given)
        assert report_of(told)["ended_by"] == "cap"


class TestLimits:
    async def test_the_operators_ceiling_holds(self, served: Gateway, doubles: dict[str, Double]) -> None:
        told = await stream(served.url, chat("small", "ceiling", body={"thinking_budget": 9_999}, **LONG))
        await assert_cut(told.thought, told.answer, doubles["v-model"], "ceiling", cap=16)
        assert report_of(told)["cap"] == 16

    async def test_a_lead_in_begins_the_answer(self, served: Gateway, doubles: dict[str, Double]) -> None:
        told = await stream(served.url, chat("leading", "lead", body={"thinking_budget": CAP}, **LONG))
        second = doubles["l-model"].of("lead")[1]
        assert second.lead_in == "In short:"
        assert told.answer.startswith("In short:")
        assert told.answer.removeprefix("In short:").strip() == expected_answer("lead", second.thought_given)

    async def test_the_cut_is_counted(self, served: Gateway) -> None:
        metrics = await served.metrics()
        assert metrics.value("thinkgate_thinking_ended_total", by="cap") > 0
        assert metrics.value("thinkgate_requests_total", outcome="cut_answered") > 0
        assert metrics.value("thinkgate_legs_total", kind="answer") > 0
