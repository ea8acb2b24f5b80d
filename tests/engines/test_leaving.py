"""A client that goes away takes its generation with it, streamed or not, whatever leg it is in."""

from __future__ import annotations

from tests.engines.told import STORY, ask
from tests.engines.under_test import IDLE, TURN_ENDS, Engine
from tests.harness import PATIENCE, Gateway
from tests.service.talk import socket_to

CAP = 4


async def test_in_the_thought(served: Gateway, engine: Engine, streamed: bool) -> None:
    fields = await engine.never("</think>", *TURN_ENDS)
    body = ask("cut", STORY, streamed=streamed, cap=700, **fields)
    async with socket_to(served.port) as client:
        await client.send_chat(body)
        if streamed:
            await client.read_until(b"data: ", 10)
        await engine.until(1, PATIENCE)
        client.leave()
    await engine.until(0, IDLE)
    await served.wait_grounded()


async def test_in_the_answer(served: Gateway, engine: Engine) -> None:
    fields = await engine.never("</think>", *TURN_ENDS)
    body = ask("cut", STORY, streamed=True, cap=CAP, max_tokens=700, **fields)
    async with socket_to(served.port) as client:
        await client.send_chat(body)
        await client.read_until(b'"content":"', 10)
        await engine.until(1, PATIENCE)
        client.leave()
    await engine.until(0, IDLE)
    await served.wait_grounded()
