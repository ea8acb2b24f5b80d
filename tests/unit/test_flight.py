"""One request over scripted engines: retries, cuts, continuations, failures, and what is left behind after each."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from budgets import How, Plan
from gateway.config import EngineKind, ReasoningOutput, Timeouts
from gateway.deltas import Delta, Text
from gateway.flight import Flight
from gateway.ledger import EndedBy, Entry, Ledger, Outcome
from gateway.observe.metrics import Metrics
from gateway.pools import Pool
from gateway.query import read_chat
from gateway.upstream import End, UpstreamError, UpstreamFault
from parsers import Field
from router import Decision, Route, Tier
from tests.scripted import (
    DONE,
    HANG,
    ROLE,
    RecordingSink,
    ScriptedResponse,
    Tape,
    chunk,
    end,
    refusal,
    reply,
    scripted_pool,
    stream,
    thoughts,
    words,
)

BROKEN = UpstreamError(UpstreamFault.CLOSED, "broke off")
DECISION = Decision(Route.REASONING, 0.5, 0.9, 0.9, Tier.RULE, ())
UNCAPPED = Plan(How.CUT, None, 1, None, "test")
MESSAGES = [{"role": "user", "content": "How many?"}]


class Books(Ledger):
    """Keeps the entries it is given."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        super().__init__(self.metrics)
        self.entries: list[Entry] = []

    def close(self, entry: Entry, now: float) -> None:
        super().close(entry, now)
        self.entries.append(entry)

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"thinkgate_{name}", {"pool": "pool", **labels}) or 0.0


class Bench:
    """A pool of scripted workers and one flight over it."""

    def __init__(
        self,
        *workers: list[ScriptedResponse | UpstreamError],
        plan: Plan = UNCAPPED,
        engine: EngineKind = EngineKind.LLAMACPP,
        body: dict[str, Any] | None = None,
        timeouts: Timeouts | None = None,
        **thinking: Any,
    ) -> None:
        self.tape = Tape()
        self.pool: Pool
        self.pool, self.clients = scripted_pool(self.tape, *workers, engine=engine, timeouts=timeouts, **thinking)
        self.sink = RecordingSink(self.tape)
        self.books = Books()
        raw = json.dumps({"model": "m", "messages": MESSAGES, **(body or {})}).encode()
        self.query = read_chat(raw, output=ReasoningOutput.REASONING, request_id="r", caller="k")
        self.plan = plan

    async def fly(self) -> Entry:
        """Fly, then check what must hold after every flight."""
        flight = Flight(self.query, DECISION, self.plan, self.pool, self.books)
        try:
            await flight.run(self.sink)
        finally:
            self.check_nothing_is_left()
        return self.books.entries[0]

    def check_nothing_is_left(self) -> None:
        assert len(self.books.entries) == 1
        assert self.books.sample("flights_in_flight") == 0
        assert [worker.in_flight for worker in self.pool.workers] == [0] * len(self.pool.workers)
        for response in (response for client in self.clients for response in client.given):
            assert response.ended, "every answer is let go"
            assert response.is_read or response.ended[0] is End.ABANDONED, "what still runs is stopped"
        assert len(self.sink.landings) + len(self.sink.errors) <= 1

    def said(self, field: Field) -> str:
        return "".join(d.text for d in self.sink.deltas if isinstance(d, Text) and d.field is field)

    @property
    def report(self) -> dict[str, Any]:
        return self.sink.landings[0].report["thinking"]


def capped(cap: int, *, limit: int | None = None, how: How = How.CUT) -> Plan:
    return Plan(how, cap, 1, limit, "test")


def answer(*texts: str) -> ScriptedResponse:
    return stream(ROLE, words(*texts), end(prompt=30, completion=len(texts)))


async def test_an_ordinary_flight() -> None:
    bench = Bench([stream(ROLE, thoughts("h", "m"), words("yes"), end(prompt=4, completion=3))], plan=capped(9))
    entry = await bench.fly()
    assert (bench.said(Field.REASONING), bench.said(Field.CONTENT)) == ("hm", "yes")
    [landing] = bench.sink.landings
    assert [finish.reason for finish in landing.finishes] == ["stop"]
    assert (landing.account.prompt, landing.account.completion, landing.account.reasoning) == (4, 3, 2)
    assert bench.report == {
        "how": "cut", "cap": 9, "source": "test", "tokens": 2, "injected_tokens": 0, "ended_by": EndedBy.MODEL
    }  # fmt: skip
    assert (entry.outcome, entry.legs, entry.worker, entry.status) == (Outcome.ANSWERED, 1, "w0:1", 200)
    assert bench.books.sample("requests_total", route="reasoning", outcome="answered") == 1
    assert bench.books.sample("tokens_total", kind="reasoning") == 2
    assert bench.books.sample("tokens_total", kind="answer") == 1
    assert bench.clients[0].given[0].ended[0] is End.FINISHED
    assert bench.clients[0].asked[0].headers["x-request-id"] == "r-1"


class TestRetries:
    @pytest.mark.parametrize("first", [BROKEN, refusal(500), refusal(429), refusal(503), stream(ROLE, BROKEN)])
    async def test_what_fails_before_the_first_text_is_asked_of_another_worker(
        self, first: ScriptedResponse | UpstreamError
    ) -> None:
        bench = Bench([answer("no")], [answer("yes")])
        bench.clients[1].answers.insert(0, first)  # the second worker comes first
        entry = await bench.fly()
        assert bench.said(Field.CONTENT) == "no"
        assert [len(client.asked) for client in bench.clients] == [1, 1]
        assert entry.kinds == ["first", "retry"]
        assert bench.books.sample("legs_total", kind="retry") == 1
        assert bench.clients[0].asked[0].headers["x-request-id"] == "r-2"

    @pytest.mark.parametrize("status", [429, 503])
    async def test_a_full_worker_is_not_asked_again(self, status: int) -> None:
        bench = Bench([refusal(status, headers={"retry-after": "7"}), answer("late")])
        entry = await bench.fly()
        assert len(bench.clients[0].asked) == 1
        [error] = bench.sink.errors
        assert (error.status, error.headers["retry-after"]) == (status, "7")
        assert entry.outcome is Outcome.REJECTED

    async def test_a_failing_worker_is_asked_again_but_not_for_ever(self) -> None:
        bench = Bench([refusal(500), refusal(500), refusal(500), answer("late")])
        entry = await bench.fly()
        assert len(bench.clients[0].asked) == 3
        assert (bench.sink.errors[0].status, entry.outcome) == (502, Outcome.FAILED)

    @pytest.mark.parametrize("status", [400, 404, 422])
    async def test_the_clients_own_fault_is_told_at_once(self, status: int) -> None:
        bench = Bench([refusal(status, "your fault"), answer("late")], [answer("late")])
        bench.clients[1].answers.insert(0, refusal(status, "your fault"))
        entry = await bench.fly()
        assert sum(len(client.asked) for client in bench.clients) == 1
        assert (bench.sink.errors[0].status, bench.sink.errors[0].message) == (status, "your fault")
        assert (entry.outcome, entry.status) == (Outcome.REJECTED, status)

    @pytest.mark.parametrize("trouble", [BROKEN, b'data: {"error": "boom"}\n\n', DONE, b"data: {\n\n"])
    async def test_after_the_first_text_nothing_is_asked_again(self, trouble: bytes | UpstreamError) -> None:
        bench = Bench(*([stream(ROLE, thoughts("hm"), trouble), answer("late")] for _ in range(2)))
        entry = await bench.fly()
        assert sum(len(client.asked) for client in bench.clients) == 1
        assert bench.said(Field.REASONING) == "hm"
        assert [error.status for error in bench.sink.errors] == [502]
        assert bench.sink.errors[0].headers["x-should-retry"] == "false"
        assert entry.outcome is Outcome.FAILED
        assert bench.books.sample("tokens_total", kind="reasoning") == 1, "what was generated is booked"

    async def test_no_ready_worker_is_a_503(self) -> None:
        bench = Bench([])
        bench.pool.workers.clear()
        entry = await bench.fly()
        assert (bench.sink.errors[0].status, entry.outcome) == (503, Outcome.REJECTED)


class TestCut:
    async def test_the_thought_ends_exactly_at_its_cap(self) -> None:
        first = stream(ROLE, thoughts("a", "b"), thoughts("c", "d", "e") + words("late") + end(completion=6))
        bench = Bench([first, answer("yes")], plan=capped(3))
        entry = await bench.fly()
        assert bench.said(Field.REASONING) == "abc Enough."
        assert bench.said(Field.CONTENT) == "yes"
        assert (entry.outcome, entry.ended_by) == (Outcome.CUT_ANSWERED, EndedBy.CAP)
        assert (bench.report["tokens"], bench.report["ended_by"]) == (3, "cap")
        assert [finish.reason for finish in bench.sink.landings[0].finishes] == ["stop"]
        assert entry.kinds == ["first", "answer"]

    async def test_the_engine_stops_before_the_client_hears(self) -> None:
        bench = Bench([stream(ROLE, thoughts("a", "b")), answer("yes")], plan=capped(2))
        await bench.fly()
        path = "post /v1/chat/completions"
        assert bench.tape.events[:5] == [path, "end abandoned", "write", "write", path]
        assert bench.tape.events[-1] == "land"

    async def test_the_second_leg_continues_from_the_thought(self) -> None:
        body = {"max_tokens": 100, "tools": [{"type": "function"}], "temperature": 0.3}
        first = stream(ROLE, thoughts("One.", " Two.", " Thr"))
        bench = Bench([first, answer("yes")], plan=capped(3, limit=100), body=body, answer_lead_in="So: ")
        await bench.fly()
        sent = bench.clients[0].asked[1].body
        assert sent["messages"] == [
            *MESSAGES,
            {"role": "assistant", "reasoning_content": "One. Two. Thr Enough.", "content": "So: "},
        ]
        assert sent["continue_final_message"] == "content"
        assert sent["max_tokens"] == 100 - 3 - 2 - 1
        assert (sent["tools"], sent["temperature"], sent["stream"]) == (body["tools"], 0.3, True)

    async def test_the_second_leg_by_ids(self) -> None:
        ids = [reply({"tokens": [1, 2, 3]}), reply({"tokens": [4, 5]})]
        last = stream(_completion("yes"), _completion("", "stop"), DONE)
        bench = Bench([stream(ROLE, thoughts("hm")), *ids, last], plan=capped(1), engine=EngineKind.VLLM)
        await bench.fly()
        first, render, text, second = bench.clients[0].asked
        assert (render.path, text.path, second.path) == ("/tokenize", "/tokenize", "/v1/completions")
        assert render.body["messages"] == MESSAGES
        assert text.body["prompt"] == "hm Enough.</think>\n\n"
        assert second.body["prompt"] == [1, 2, 3, 4, 5]
        assert first.headers["x-request-id"] == "r-1"
        assert bench.said(Field.CONTENT) == "yes"
        assert bench.sink.landings[0].account.prompt == 3

    async def test_the_phrase_and_the_lead_in_are_spoken_under_the_first_legs_name(self) -> None:
        bench = Bench([stream(ROLE, thoughts("hm")), answer("yes")], plan=capped(1), answer_lead_in="So: ")
        await bench.fly()
        assert bench.said(Field.REASONING) == "hm Enough."
        assert bench.said(Field.CONTENT) == "So: yes"
        assert {identity.id for identity in bench.sink.identities} == {"e-1"}

    async def test_the_role_is_told_once(self) -> None:
        bench = Bench([stream(ROLE, thoughts("hm")), answer("yes")], plan=capped(1))
        await bench.fly()
        assert [type(delta).__name__ for delta in bench.sink.deltas].count("Begin") == 1

    async def test_the_account_adds_up(self) -> None:
        progress = {"total": 12, "cache": 5, "processed": 12}
        first = stream(chunk({"role": "assistant"}, prompt_progress=progress), thoughts("a", "b"))
        bench = Bench([first, answer("x", "y", "z")], plan=capped(2), answer_lead_in="So: ")
        entry = await bench.fly()
        account = bench.sink.landings[0].account
        phrase, lead_in = 2, 1
        assert (account.completion, account.reasoning) == (2 + phrase + lead_in + 3, 2 + phrase)
        assert (account.prompt, account.cached) == (12, 5)
        assert (entry.reasoning, entry.answer, entry.injected) == (2 + phrase, lead_in + 3, phrase + lead_in)
        assert bench.report["injected_tokens"] == phrase + lead_in

    async def test_a_model_that_stops_inside_its_thought_is_led_to_the_answer(self) -> None:
        bench = Bench([stream(ROLE, thoughts("hm"), end(completion=1)), answer("yes")], plan=capped(9))
        entry = await bench.fly()
        assert (bench.said(Field.REASONING), bench.said(Field.CONTENT)) == ("hm Enough.", "yes")
        assert (entry.ended_by, entry.outcome) == (EndedBy.STOP, Outcome.CUT_ANSWERED)

    async def test_an_engines_extension_is_not_taken_for_an_answer(self) -> None:
        odd = chunk(None, system_fingerprint="x")
        bench = Bench([stream(ROLE, odd, thoughts("hm"), end(completion=1)), answer("yes")], plan=capped(9))
        entry = await bench.fly()
        assert bench.said(Field.CONTENT) == "yes"
        assert entry.ended_by is EndedBy.STOP

    async def test_a_thought_that_fills_the_limit_is_a_length(self) -> None:
        bench = Bench([stream(ROLE, thoughts("hm"), end("length", completion=1))], plan=capped(9))
        entry = await bench.fly()
        assert ([f.reason for f in bench.sink.landings[0].finishes], entry.outcome) == (["length"], Outcome.LENGTH)

    async def test_an_engine_that_overruns_its_native_cap_is_cut_and_remembered(self) -> None:
        native = capped(4, how=How.NATIVE)
        ids = [reply({"tokens": [1]}), reply({"tokens": [2]})]
        last = stream(_completion("yes"), _completion("", "stop"), DONE)
        bench = Bench(
            [stream(ROLE, *[thoughts("a")] * 50), *ids, last], plan=native, engine=EngineKind.VLLM, native_cap=True
        )
        assert bench.pool.policy({"messages": MESSAGES}).how is How.NATIVE
        await bench.fly()
        assert bench.clients[0].asked[0].body["thinking_token_budget"] == 4
        assert bench.said(Field.REASONING) == "a" * 36 + " Enough.", "cap and slack"
        assert bench.pool.policy({"messages": MESSAGES}).how is How.CUT

    async def test_a_second_thought_gets_a_quarter_and_a_third_none(self) -> None:
        again = [stream(ROLE, thoughts(*"abcdefgh")) for _ in range(3)]
        bench = Bench([*again, answer("late")], plan=capped(8))
        entry = await bench.fly()
        assert bench.said(Field.REASONING) == "abcdefgh Enough.ab Enough.ab"
        assert len(bench.clients[0].asked) == 3
        assert ([f.reason for f in bench.sink.landings[0].finishes], entry.outcome) == (["length"], Outcome.LENGTH)
        assert all(response.ended[0] is End.ABANDONED for response in bench.clients[0].given)

    async def test_words_that_were_said_are_not_said_again_after_a_second_thought(self) -> None:
        """What a client has seen is never taken back, and never repeated: the third leg goes on from it."""
        second = stream(ROLE, words("It is"), thoughts("wait"))
        bench = Bench([stream(ROLE, thoughts("hm")), second, answer(" 5")], plan=capped(1), answer_lead_in="So: ")
        await bench.fly()
        assert bench.said(Field.CONTENT) == "So: It is 5"
        assert bench.clients[0].asked[2].body["messages"][-1]["content"] == "So: It is"

    async def test_where_nothing_can_continue_a_cut_is_a_length(self) -> None:
        bench = Bench([stream(ROLE, thoughts("a", "b"))], plan=capped(1), engine=EngineKind.OPENAI)
        entry = await bench.fly()
        assert ([f.reason for f in bench.sink.landings[0].finishes], entry.outcome) == (["length"], Outcome.LENGTH)
        assert bench.said(Field.REASONING) == "a"

    async def test_the_answer_leg_may_go_elsewhere(self) -> None:
        bench = Bench([answer("yes")], [stream(ROLE, thoughts("hm")), refusal(503)], plan=capped(1))
        entry = await bench.fly()
        assert bench.said(Field.CONTENT) == "yes"
        assert entry.kinds == ["first", "answer", "retry"]
        assert entry.worker == "w0:1"

    async def test_an_answer_leg_that_fails_is_one_error_after_the_thought(self) -> None:
        bench = Bench([stream(ROLE, thoughts("hm")), refusal(400, "too long")], plan=capped(1))
        entry = await bench.fly()
        assert [error.status for error in bench.sink.errors] == [400]
        assert (entry.legs, entry.reasoning) == (2, 1 + 2)


def _completion(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "e-2", "model": "m", "choices": [choice]}).encode() + b"\n\n"


class TestChoices:
    async def test_several_choices_are_not_cut_and_their_usage_is_one(self) -> None:
        events = [chunk({"reasoning_content": "a"}, index=index) for index in (0, 1)] * 5
        ends = chunk({}, finish="stop", index=0) + chunk({}, finish="length", index=1)
        usage = chunk(None, usage={"prompt_tokens": 3, "completion_tokens": 10})
        bench = Bench([stream(*events, ends + usage + DONE)], plan=capped(2), body={"n": 2})
        await bench.fly()
        [landing] = bench.sink.landings
        assert [(finish.index, finish.reason) for finish in landing.finishes] == [(0, "stop"), (1, "length")]
        assert (landing.account.completion, landing.account.reasoning) == (10, 10)

    async def test_running_totals_of_several_choices_are_not_added_up(self) -> None:
        """vLLM with `continuous_usage_stats` tells each choice's total on every event, and the sum at the end."""
        reads = [
            chunk({"content": "a"}, index=index, usage={"prompt_tokens": 3, "completion_tokens": count})
            for count in (1, 2, 3)
            for index in (0, 1)
        ]
        ends = chunk({}, finish="stop", index=0) + chunk({}, finish="stop", index=1)
        usage = chunk(None, usage={"prompt_tokens": 3, "completion_tokens": 6})
        body = {"n": 2, "stream": True, "stream_options": {"continuous_usage_stats": True}}
        bench = Bench([stream(*reads, ends + usage + DONE)], body=body)
        await bench.fly()
        assert bench.sink.landings[0].account.completion == 6


class TestTrouble:
    async def test_the_total_deadline_is_one_error(self) -> None:
        bench = Bench([stream(ROLE, thoughts("hm"), HANG)], timeouts=Timeouts(total=0.05))
        entry = await bench.fly()
        [error] = bench.sink.errors
        assert (error.status, error.code, error.headers["x-should-retry"]) == (504, "deadline", "false")
        assert bench.clients[0].given[0].ended[0] is End.ABANDONED
        assert bench.tape.events[-2:] == ["end abandoned", "fail"], "first the engine stops"
        assert (entry.outcome, entry.reasoning) == (Outcome.FAILED, 1)

    async def test_no_token_in_time_is_one_error(self) -> None:
        bench = Bench([stream(ROLE, HANG), answer("late")], timeouts=Timeouts(first_token=0.02))
        entry = await bench.fly()
        assert [error.code for error in bench.sink.errors] == ["engine_timeout"]
        assert (len(bench.clients[0].asked), entry.outcome) == (1, Outcome.FAILED)

    async def test_an_aborted_answer_is_an_error(self) -> None:
        bench = Bench([stream(ROLE, words("half"), end("abort"))])
        entry = await bench.fly()
        assert (bench.sink.errors[0].status, entry.outcome) == (502, Outcome.FAILED)

    async def test_an_unknown_finish_reason_is_a_length(self) -> None:
        bench = Bench([stream(ROLE, words("half"), end("repetition"))])
        await bench.fly()
        assert [finish.reason for finish in bench.sink.landings[0].finishes] == ["length"]

    async def test_a_bug_in_the_sink_leaves_nothing_running(self) -> None:
        bench = Bench([stream(ROLE, words("a"), HANG)])

        async def explode(deltas: list[Delta], identity: object) -> None:
            raise RuntimeError("a bug")

        bench.sink.write = explode  # type: ignore[method-assign, assignment]
        with pytest.raises(RuntimeError):
            await bench.fly()
        assert bench.books.entries[0].outcome is Outcome.FAILED
        assert bench.clients[0].given[0].ended[0] is End.ABANDONED


AWAITS = 20
"""Awaits of the flight below."""


def long_flight() -> Bench:
    """A cut, a refused second leg, a retry elsewhere, an answer. The second worker is the first to be asked."""
    first = stream(ROLE, thoughts("a"), thoughts("b"), thoughts("c", "late"))
    last = stream(ROLE, words("x"), words("y"), end(completion=2))
    return Bench([last], [first, refusal(500)], plan=capped(3))


async def test_the_long_flight_has_as_many_awaits_as_are_cancelled_below() -> None:
    bench = long_flight()
    await bench.fly()
    assert bench.said(Field.CONTENT) == "xy"
    assert bench.tape.awaits == AWAITS


@pytest.mark.parametrize("at", range(1, AWAITS + 1))
async def test_a_client_that_leaves_at_any_moment_leaves_nothing_running(at: int) -> None:
    """During launch, between reads and writes, between the legs, during a retry, at the landing."""
    bench = long_flight()
    bench.tape.cancel_at = at
    with pytest.raises(asyncio.CancelledError):
        await bench.fly()
    assert bench.books.entries[0].outcome is Outcome.CLIENT_GONE
    assert bench.books.sample("requests_total", route="reasoning", outcome="client_gone") == 1
    assert not bench.sink.errors


async def test_a_client_that_leaves_between_two_tries_leaves_nothing_running() -> None:
    bench = Bench([refusal(500), answer("late")])
    task = asyncio.create_task(bench.fly())
    while "end finished" not in bench.tape.events:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.books.entries[0].outcome is Outcome.CLIENT_GONE
