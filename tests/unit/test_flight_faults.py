"""Corners of a flight that has several legs: each of these once went wrong."""

from __future__ import annotations

from typing import Any

from budgets import How, Plan
from gateway.config import EngineKind, LoopAction, Loops
from gateway.engines.capabilities import Capabilities, Path, fields_of
from gateway.formation import charter
from gateway.ledger import LoopDone
from gateway.upstream import UpstreamError, UpstreamFault
from parsers import Field
from tests.flightbench import DECISION, Bench, answer, capped, completion
from tests.scripted import DONE, ROLE, ScriptedResponse, chunk, end, reply, stream, thoughts, words

UNIT = "Wait, let me think about that once more. "
LOOP = [UNIT] * 40
CLOSED = Plan(How.OFF, None, 1, None, "x", "none", closes=True)
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def ids(count: int) -> ScriptedResponse:
    return reply({"tokens": list(range(count)), "max_model_len": 1_000})


def flood(count: int) -> ScriptedResponse:
    return stream(ROLE, *(words("!") for _ in range(count)), end(completion=count))


def asked(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def acting(bench: Bench, action: LoopAction) -> Bench:
    bench.pool.config = bench.pool.config.model_copy(update={"loops": Loops(action=action)})
    return bench


async def test_a_thought_that_opens_again_past_an_empty_one_is_led_to_the_answer() -> None:
    first = stream(completion("<think> hm"), completion("", "stop"), DONE)
    last = stream(completion("yes", "stop"), DONE)
    bench = Bench([ids(10), ids(3), first, ids(3), last], plan=CLOSED, engine=EngineKind.VLLM)
    await bench.fly()
    assert bench.sink.errors == []
    assert bench.said(Field.CONTENT).strip().endswith("yes")


async def test_an_empty_thought_costs_a_first_leg_nothing_of_its_own() -> None:
    body = {"seed": 7, "min_tokens": 5}
    last = stream(completion("yes", "stop"), DONE)
    bench = Bench([ids(10), ids(3), last], plan=CLOSED, engine=EngineKind.VLLM, body=body)
    await bench.fly()
    sent = bench.clients[0].asked[-1].body
    assert {name: sent[name] for name in body} == body


async def test_several_choices_past_an_empty_thought_are_as_many() -> None:
    last = stream(completion("yes", "stop"), DONE)
    other = stream(completion("no", "stop"), DONE)
    bench = Bench([ids(10), ids(10), ids(3), ids(3), last, other], plan=CLOSED, engine=EngineKind.VLLM, body={"n": 2})
    await charter(bench.query, DECISION, bench.plan, bench.pool, bench.books).run(bench.sink)
    assert [finish.index for finish in bench.sink.landings[0].finishes] == [0, 1]


async def test_an_answer_that_is_called_thought_is_read_as_the_answer_it_is() -> None:
    first = stream(ROLE, chunk({"reasoning": "The answer is yes."}), end(completion=5))
    bench = Bench([first], plan=CLOSED, engine=EngineKind.VLLM, body={"tools": TOOLS})
    bench.pool.workers[0].capabilities = Capabilities(paths=frozenset({Path.CHAT}), misfiles=True)
    await bench.fly()
    assert bench.said(Field.CONTENT) == "The answer is yes."


async def test_an_answer_of_one_character_after_a_sound_thought_marks_nobody() -> None:
    thought = thoughts(*(f"step {number} is fine, and {number**2} follows. " for number in range(60)))
    whole = stream(ROLE, thought, words(*["0"] * 700))
    bench = Bench([whole], plan=capped(9_000), body=asked("Write one thousand zeros without blanks"))
    await bench.fly()
    assert [worker.floods for worker in bench.pool.workers] == [0]


async def test_where_loops_are_only_observed_nothing_is_taken_back() -> None:
    bench = acting(Bench([flood(200)], [flood(200)]), LoopAction.OBSERVE)
    await bench.fly()
    assert bench.said(Field.CONTENT) == "!" * 200
    assert [worker.floods for worker in bench.pool.workers] == [0, 0]


async def test_marks_that_were_asked_for_are_told() -> None:
    bench = Bench([flood(150)], [flood(150)], body=asked("Repeat the character ! 150 times"))
    await bench.fly()
    assert bench.said(Field.CONTENT) == "!" * 150
    assert [worker.floods for worker in bench.pool.workers] == [0, 0]


async def test_what_was_cut_out_does_not_come_back_in_a_third_leg() -> None:
    second = stream(ROLE, *(thoughts(f"and so number {number} of it, ") for number in range(300)))
    bench = Bench([stream(ROLE, *(thoughts(piece) for piece in LOOP)), second, answer("yes")], plan=capped(300))
    await bench.fly()
    given = [one.body["messages"][-1]["reasoning_content"].count("once more") for one in bench.clients[0].asked[1:]]
    assert given == [1, 1]


async def test_the_loop_of_each_choice_is_reported() -> None:
    looping = stream(ROLE, *(thoughts(piece) for piece in LOOP))
    bench = Bench([answer("yes"), looping, answer("no")], plan=capped(9_000), body={"n": 2})
    await charter(bench.query, DECISION, bench.plan, bench.pool, bench.books).run(bench.sink)
    [loop] = bench.sink.landings[0].report["loops"]
    assert (loop["choice"], loop["action"]) == (1, LoopDone.RESCUED)


async def test_a_call_after_a_thought_is_not_counted_as_thought() -> None:
    call = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})
    whole = stream(ROLE, thoughts("a", "b"), call, end("tool_calls", completion=40))
    bench = Bench([whole], plan=capped(9_000), body={"tools": TOOLS})
    await bench.fly()
    account = bench.sink.landings[0].account
    assert (account.completion, account.reasoning) == (40, 2)


async def test_an_open_call_leaves_the_answer_its_reserve() -> None:
    endless = stream(ROLE, *(thoughts(piece) for piece in ["<tool_call>", *["x"] * 400]))
    bench = Bench([endless, answer("yes")], plan=capped(10, limit=100), body={"tools": TOOLS, "max_tokens": 100})
    await bench.fly()
    assert bench.said(Field.CONTENT) == "yes"
    assert bench.sink.landings[0].account.completion <= 100


async def test_workers_that_die_before_a_word_is_told_are_not_tried_for_ever() -> None:
    """Their first words were held back as a sick worker's might be, so each time nothing had been told."""
    broken = UpstreamError(UpstreamFault.CLOSED, "reset")
    bench = Bench(*([stream(ROLE, words("!"), broken) for _ in range(9)] for _ in range(2)), plan=capped(9_000))
    await bench.fly()
    assert len(bench.sink.errors) == 1
    assert sum(len(client.asked) for client in bench.clients) == 3


def test_an_answer_that_is_nested_without_end_is_no_answer() -> None:
    assert fields_of(200, b"[" * 200_000) == {}
    assert fields_of(200, b'{"a":' * 200_000) == {}
