"""Thoughts held to a number of tokens by real engines: cut by the gateway, or capped by the engine that can.

Each case is told streamed and whole, and the two must agree: greedy, and one request at a time. llama.cpp is told not
to use its cache meanwhile, for a prompt that is computed in other pieces is rounded otherwise, and a long text soon
parts. vLLM on a CPU says the same with its cache and without.
"""

from __future__ import annotations

from typing import Any

from tests.engines.conftest import BARE, EMBEDDED, PHRASE, VLLM, on
from tests.engines.told import STORY, Told, ask, tell
from tests.engines.under_test import IDLE, TURN_ENDS, Engine
from tests.harness import Gateway

CAPS = (0, 1, 16, 64, 256, 1024)
CUTS = [
    *((VLLM, cap) for cap in CAPS),
    *((EMBEDDED, cap) for cap in CAPS),
    *((BARE, cap) for cap in (16, 64, 256)),
]
RAMBLING: dict[str, Any] = {"frequency_penalty": 0.3}
"""Keeps so small a model from saying one sentence again and again: ids, not repetitions, are to be found again."""
IN_FLIGHT = 1
"""Tokens in a chunk: both engines send each by itself."""
LATE = 8
"""Tokens that an engine may still generate until it notices that its client is gone."""
MARKERS = 3
"""Tokens of an answer without a text of their own: the close marker, the newlines after it, the end of the turn."""


async def both_ways(served: Gateway, engine: Engine, pool: str, cap: int, **fields: Any) -> tuple[Told, Told]:
    """Streamed and whole, each checked by the engine's own count."""
    found: list[Told] = []
    for streamed in (True, False):
        before = (await engine.metrics()).value(engine.generated)
        body = ask(pool, f"{cap}: {STORY}", streamed=streamed, cap=cap, **RAMBLING, **engine.cold, **fields)
        told = await tell(served, body)
        await engine.until(0, IDLE)
        made = (await engine.metrics()).value(engine.generated) - before
        assert told.generated <= made <= told.generated + LATE, "the usage is what the engine has generated"
        assert told.answer.strip()
        assert told.finish in {"stop", "length"}
        assert "think>" not in told.thought
        found.append(told)
    one, other = found
    if engine.kind == "embedded":  # vLLM tells its ids: there they are counted, see test_real_vllm
        pieces = one.pieces - (PHRASE in one.thought)
        assert one.generated - MARKERS <= pieces <= one.generated, "the usage is the sum of what was streamed"
    return one, other


def assert_the_same(one: Told, other: Told) -> None:
    assert one.thought == other.thought
    assert one.answer == other.answer
    assert one.finish == other.finish
    for name in ("prompt_tokens", "completion_tokens", "completion_tokens_details"):
        assert one.usage[name] == other.usage[name], name
    assert one.report == other.report


@on("where,cap", CUTS)
async def test_cut_by_the_gateway(served: Gateway, engine: Engine, cap: int) -> None:
    one, other = await both_ways(served, engine, "cut", cap, **await engine.never("</think>", *TURN_ENDS))
    for told in (one, other):
        assert "think>" not in told.answer
        if cap == 0:
            assert_silent(told)
            continue
        assert (told.legs, told.thinking["how"], told.thinking["cap"]) == (2, "cut", cap)
        assert told.thinking["ended_by"] == "cap"
        assert cap <= told.thinking["tokens"] <= cap + IN_FLIGHT
        thought, phrase, rest = told.thought.partition(PHRASE)
        assert (phrase, rest) == (PHRASE, "")
        assert len(await engine.tokenize(thought)) <= cap + IN_FLIGHT
        assert told.reasoning == told.thinking["tokens"] + told.thinking["injected_tokens"]
    assert_the_same(one, other)


@on("where,cap", [(VLLM, cap) for cap in CAPS])
async def test_capped_by_the_engine(served: Gateway, engine: Engine, cap: int) -> None:
    one, other = await both_ways(served, engine, "native", cap, **await engine.never(*TURN_ENDS))
    for told in (one, other):
        if cap == 0:
            assert_silent(told)
            continue
        assert (told.legs, told.thinking["how"], told.thinking["cap"]) == (1, "native", cap)
        assert told.thinking["tokens"] <= cap
        assert len(await engine.tokenize(told.thought)) <= cap
        assert PHRASE not in told.thought
    assert_the_same(one, other)


def assert_silent(told: Told) -> None:
    """No thought at all was asked for, and none came."""
    assert (told.thought, told.reasoning, told.thinking["tokens"]) == ("", 0, 0)
    assert (told.legs, told.thinking["how"], told.thinking["injected_tokens"]) == (1, "off", 0)
