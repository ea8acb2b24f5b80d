"""One generation against a scripted engine: when it counts as begun, what may be asked again, what is always let go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.config import Timeouts
from gateway.deltas import Begin, Delta
from gateway.engines import Call
from gateway.leg import Leg, LegFailed
from gateway.reading import Prompt
from gateway.upstream import End, UpstreamError, UpstreamFault
from parsers import Start
from tests.scripted import (
    DONE,
    HANG,
    ROLE,
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
ERROR_EVENT = b'data: {"error": {"message": "boom", "code": 500}}\n\n'


class Bench:
    """A pool with one scripted worker."""

    def __init__(self, *answers: ScriptedResponse | UpstreamError, **timeouts: float) -> None:
        self.pool, [self.client] = scripted_pool(Tape(), list(answers), timeouts=Timeouts(**timeouts))
        [self.worker] = self.pool.workers

    async def launch(self, tokenize: tuple[dict[str, Any], ...] = ()) -> Leg:
        call = Call("/v1/chat/completions", {"model": "m"}, Start.OPEN, True, tokenize)
        return await Leg.launch(self.worker, call, self.pool.profile, self.pool.config.timeouts, {"x-request-id": "r"})

    async def fails(self, tokenize: tuple[dict[str, Any], ...] = ()) -> LegFailed:
        with pytest.raises(LegFailed) as caught:
            await self.launch(tokenize)
        assert self.worker.in_flight == 0
        assert all(response.ended for response in self.client.given)
        return caught.value


async def everything(leg: Leg, deltas: list[Delta]) -> list[Delta]:
    while (read := await leg.read()) is not None:
        deltas += read
    return deltas


async def test_a_leg_is_read_to_its_end() -> None:
    bench = Bench(stream(ROLE, thoughts("hm"), words("yes"), end()), idle=33)
    leg = await bench.launch()
    assert bench.worker.in_flight == 1
    assert bench.client.given[0].watched == [33]
    assert [type(delta).__name__ for delta in await everything(leg, [])] == ["Begin", "Text", "Text", "Finish"]
    leg.end(End.FINISHED)
    leg.end(End.ABANDONED)
    assert bench.client.given[0].ended == [End.FINISHED], "only the first end counts"
    assert bench.worker.in_flight == 0
    [asked] = bench.client.asked
    assert (asked.path, asked.headers, asked.body) == ("/v1/chat/completions", {"x-request-id": "r"}, {"model": "m"})


async def test_no_token_within_its_time_is_an_error_that_is_not_tried_again() -> None:
    bench = Bench(stream(ROLE, HANG), first_token=0.02)
    failed = await bench.fails()
    assert (failed.error.status, failed.error.headers["x-should-retry"], failed.retryable) == (504, "false", False)
    assert bench.client.given[0].ended == [End.ABANDONED]


async def test_progress_of_the_prompt_is_not_a_beginning() -> None:
    """The engine has not generated yet: its failure may still be tried elsewhere, and the first token has its time."""
    progress = {"total": 40, "cache": 8, "processed": 20}
    for event in (chunk(None, prompt_progress=progress), chunk({"role": "assistant"}, prompt_progress=progress)):
        assert (await Bench(stream(event, BROKEN)).fails()).retryable
        assert (await Bench(stream(event, HANG), first_token=0.02).fails()).error.status == 504


@pytest.mark.parametrize("before", [b"", ROLE])
@pytest.mark.parametrize("trouble", [BROKEN, ERROR_EVENT, b"data: {\n\n", DONE, b"", words("a")[:-5]])
async def test_a_failure_before_the_first_text_may_be_tried_elsewhere(
    before: bytes, trouble: bytes | UpstreamError
) -> None:
    reads = [before] if before else []
    failed = await Bench(stream(*reads, trouble)).fails()
    assert failed.retryable
    assert failed.error.status == 502


@pytest.mark.parametrize("trouble", [BROKEN, ERROR_EVENT, b"data: {\n\n", DONE])
@pytest.mark.parametrize("is_same_read", [False, True])
async def test_a_failure_after_the_first_text_comes_after_that_text_and_is_final(
    trouble: bytes | UpstreamError, is_same_read: bool
) -> None:
    if is_same_read and isinstance(trouble, bytes):
        bench = Bench(stream(ROLE + thoughts("hm") + trouble))
    else:
        bench = Bench(stream(ROLE + thoughts("hm"), trouble))
    leg = await bench.launch()
    deltas: list[Delta] = []
    with pytest.raises(LegFailed) as caught:
        await everything(leg, deltas)
    assert [type(delta).__name__ for delta in deltas] == ["Begin", "Text"]
    assert not caught.value.retryable
    leg.end(End.ABANDONED)


@pytest.mark.parametrize(
    ("status", "shown", "retryable", "is_pressure"),
    [
        (400, 400, False, False),
        (401, 502, True, False),
        (404, 404, False, False),
        (422, 422, False, False),
        (429, 429, True, True),
        (500, 502, True, False),
        (503, 503, True, True),
    ],
)
async def test_a_refusal_keeps_its_meaning(status: int, shown: int, retryable: bool, is_pressure: bool) -> None:
    failed = await Bench(refusal(status, "too bad")).fails()
    assert (failed.error.status, failed.retryable, failed.is_back_pressure) == (shown, retryable, is_pressure)
    if status not in {401, 403}:
        assert failed.error.message == "too bad"


async def test_a_refusal_that_breaks_off_is_still_a_refusal() -> None:
    failed = await Bench(ScriptedResponse([b'{"err', BROKEN], status=400)).fails()
    assert (failed.error.status, failed.error.message) == (400, "The engine answered 400.")


async def test_a_connection_that_fails_may_be_tried_elsewhere() -> None:
    for fault, status in ((UpstreamFault.CONNECT, 502), (UpstreamFault.NO_CONNECTION, 503)):
        failed = await Bench(UpstreamError(fault, "no")).fails()
        assert (failed.error.status, failed.retryable) == (status, True)


async def test_an_answer_that_is_no_stream_may_be_tried_elsewhere() -> None:
    assert (await Bench(reply({"choices": []})).fails()).retryable


async def test_a_body_too_deep_to_be_written_again_is_the_clients_fault() -> None:
    """It was decoded nearer to the bottom of the stack, so this can come to light here only."""
    bench = Bench(stream(words("late")))
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    call = Call("/v1/chat/completions", {"x": deep}, Start.OPEN, True)
    with pytest.raises(LegFailed) as caught:
        await Leg.launch(bench.worker, call, bench.pool.profile, bench.pool.config.timeouts, {})
    assert (caught.value.error.status, caught.value.retryable) == (400, False)
    assert bench.worker.in_flight == 0


async def test_a_prompt_of_ids_is_asked_for_piece_by_piece() -> None:
    bench = Bench(reply({"tokens": [1, 2, 3]}), reply({"tokens": [4]}), stream(words("yes"), end()))
    leg = await bench.launch(({"messages": []}, {"prompt": "x"}))
    assert [asked.path for asked in bench.client.asked] == ["/tokenize", "/tokenize", "/v1/chat/completions"]
    assert bench.client.asked[-1].body == {"model": "m", "prompt": [1, 2, 3, 4]}
    assert leg.prompt == Prompt(3)
    assert [response.ended[:1] for response in bench.client.given[:2]] == [[End.FINISHED], [End.FINISHED]]
    leg.end(End.ABANDONED)


@pytest.mark.parametrize(
    "answer", [refusal(500), reply({"tokens": "x"}), reply([]), ScriptedResponse([b"{", BROKEN]), ScriptedResponse([])]
)
async def test_ids_that_do_not_come_may_be_tried_elsewhere(answer: ScriptedResponse) -> None:
    assert (await Bench(answer).fails(({"messages": []},))).retryable


async def test_ids_that_take_too_long_are_let_go() -> None:
    bench = Bench(ScriptedResponse([HANG]), first_token=0.02)
    await bench.fails(({"messages": []},))
    assert bench.client.given[0].ended[0] is End.ABANDONED


async def test_a_cancelled_launch_leaves_nothing_running() -> None:
    for at in (1, 2, 3):
        bench = Bench(stream(ROLE, ROLE, words("yes"), end()))
        bench.client.tape.cancel_at = at
        with pytest.raises(asyncio.CancelledError):
            await bench.launch()
        assert bench.worker.in_flight == 0
        assert all(response.ended[0] is End.ABANDONED for response in bench.client.given)


async def test_a_role_alone_is_not_given_out_before_there_is_text() -> None:
    bench = Bench(stream(ROLE, chunk({"content": ""}), words("yes"), end()))
    leg = await bench.launch()
    first = await leg.read()
    assert first is not None
    assert [type(delta).__name__ for delta in first] == ["Begin", "Text"]
    assert first[0] == Begin(0)
    leg.end(End.ABANDONED)
