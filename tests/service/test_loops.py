"""Runaway text through a whole gateway: found, cut out, answered; and what a worker that is sick must not cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

from benchmarks.loops.shapes import EXACT, shapes
from tests.doubles.engine import Double
from tests.doubles.exchange import End
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.script import expected_answer, recited
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import Stream, assert_complete, assert_error, chat, post, stream

PHRASE = "Time is up; I answer now."
CUT: dict[str, Any] = {"closing_phrase": f"\n\n{PHRASE}\n", "native_cap": False}
CAP = 20_000
NAMES = list(shapes())
ENGINES: dict[str, Callable[[str], Double]] = {"vllm": VllmDouble, "sglang": SglangDouble, "llama": LlamaDouble}
ENGINE_OF = dict(zip(NAMES, list(ENGINES) * len(NAMES), strict=False))
FLOODS = [name for name in NAMES if "first token" in name]


@pytest.fixture(scope="module")
def doubles(host: Host) -> Iterator[dict[str, Double]]:
    found = {name: host.add(make(name)) for name, make in ENGINES.items()}
    yield found
    for double in found.values():
        host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], doubles: dict[str, Double]) -> Gateway:
    pools = {name: pool(double, thinking=CUT) for name, double in doubles.items()}
    for name, double in doubles.items():
        for action in ("observe", "off"):
            loops = {"action": action}
            pools[f"{action}-{name}"] = pool(
                double, model=f"{action}-{name}", upstream_model=name, thinking=CUT, loops=loops
            )
    pools["stop-vllm"] = pool(
        doubles["vllm"], model="stop-vllm", upstream_model="vllm", thinking=CUT, loops={"answer_finish": "stop"}
    )
    return gateway(config(pools, logs={"loop_samples": 500})).wait_workers(len(pools))


def looping(name: str, shape: str, key: str, *, where: str = "think", **fields: Any) -> dict[str, Any]:
    """A request that makes its model recite a loop."""
    size = 8_000 if shape in EXACT else 16_000
    controls = {"recite": NAMES.index(shape), "recite_size": size, "recite_in": where}
    return chat(name, key, body={"thinking_budget": CAP, **fields.pop("body", {})}, **controls, **fields)


def loops_of(told: Stream) -> list[dict[str, Any]]:
    return told.extension.get("loops", [])


def text_of(shape: str) -> str:
    return "".join(recited(NAMES.index(shape), 8_000 if shape in EXACT else 16_000))


@pytest.mark.parametrize("shape", [name for name in NAMES if name not in FLOODS])
class TestEveryShape:
    async def test_streamed_it_ends_with_an_answer(
        self, served: Gateway, doubles: dict[str, Double], shape: str
    ) -> None:
        name = ENGINE_OF[shape]
        key = f"streamed-{NAMES.index(shape)}"
        told = await stream(served.url, looping(name, shape, key))
        legs = [await doubles[name].wait_end(leg) for leg in doubles[name].of(key)]
        assert told.errors == []
        assert told.done
        assert told.reasons == ["stop"]
        assert told.extension["thinking"]["ended_by"] == "loop"
        [loop] = loops_of(told)
        assert (loop["channel"], loop["action"]) == ("reasoning", "rescued")
        assert (len(legs), legs[1].end) == (2, End.FINISHED)
        assert told.answer.strip() == expected_answer(key, legs[1].thought_given)

        whole, given = text_of(shape), legs[1].thought_given
        kept = given.partition(PHRASE)[0].strip()
        assert whole.strip().startswith(kept), "the engine goes on from what it had said"
        assert len(kept) <= len(whole) - 2_000, "and without most of the loop"
        assert whole.startswith(told.thought.partition(PHRASE)[0].rstrip()), "the client keeps all it has seen"
        [usage] = told.usages
        assert usage["completion_tokens_details"]["reasoning_tokens"] < CAP / 2
        assert usage["completion_tokens"] > usage["completion_tokens_details"]["reasoning_tokens"]
        assert doubles[name].active == []

    async def test_unary_too(self, served: Gateway, doubles: dict[str, Double], shape: str) -> None:
        name = ENGINE_OF[shape]
        key = f"unary-{NAMES.index(shape)}"
        answer = (await post(served.url, looping(name, shape, key, stream=False))).json()
        [choice] = answer["choices"]
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["content"].strip().startswith("Answer(")
        assert PHRASE in choice["message"]["reasoning_content"]
        assert answer["thinkgate"]["thinking"]["ended_by"] == "loop"
        await doubles[name].wait_idle()


@pytest.mark.parametrize("name", ENGINES)
class TestAnswers:
    async def test_an_answer_that_loops_is_ended(self, served: Gateway, doubles: dict[str, Double], name: str) -> None:
        key = f"answer-{name}"
        told = await stream(served.url, looping(name, "paragraph", key, where="answer"))
        assert len(doubles[name].of(key)) == 1
        assert told.reasons == ["length"]
        assert told.done
        [loop] = loops_of(told)
        assert (loop["channel"], loop["action"]) == ("answer", "ended")
        assert text_of("paragraph").startswith(told.answer.strip("\n")[:4_000].rstrip())
        assert len(told.answer) < len(text_of("paragraph")) - 2_000

    async def test_without_a_thought_too(self, served: Gateway, name: str) -> None:
        body = {"thinking_budget": 0}
        told = await stream(served.url, looping(name, "short sentence", f"off-{name}", where="answer", body=body))
        assert told.reasons == ["length"]
        assert [loop["action"] for loop in loops_of(told)] == ["ended"]

    async def test_what_was_asked_for_gets_a_longer_rope(self, served: Gateway, name: str) -> None:
        key = f"asked-{name}"
        plain = looping(name, "short sentence", key, where="answer")
        asked = looping(name, "short sentence", key, where="answer", text="Please repeat this 500 times.")
        lengths = [len((await stream(served.url, body)).answer) for body in (plain, asked)]
        assert lengths[1] >= lengths[0] + 500

    async def test_each_choice_is_ended_by_itself(self, served: Gateway, name: str) -> None:
        body = {"thinking_budget": 0, "n": 2}
        told = await stream(served.url, looping(name, "short sentence", f"choices-{name}", where="answer", body=body))
        assert told.reasons == ["length", "length"]
        assert told.done

    async def test_the_engine_s_own_end_in_a_thought_is_rescued(
        self, served: Gateway, doubles: dict[str, Double], name: str
    ) -> None:
        """vLLM ends a loop with `finish_reason: "repetition"` and an empty answer."""
        key = f"native-{name}"
        controls = {"loop_after": 10, "think": 52, "quits": 1, "finish": "repetition"}
        told = await stream(served.url, chat(name, key, body={"thinking_budget": CAP}, **controls))
        second = doubles[name].of(key)[1]
        assert second.ours_given == 17, "ten words, and one copy of the seven that loop"
        assert told.answer.strip().startswith("Answer(")
        assert told.done
        assert "repetition" not in str(told.events)
        assert told.extension["thinking"]["ended_by"] == "loop"

    async def test_the_engine_s_own_end_of_an_answer_is_told_in_a_word_sdks_know(
        self, served: Gateway, name: str
    ) -> None:
        told = await stream(served.url, chat(name, f"native-answer-{name}", finish="repetition"))
        assert told.reasons == ["length"]
        assert told.answer.strip().startswith("Answer(")


class TestPolicy:
    @pytest.mark.parametrize("name", ENGINES)
    async def test_observed_loops_are_counted_and_left_alone(
        self, served: Gateway, doubles: dict[str, Double], name: str
    ) -> None:
        key = f"observe-{name}"
        told = await stream(served.url, looping(f"observe-{name}", "paragraph", key))
        assert len(doubles[name].of(key)) == 1
        assert told.thought.strip() == text_of("paragraph").strip()
        assert [loop["action"] for loop in loops_of(told)] == ["observed"]
        metrics = await served.metrics()
        assert metrics.value("thinkgate_loops_total", pool=f"observe-{name}", action="observed", kind="exact") == 1

    @pytest.mark.parametrize("name", ENGINES)
    async def test_off_is_off(self, served: Gateway, name: str) -> None:
        told = await stream(served.url, looping(f"off-{name}", "paragraph", f"switched-off-{name}"))
        assert told.thought.strip() == text_of("paragraph").strip()
        assert loops_of(told) == []

    async def test_the_operator_names_the_finish_of_an_answer(self, served: Gateway) -> None:
        told = await stream(served.url, looping("stop-vllm", "paragraph", "stops", where="answer"))
        assert told.reasons == ["stop"]
        assert [loop["action"] for loop in loops_of(told)] == ["ended"]

    async def test_one_request_may_be_let_off_by_an_administrator(self, served: Gateway) -> None:
        headers = {"x-thinkgate-loops": "off"}
        told = await stream(served.url, looping("vllm", "paragraph", "let-off"), headers)
        assert loops_of(told) == []
        assert told.thought.strip() == text_of("paragraph").strip()

    async def test_a_word_that_is_none_is_refused(self, served: Gateway) -> None:
        response = await post(served.url, chat("vllm", "odd", stream=False), headers={"x-thinkgate-loops": "never"})
        error = assert_error(response, 400, "invalid_request_error", "invalid_value")
        assert error["param"] == "x-thinkgate-loops"

    async def test_what_it_saved_is_counted_and_what_it_found_is_remembered(self, served: Gateway) -> None:
        before = (await served.metrics()).value("thinkgate_loop_tokens_saved_total")
        told = await stream(served.url, looping("vllm", "table row", "saved"))
        metrics = await served.metrics()
        spent = told.extension["thinking"]["tokens"]
        assert metrics.value("thinkgate_loop_tokens_saved_total") - before == CAP - spent
        assert metrics.value("thinkgate_loop_rescues_total", result="answered", pool="vllm") > 0
        assert metrics.value("thinkgate_requests_total", outcome="loop_rescued", pool="vllm") > 0
        async with httpx.AsyncClient() as client:
            samples = (await client.get(f"{served.url}/admin/loops")).json()["data"]
        last = samples[-1]
        assert (last["pool"], last["kind"], last["action"]) == ("vllm", "exact", "rescued")
        assert last["fingerprint"] == loops_of(told)[0]["fingerprint"]
        words = text_of("table row").split()
        passages = {" ".join(words[at : at + 3]) for at in range(len(words))}
        assert not [passage for passage in passages if len(passage) > 8 and passage in str(samples)], "no text"


class TestSickWorkers:
    @pytest.fixture
    def pair(self, host: Host) -> Iterator[list[Double]]:
        found = [host.add(VllmDouble("pair")) for _ in range(2)]
        yield found
        for double in found:
            host.remove(double)

    @pytest.fixture
    def paired(self, gateway: Callable[..., Gateway], pair: list[Double]) -> Gateway:
        return gateway(config({"pair": pool(*pair, thinking=CUT)})).wait_workers(2)

    async def test_its_flood_is_never_told(self, paired: Gateway, pair: list[Double]) -> None:
        """The other worker answers, and the client sees nothing of the first."""
        sick, well = pair
        sick.default = sick.default.__class__(floods=1)
        for number in range(40):  # which worker is asked first depends on the conversation
            key = f"flood-{number}"
            told = await stream(paired.url, chat("pair", key, body={"thinking_budget": 500}))
            assert "!" not in told.thought + told.answer
            assert_complete(told, key)
            if sick.of(key):
                break
        told = await stream(paired.url, chat("pair", "after", body={"thinking_budget": 500}))
        assert_complete(told, "after")
        assert len(well.of("after")) == 1
        metrics = await paired.metrics()
        assert metrics.value("thinkgate_worker_floods_total") >= 1

    @pytest.mark.parametrize("streamed", [True, False])
    async def test_a_worker_that_floods_once_costs_nothing_but_its_tokens(
        self, paired: Gateway, pair: list[Double], streamed: bool
    ) -> None:
        """The shape that is no loop of the model: asked elsewhere, answered, and both workers idle in the end."""
        key = f"once-{streamed}"
        body = looping("pair", FLOODS[0], key, stream=streamed, times=1)
        if streamed:
            told = await stream(paired.url, body)
            assert_complete(told, key)
            assert (told.reasons, told.done, len(told.usages)) == (["stop"], True, 1)
            assert [loop["action"] for loop in loops_of(told)] == ["elsewhere"]
        else:
            [choice] = (await post(paired.url, body)).json()["choices"]
            assert choice["message"]["content"].strip().startswith("Answer(")
            assert "!" not in choice["message"]["reasoning_content"]
        for double in pair:
            await double.wait_idle()

    async def test_one_that_stays_sick_is_left_alone(self, paired: Gateway, pair: list[Double]) -> None:
        sick, well = pair
        sick.default = sick.default.__class__(floods=1)
        well.health = 503
        await paired.wait_metric("thinkgate_worker_ready", {}, lambda value: value == 1)
        first = await stream(paired.url, chat("pair", "alone", body={"thinking_budget": 500}))
        assert first.reasons == ["length"], "nobody else can answer: an honest end"
        assert [loop["kind"] for loop in loops_of(first)] == ["first_token_flood"]
        well.health = 200
        await paired.wait_metric("thinkgate_worker_ready", {}, lambda value: value == 2)
        for number in range(3):
            assert_complete(await stream(paired.url, chat("pair", f"next-{number}")), f"next-{number}")
        assert not sick.of("next-0"), "it was seen to flood, so it is not the first to be chosen"

    async def test_a_prompt_that_floods_every_worker_takes_none_of_them_out(
        self, paired: Gateway, pair: list[Double]
    ) -> None:
        for double in pair:
            double.default = double.default.__class__(floods=1)
        told = await stream(paired.url, chat("pair", "both", body={"thinking_budget": 500}))
        assert told.done
        assert (await paired.metrics()).value("thinkgate_worker_ready") == 2


@pytest.mark.embedded
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="xllamacpp is not installed")
async def test_a_real_model_that_really_loops_is_rescued(gateway: Callable[..., Gateway]) -> None:
    """The small one inside, asked these at temperature 0, goes round in circles until its tokens are used up."""
    caps = dict.fromkeys(("trivial", "simple", "moderate", "hard", "expert"), 1_400)
    thinking = {"max_cap": 1_400, "caps": caps, "answer_reserve": 96, "answer_lead_in": "The answer is"}
    inside = {"model": "inside", "engine": "embedded", "format": "think", "thinking": thinking}
    one = gateway({"pools": {"inside": inside}}).wait_workers(1)
    asked = ["Say hello in Spanish.", "Hola", "Tom has 3 apples. He buys 4 more and gives 2 to Anna. How many?"]
    rescued = 0
    for text in asked:
        body = {"model": "inside", "messages": [{"role": "user", "content": text}], "temperature": 0}
        answer = (await post(one.url, {**body, "max_tokens": 1_600})).json()
        message, report = answer["choices"][0]["message"], answer["thinkgate"]
        assert message["content"].startswith("The answer is")
        assert answer["usage"]["completion_tokens"] < 1_600
        rescued += [loop["action"] for loop in report.get("loops", [])] == ["rescued"]
    assert rescued
    assert (await one.metrics()).value("thinkgate_loop_rescues_total", result="answered") == rescued
