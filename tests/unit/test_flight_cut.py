"""A thought that ends before its model would: the cut, the second leg, the account, and how often it may happen."""

from __future__ import annotations

import json
from typing import Any

from budgets import How
from gateway.config import EngineKind
from gateway.ledger import EndedBy, Outcome
from gateway.upstream import End
from parsers import Field
from tests.flightbench import MESSAGES, Bench, answer, capped, completion
from tests.scripted import DONE, ROLE, chunk, end, refusal, reply, stream, thoughts, words


async def test_the_thought_ends_exactly_at_its_cap() -> None:
    first = stream(ROLE, thoughts("a", "b"), thoughts("c", "d", "e") + words("late") + end(completion=6))
    bench = Bench([first, answer("yes")], plan=capped(3))
    entry = await bench.fly()
    assert bench.said(Field.REASONING) == "abc Enough."
    assert bench.said(Field.CONTENT) == "yes"
    assert (entry.outcome, entry.ended_by) == (Outcome.CUT_ANSWERED, EndedBy.CAP)
    assert (bench.report["tokens"], bench.report["ended_by"]) == (3, "cap")
    assert [finish.reason for finish in bench.sink.landings[0].finishes] == ["stop"]
    assert entry.kinds == ["first", "answer"]


async def test_the_engine_stops_before_the_client_hears() -> None:
    bench = Bench([stream(ROLE, thoughts("a", "b")), answer("yes")], plan=capped(2))
    await bench.fly()
    path = "post /v1/chat/completions"
    assert bench.tape.events[:5] == [path, "end abandoned", "write", "write", path]
    assert bench.tape.events[-1] == "land"


async def test_the_second_leg_continues_from_the_thought() -> None:
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


async def test_the_second_leg_by_ids() -> None:
    ids = [reply({"tokens": [1, 2, 3]}), reply({"tokens": [4, 5]})]
    last = stream(completion("yes"), completion("", "stop"), DONE)
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


async def test_the_phrase_and_the_lead_in_are_spoken_under_the_first_legs_name() -> None:
    bench = Bench([stream(ROLE, thoughts("hm")), answer("yes")], plan=capped(1), answer_lead_in="So: ")
    await bench.fly()
    assert bench.said(Field.REASONING) == "hm Enough."
    assert bench.said(Field.CONTENT) == "So: yes"
    assert {identity.id for identity in bench.sink.identities} == {"e-1"}


async def test_the_role_is_told_once() -> None:
    bench = Bench([stream(ROLE, thoughts("hm")), answer("yes")], plan=capped(1))
    await bench.fly()
    assert [type(delta).__name__ for delta in bench.sink.deltas].count("Begin") == 1


async def test_the_account_adds_up() -> None:
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


async def test_a_model_that_stops_inside_its_thought_is_led_to_the_answer() -> None:
    bench = Bench([stream(ROLE, thoughts("hm"), end(completion=1)), answer("yes")], plan=capped(9))
    entry = await bench.fly()
    assert (bench.said(Field.REASONING), bench.said(Field.CONTENT)) == ("hm Enough.", "yes")
    assert (entry.ended_by, entry.outcome) == (EndedBy.STOP, Outcome.CUT_ANSWERED)


async def test_an_engines_extension_is_not_taken_for_an_answer() -> None:
    odd = chunk(None, system_fingerprint="x")
    bench = Bench([stream(ROLE, odd, thoughts("hm"), end(completion=1)), answer("yes")], plan=capped(9))
    entry = await bench.fly()
    assert bench.said(Field.CONTENT) == "yes"
    assert entry.ended_by is EndedBy.STOP


async def test_a_thought_that_fills_the_limit_is_a_length() -> None:
    bench = Bench([stream(ROLE, thoughts("hm"), end("length", completion=1))], plan=capped(9))
    entry = await bench.fly()
    assert ([f.reason for f in bench.sink.landings[0].finishes], entry.outcome) == (["length"], Outcome.LENGTH)


async def test_an_engine_that_overruns_its_native_cap_is_cut_and_remembered() -> None:
    native = capped(4, how=How.NATIVE)
    ids = [reply({"tokens": [1]}), reply({"tokens": [2]})]
    last = stream(completion("yes"), completion("", "stop"), DONE)
    bench = Bench(
        [stream(ROLE, *[thoughts("a")] * 50), *ids, last], plan=native, engine=EngineKind.VLLM, native_cap=True
    )
    assert bench.pool.policy({"messages": MESSAGES}).how is How.NATIVE
    await bench.fly()
    assert bench.clients[0].asked[0].body["thinking_token_budget"] == 4
    assert bench.said(Field.REASONING) == "a" * 36 + " Enough.", "cap and slack"
    assert bench.pool.policy({"messages": MESSAGES}).how is How.CUT


async def test_a_second_thought_gets_a_quarter_and_a_third_none() -> None:
    again = [stream(ROLE, thoughts(*"abcdefgh")) for _ in range(3)]
    bench = Bench([*again, answer("late")], plan=capped(8))
    entry = await bench.fly()
    assert bench.said(Field.REASONING) == "abcdefgh Enough.ab Enough.ab"
    assert len(bench.clients[0].asked) == 3
    assert ([f.reason for f in bench.sink.landings[0].finishes], entry.outcome) == (["length"], Outcome.LENGTH)
    assert all(response.ended[0] is End.ABANDONED for response in bench.clients[0].given)


async def test_words_that_were_said_are_not_said_again_after_a_second_thought() -> None:
    """What a client has seen is never taken back, and never repeated: the third leg goes on from it."""
    second = stream(ROLE, words("It is"), thoughts("wait"))
    bench = Bench([stream(ROLE, thoughts("hm")), second, answer(" 5")], plan=capped(1), answer_lead_in="So: ")
    await bench.fly()
    assert bench.said(Field.CONTENT) == "So: It is 5"
    assert bench.clients[0].asked[2].body["messages"][-1]["content"] == "So: It is"


async def test_a_cut_that_leaves_no_token_for_an_answer_is_a_length() -> None:
    bench = Bench([stream(ROLE, thoughts("a", "b"))], plan=capped(1, limit=1))
    entry = await bench.fly()
    assert ([f.reason for f in bench.sink.landings[0].finishes], entry.outcome) == (["length"], Outcome.LENGTH)
    assert bench.said(Field.REASONING) == "a"


async def test_where_nothing_can_continue_nothing_is_cut() -> None:
    """A plan is made before a worker is picked; the one that is picked has the last word."""
    whole = stream(ROLE, thoughts("a", "b"), words("c"), end(completion=3))
    bench = Bench([whole], plan=capped(1), engine=EngineKind.OPENAI)
    await bench.fly()
    assert (bench.said(Field.REASONING), bench.said(Field.CONTENT)) == ("ab", "c")
    assert bench.report["how"] == How.NONE


async def test_a_number_that_no_worker_can_hold_any_more_is_refused() -> None:
    bench = Bench([], plan=capped(1), engine=EngineKind.OPENAI, body={"thinking_budget": 1})
    await bench.fly()
    [error] = bench.sink.errors
    assert (error.status, error.code, error.param) == (400, "unsupported_value", "thinking_budget")


async def test_the_answer_leg_may_go_elsewhere() -> None:
    bench = Bench([answer("yes")], [stream(ROLE, thoughts("hm")), refusal(503)], plan=capped(1))
    entry = await bench.fly()
    assert bench.said(Field.CONTENT) == "yes"
    assert entry.kinds == ["first", "answer", "retry"]
    assert entry.worker == "w0:1"


async def test_an_answer_leg_that_fails_is_one_error_after_the_thought() -> None:
    bench = Bench([stream(ROLE, thoughts("hm")), refusal(400, "too long")], plan=capped(1))
    entry = await bench.fly()
    assert [error.status for error in bench.sink.errors] == [400]
    assert (entry.legs, entry.reasoning) == (2, 1 + 2)


async def test_a_call_that_the_thought_has_opened_is_not_cut_in_two() -> None:
    call = thoughts("<tool_call>", '{"a":', "1}", "</tool_call>", " so", " on")
    body = {"tools": [{"type": "function"}]}
    bench = Bench([stream(ROLE, thoughts("a"), call), answer("yes")], plan=capped(2), body=body)
    await bench.fly()
    assert bench.said(Field.REASONING) == 'a<tool_call>{"a":1}</tool_call> Enough.'
    assert bench.said(Field.CONTENT) == "yes"


async def test_without_tools_a_marker_is_a_word_like_any_other() -> None:
    bench = Bench([stream(ROLE, thoughts("a", "<tool_call>", "b")), answer("yes")], plan=capped(2))
    await bench.fly()
    assert bench.said(Field.REASONING) == "a<tool_call> Enough."


async def test_a_thought_that_goes_on_after_a_call_is_ended_not_continued() -> None:
    """The call has been told and cannot be told again; the client gets it with the reason that SDKs act on."""
    called = chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})
    bench = Bench([stream(ROLE, thoughts("a"), called, thoughts("b", "c", "d"))], plan=capped(3))
    entry = await bench.fly()
    assert [finish.reason for finish in bench.sink.landings[0].finishes] == ["tool_calls"]
    assert entry.legs == 1


async def test_ids_of_an_event_that_holds_both_are_nobodys() -> None:
    """The thought's last piece came with its end marker and the first word of the answer: only what is known for sure
    goes on as ids, the rest as text."""
    ids: dict[str, Any] = {"prompt_token_ids": [1, 2]}
    role = chunk({"role": "assistant", "content": ""}, **ids)

    def said(delta: dict[str, str], *tokens: int) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None, "token_ids": list(tokens)}
        return b"data: " + json.dumps({"id": "e-1", "model": "m", "choices": [choice]}).encode() + b"\n\n"

    mixed = said({"reasoning": " b.", "content": "no"}, 8, 9, 10)
    last = stream(completion("yes"), completion("", "stop"), DONE)
    bench = Bench(
        [stream(role, said({"reasoning": "A"}, 7), mixed), reply({"tokens": [20]}), last],
        plan=capped(2),
        engine=EngineKind.VLLM,
    )
    await bench.fly()
    _, text, second = bench.clients[0].asked
    assert text.body["prompt"] == " b. Enough.</think>\n\n"
    assert second.body["prompt"] == [1, 2, 7, 20]
