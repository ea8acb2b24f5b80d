"""One request over scripted engines: retries, choices, failures, a client that leaves; the books after each."""

from __future__ import annotations

import asyncio

import pytest
from tenacity import wait_fixed

from gateway import attempts
from gateway.config import EngineKind, Timeouts
from gateway.deltas import Delta
from gateway.ledger import EndedBy, Outcome
from gateway.upstream import End, UpstreamError, UpstreamFault
from parsers import Field
from tests.flightbench import Bench, answer, capped
from tests.rawengine import until
from tests.scripted import DONE, HANG, ROLE, ScriptedResponse, chunk, end, refusal, stream, thoughts, words

BROKEN = UpstreamError(UpstreamFault.CLOSED, "broke off")


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
        """By an engine that cannot go on from what was said; the others are asked to do just that."""
        scripts = ([stream(ROLE, thoughts("hm"), trouble), answer("late")] for _ in range(2))
        bench = Bench(*scripts, engine=EngineKind.OPENAI)
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


async def test_a_client_that_leaves_between_two_tries_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "wait_random_exponential", lambda **_: wait_fixed(60))
    bench = Bench([refusal(500), refusal(500), answer("late")])
    task = asyncio.create_task(bench.fly())
    await until(lambda: bench.tape.events.count("end finished") == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.books.entries[0].outcome is Outcome.CLIENT_GONE
    assert len(bench.clients[0].asked) == 2
