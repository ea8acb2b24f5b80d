"""What a gateway does when something goes wrong, seen from both sides: the client's, and that of two vLLMs.

The engines are the doubles of the tests, which speak as vLLM 0.32 does, fail on request, and say what only correct
behaviour can reproduce. Every question is put to every gateway in the same words, by the same client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import httpx

from benchmarks.peers.client import Client, Seen, body_of
from benchmarks.peers.systems import KEY, MODEL, System
from tests.doubles.exchange import End, Exchange
from tests.doubles.script import Script, ask, expected_answer, thought
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble

STOPS_WITHIN = 6.0
"""Seconds after which an engine that still generates is taken to go on."""
BUDGET = 64
"""Thinking tokens asked for."""
LONG = 1_500
"""Tokens that an engine thinks if it is let."""


class Engines:
    """Two of one model, whose memory is read."""

    def __init__(self, host: Host) -> None:
        self.all = [host.add(VllmDouble(MODEL, default=Script(delay_ms=2))) for _ in range(2)]

    @property
    def urls(self) -> list[str]:
        return [one.url for one in self.all]

    def of(self, key: str) -> list[Exchange]:
        return [exchange for one in self.all for exchange in one.of(key)]

    def refusals(self, key: str) -> int:
        return sum(exchange.end is End.REFUSED for exchange in self.of(key))

    def generated(self, key: str) -> int:
        """Tokens that were made for this key, told or not."""
        return sum(exchange.tokens for exchange in self.of(key))


Question = Callable[[Client, System, Engines], Awaitable[str]]


async def leaves(client: Client, system: System, engines: Engines, *, stream: bool) -> str:
    """A client goes after ten tokens."""
    key = f"{system.name}-leaves-{stream}"
    prompt = ask(key, delay_ms=20, think=LONG)
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient(base_url=system.url, timeout=30, headers={"authorization": f"Bearer {KEY}"}) as http:
        waiting = asyncio.create_task(_wait_and_read(http, prompt, stream=stream))
        await _until(lambda: any(exchange.tokens >= 10 for exchange in engines.of(key)), 20)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
    left = loop.time()
    if await _until(lambda: all(exchange.end is not End.RUNNING for exchange in engines.of(key)), STOPS_WITHIN):
        return f"stops within {max(0.1, loop.time() - left):.1f} s"
    return f"still generating after {STOPS_WITHIN:g} s"


async def _until(holds: Callable[[], bool], patience: float) -> bool:
    """Did it come to hold in so many seconds? The engines live on a loop of their own, so they are looked at."""
    deadline = asyncio.get_running_loop().time() + patience
    while not (held := holds()) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return held


async def _wait_and_read(http: httpx.AsyncClient, prompt: str, *, stream: bool) -> None:
    async with http.stream("POST", "/v1/chat/completions", json=body_of(prompt, stream=stream)) as response:
        async for _ in response.aiter_raw():
            pass


async def leaves_a_stream(client: Client, system: System, engines: Engines) -> str:
    return await leaves(client, system, engines, stream=True)


async def leaves_unary(client: Client, system: System, engines: Engines) -> str:
    return await leaves(client, system, engines, stream=False)


async def is_told_429(client: Client, system: System, engines: Engines) -> str:
    key = f"{system.name}-429"
    seen = await client.ask(ask(key, status=429, retry_after="7"))
    passed_on = seen.headers.get("retry-after", "none")
    return f"{engines.refusals(key)} attempts in {seen.seconds:.1f} s; client: {seen.status}, `retry-after` {passed_on}"


async def loses_a_worker(client: Client, system: System, engines: Engines) -> str:
    """The connection is reset in mid-thought, once."""
    key = f"{system.name}-dies"
    seen = await client.ask(ask(key, think=60, die_after=25, times=1))
    whole = thought(key, 60)
    if seen.thought.strip() == whole and expected_answer(key, whole) in seen.answer:
        return "the whole thought and answer, as if nothing had happened"
    return f"{_told(seen, whole)}; {_ending(seen)}"


def _told(seen: Seen, whole: str) -> str:
    if whole.startswith(seen.thought.strip()):
        return f"{len(seen.thought.split())} of 60 words of thought, no answer"
    return "a thought that no engine has thought"


def _ending(seen: Seen) -> str:
    if seen.error:
        return "an error event" + (" and `[DONE]`" if seen.done else "")
    if seen.done:
        return "`[DONE]`, as after success"
    return f"the connection breaks ({seen.broke})" if seen.broke else "the stream ends without `[DONE]`"


async def finds_a_worker_dead(client: Client, system: System, engines: Engines) -> str:
    """One of two is killed; ten requests, one after the other."""
    engines.all[1].down()
    try:
        answers = [await client.ask(ask(f"{system.name}-down-{i}", think=4, ans=4), stream=False) for i in range(10)]
    finally:
        engines.all[1].up()
    return f"{sum(seen.status == 200 for seen in answers)} of 10 answered"


async def names_thoughts(client: Client, system: System, engines: Engines) -> str:
    seen = await client.ask(ask(f"{system.name}-names", think=8))
    return f"`{'`, `'.join(sorted(seen.fields)) or 'none'}`"


async def splits_raw_text(client: Client, system: System, engines: Engines) -> str:
    """The engine has no reasoning parser: `<think>` is in its text."""
    seen = await client.ask(ask(f"{system.name}-raw", think=8, format="raw"))
    return "split" if seen.fields and "think>" not in seen.answer else "`<think>` in `content`"


async def holds_a_budget(client: Client, system: System, engines: Engines) -> str:
    """In words that vLLM does not know."""
    key = f"{system.name}-budget"
    seen = await client.ask(ask(key, think=LONG), thinking_budget=BUDGET)
    return _thought_and_answer(seen)


async def holds_vllm_s_budget(client: Client, system: System, engines: Engines) -> str:
    """In vLLM's own: the engine holds it if it is told."""
    seen = await client.ask(ask(f"{system.name}-native", think=LONG), thinking_token_budget=BUDGET)
    return _thought_and_answer(seen)


async def meets_a_loop(client: Client, system: System, engines: Engines) -> str:
    """A thought that repeats seven words from its 40th on, and would go on for 1,500."""
    key = f"{system.name}-loops"
    await client.ask(ask(key, think=LONG, loop_after=40))
    return f"{engines.generated(key):,} tokens generated"


def _thought_and_answer(seen: Seen) -> str:
    if seen.status != 200:
        return f"{seen.status}"
    return f"{len(seen.thought.split()):,} words of thought, {'an' if seen.answer.strip() else 'no'} answer"


async def keeps_the_key(client: Client, system: System, engines: Engines) -> str:
    key = f"{system.name}-key"
    await client.ask(ask(key, think=2))
    sent = [exchange.headers.get("authorization", "") for exchange in engines.of(key)]
    return "sent to the engine" if any(KEY in told for told in sent) else "kept"


async def hands_the_id_on(client: Client, system: System, engines: Engines) -> str:
    key = f"{system.name}-id"
    await client.ask(ask(key, think=2))
    return "yes" if any(one.request_id.startswith("comparison-1") for one in engines.of(key)) else "no"


@dataclass(frozen=True, slots=True)
class Row:
    """`settle`: seconds until whoever was told to leave an engine alone asks it again."""

    asked: str
    question: Question
    settle: float = 0.0


ROWS = (
    Row("A client leaves a stream: the engine", leaves_a_stream),
    Row("A client leaves an unstreamed request: the engine", leaves_unary),
    Row("vLLM's `reasoning` comes as", names_thoughts),
    Row("`<think>` in the text of an engine without a parser", splits_raw_text),
    Row(f"`thinking_budget: {BUDGET}`, an engine that would think {LONG:,} words", holds_a_budget),
    Row(f"The same as vLLM's `thinking_token_budget: {BUDGET}`", holds_vllm_s_budget),
    Row(f"A loop of {LONG:,} tokens", meets_a_loop),
    Row("The client's key is", keeps_the_key),
    Row("`x-request-id` reaches the engine", hands_the_id_on),
    Row("Both engines answer 429 with `retry-after: 7`", is_told_429, settle=8.0),
    Row("An engine's connection breaks in mid-thought: the client sees", loses_a_worker),
    Row("One of two engines is killed", finds_a_worker_dead),
)


async def put(row: Row, system: System, engines: Engines) -> str:
    """What came of it, in words; also where nothing did."""
    async with Client(system.url) as client:
        try:
            async with asyncio.timeout(60):
                told = await row.question(client, system, engines)
        except TimeoutError:
            told = "no end within 60 s"
        await asyncio.sleep(row.settle)
        return told
