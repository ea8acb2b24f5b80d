"""The ladder of a rescue: cut out and answered, asked afresh elsewhere, ended honestly; and how it is booked."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config import EngineKind
from gateway.ledger import EndedBy, LoopDone, Outcome
from parsers import Field
from tests.flightbench import MESSAGES, Bench, answer, capped
from tests.scripted import ROLE, ScriptedResponse, chunk, end, stream, thoughts, words

UNIT = "Wait, let me think about that once more. "
LOOP = [UNIT] * 40
CAP = 9_000


def looping(*before: str) -> ScriptedResponse:
    return stream(ROLE, *(thoughts(piece) for piece in (*before, *LOOP)))


def looping_answer(*before: str) -> ScriptedResponse:
    return stream(ROLE, *(words(piece) for piece in (*before, *LOOP)))


def done(bench: Bench) -> list[LoopDone]:
    return [note.done for note in bench.books.entries[0].loops]


async def test_one_copy_stays_and_the_answer_follows() -> None:
    bench = Bench([looping("First, the facts. "), answer("yes")], plan=capped(CAP))
    entry = await bench.fly()
    sent = bench.clients[0].asked[1].body["messages"][-1]
    assert sent["reasoning_content"].endswith(" Enough.")
    kept = sent["reasoning_content"].removesuffix(" Enough.")
    whole = f"First, the facts. {UNIT}".rstrip()
    assert whole.startswith(kept)
    assert len(whole) - len(kept) < 5
    assert bench.said(Field.CONTENT) == "yes"
    assert (entry.outcome, entry.ended_by) == (Outcome.LOOP_RESCUED, EndedBy.LOOP)
    assert done(bench) == [LoopDone.RESCUED]
    assert 0 < entry.loops[0].saved < CAP
    assert bench.books.sample("loop_rescues_total", result="answered") == 1
    assert bench.said(Field.REASONING).count(UNIT) < 20, "it was found before all of it had come"


async def test_a_loop_in_the_answer_leg_is_asked_afresh_without_thinking() -> None:
    bench = Bench([looping(), looping(), answer("yes")], plan=capped(CAP))
    entry = await bench.fly()
    third = bench.clients[0].asked[2].body
    assert third["messages"] == MESSAGES, "from the prompt, not from the thought"
    assert third["chat_template_kwargs"]["enable_thinking"] is False
    assert bench.said(Field.CONTENT) == "yes"
    assert done(bench) == [LoopDone.RESCUED, LoopDone.AFRESH]
    assert entry.outcome is Outcome.LOOP_RESCUED
    assert entry.kinds == ["first", "answer", "afresh"]


async def test_afresh_is_elsewhere_where_there_is_an_elsewhere() -> None:
    first = Bench([answer("yes")], [looping(), looping()], plan=capped(CAP))
    await first.fly()
    assert [len(client.asked) for client in first.clients] == [1, 2]
    assert first.said(Field.CONTENT) == "yes"


async def test_one_that_loops_again_is_ended_honestly() -> None:
    bench = Bench([looping(), looping(), looping_answer()], plan=capped(CAP))
    entry = await bench.fly()
    assert [finish.reason for finish in bench.sink.landings[0].finishes] == ["length"]
    assert entry.outcome is Outcome.LOOP
    assert done(bench) == [LoopDone.RESCUED, LoopDone.AFRESH, LoopDone.ENDED]


async def test_an_answer_that_was_begun_is_not_begun_again() -> None:
    """What a client has seen is never taken back: the loop is ended, and that is all."""
    again = stream(ROLE, words("It is "), *(thoughts(piece) for piece in LOOP))
    bench = Bench([looping(), again], plan=capped(CAP))
    await bench.fly()
    assert bench.said(Field.CONTENT) == "It is "
    assert [finish.reason for finish in bench.sink.landings[0].finishes] == ["length"]
    assert done(bench) == [LoopDone.RESCUED, LoopDone.ENDED]


async def test_where_nothing_can_go_on_a_looping_thought_is_ended() -> None:
    bench = Bench([looping()], plan=capped(CAP), engine=EngineKind.OPENAI)
    entry = await bench.fly()
    assert [finish.reason for finish in bench.sink.landings[0].finishes] == ["length"]
    assert (entry.outcome, done(bench)) == (Outcome.LOOP, [LoopDone.ENDED])


async def test_a_loop_after_a_tool_call_ends_with_the_call() -> None:
    called = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})
    bench = Bench([stream(ROLE, called, *(thoughts(piece) for piece in LOOP))], plan=capped(CAP))
    await bench.fly()
    assert [finish.reason for finish in bench.sink.landings[0].finishes] == ["tool_calls"]


@pytest.mark.parametrize("text", ["ha!!", "!", "!!", "!?"])
async def test_an_answer_of_exclamation_marks_is_told(text: str) -> None:
    """Held back for a moment, since a sick worker begins like that, and then told."""
    whole = stream(ROLE, *(words(letter) for letter in text), end(completion=len(text)))
    bench = Bench([whole], [answer("no")], plan=capped(CAP))
    for client in bench.clients:
        client.answers = [whole]
    await bench.fly()
    assert bench.said(Field.CONTENT) == text
    assert done(bench) == []


async def test_an_engine_that_ends_a_loop_itself() -> None:
    first = stream(ROLE, thoughts("So. "), thoughts(*["again "] * 8), end("repetition", completion=20))
    bench = Bench([first, answer("yes")], plan=capped(CAP))
    entry = await bench.fly()
    sent: dict[str, Any] = bench.clients[0].asked[1].body["messages"][-1]
    assert sent["reasoning_content"] == "So. again Enough."
    assert (entry.ended_by, done(bench)) == (EndedBy.LOOP, [LoopDone.RESCUED])
