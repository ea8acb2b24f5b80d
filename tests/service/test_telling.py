"""How thoughts and answers are told: names, in one piece, inline, hidden; stops on the answer; earlier thoughts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.exchange import End
from tests.doubles.script import expected_answer, thought
from tests.harness import Gateway
from tests.service.talk import assert_complete, assert_error, chat, post, stream


class TestNames:
    async def test_in_one_piece_it_comes_whole_before_the_answer(self, served: Gateway, model: str) -> None:
        key = f"piece-{model}"
        told = await stream(served.url, chat(model, key, body={"stream_reasoning": False}))
        assert_complete(told, key)
        thoughts = [delta for delta in told.deltas if delta.get("reasoning_content")]
        assert len(thoughts) == 1
        first_answer = next(place for place, delta in enumerate(told.deltas) if delta.get("content"))
        assert told.deltas.index(thoughts[0]) < first_answer

    @pytest.mark.parametrize("words", [{"separate_reasoning": False}, {"reasoning_format": "raw"}])
    async def test_inline_it_stands_in_the_content_between_marks(
        self, served: Gateway, model: str, words: dict[str, Any]
    ) -> None:
        key = f"inline-{model}-{len(words)}"
        told = await stream(served.url, chat(model, key, body=words))
        whole = (await post(served.url, chat(model, key, stream=False, body=words))).json()
        assert told.thought == ""
        assert told.answer == whole["choices"][0]["message"]["content"]
        before, _, answer = told.answer.partition("</think>")
        assert before.removeprefix("<think>").strip() == thought(key, 24)
        assert answer.strip() == expected_answer(key, thought(key, 24))

    async def test_hidden_it_is_counted_all_the_same(self, served: Gateway, model: str, double: Double) -> None:
        key = f"hidden-{model}"
        told = await stream(served.url, chat(model, key, body={"include_reasoning": False}))
        assert told.thought == ""
        assert told.answer.strip() == expected_answer(key, thought(key, 24))
        assert told.usages[0]["completion_tokens_details"]["reasoning_tokens"] >= 24
        assert "include_reasoning" not in double.of(key)[0].json

    async def test_nonsense_is_refused(self, served: Gateway) -> None:
        body = chat("v-model", "nonsense", body={"reasoning_format": "xml"})
        assert_error(await post(served.url, body), 400, "invalid_request_error", "invalid_value")


class TestStops:
    async def test_one_that_a_thought_mentions_does_not_end_it(
        self, served: Gateway, model: str, double: Double
    ) -> None:
        """An engine that is told of it would stop there, with an empty answer."""
        key = f"mention-{model}"
        word = thought(key, 24).split()[7]
        told = await stream(served.url, chat(model, key, body={"stop": word}))
        assert_complete(told, key)
        assert "stop" not in double.of(key)[0].json

    @pytest.mark.parametrize("streamed", [True, False])
    async def test_one_in_the_answer_ends_it_and_the_engine(
        self, served: Gateway, model: str, double: Double, streamed: bool
    ) -> None:
        key = f"ends-{model}-{streamed}"
        answer = expected_answer(key, thought(key, 24), 200)
        word = answer.split()[6]
        body = chat(model, key, stream=streamed, ans=200, delay_ms=2, body={"stop": ["never said", word]})
        if streamed:
            told = await stream(served.url, body)
            text, reason, usage = told.answer, told.reasons, told.usages[0]
            assert told.done
        else:
            whole = (await post(served.url, body)).json()
            choice = whole["choices"][0]
            text, reason, usage = choice["message"]["content"], [choice["finish_reason"]], whole["usage"]
            assert choice["stop_reason"] == word
        assert text.strip() == answer[: answer.index(word)].strip()
        assert reason == ["stop"]
        assert 24 <= usage["completion_tokens"] < 60
        exchange = await double.wait_end(double.of(key)[0])
        assert exchange.end is End.ABORTED

    @pytest.mark.parametrize("streamed", [True, False])
    async def test_one_that_begins_the_answer_leaves_it_empty_and_starts_no_second_leg(
        self, served: Gateway, model: str, double: Double, streamed: bool
    ) -> None:
        """Nothing but thought was told, yet the thought had ended: this is no model that stopped inside it."""
        key = f"begins-{model}-{streamed}"
        word = expected_answer(key, thought(key, 24)).split("(")[0]
        body = chat(model, key, stream=streamed, body={"stop": word})
        if streamed:
            told = await stream(served.url, body)
            assert (told.errors, told.answer.strip(), told.reasons, told.done) == ([], "", ["stop"], True)
        else:
            choice = (await post(served.url, body)).json()["choices"][0]
            assert (choice["message"]["content"].strip(), choice["finish_reason"]) == ("", "stop")
        assert len(double.of(key)) == 1

    async def test_without_a_thought_the_engine_matches_them(self, served: Gateway, model: str, double: Double) -> None:
        key = f"engine-{model}"
        await stream(served.url, chat(model, key, body={"stop": "never said", "enable_thinking": False}))
        assert double.of(key)[0].json["stop"] == "never said"


class TestEarlierThoughts:
    KEYS = {"v-model": "reasoning", "s-model": "reasoning_content", "l-model": "reasoning_content"}  # noqa: RUF012

    @pytest.mark.parametrize(
        "kept",
        [
            {"reasoning_content": "I thought."},
            {"reasoning": "I thought."},
            {"reasoning": "I thought.", "reasoning_content": "I thought."},
            {"reasoning_details": [{"type": "reasoning.text", "text": "I thought."}]},
        ],
    )
    async def test_come_under_the_name_that_the_engine_reads(
        self, served: Gateway, model: str, double: Double, kept: dict[str, Any]
    ) -> None:
        key = f"earlier-{model}-{'-'.join(kept)}".replace("_", "-")
        body = chat(model, key)
        body["messages"] = [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hi.", **kept},
            *body["messages"],
        ]
        await stream(served.url, body)
        sent = double.of(key)[0].json["messages"][1]
        assert sent == {"role": "assistant", "content": "Hi.", self.KEYS[model]: "I thought."}
