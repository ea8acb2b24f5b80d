"""An engine that costs almost nothing: streams numbered tokens as fast or as slowly as the prompt says.

Controls ride in the last user message: `think=120 answer=30 gap_ms=40`. One asyncio protocol, no framework.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

import httptools
import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = (
    '{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1,"model":"mock",'
    '"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]}'
)


def _event(data: str) -> bytes:
    body = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


def _token(place: int, think: int) -> bytes:
    key = "reasoning_content" if place < think else "content"
    return _event(CHUNK % (json.dumps({key: f"t{place:05d} "}), "null"))


def _ending(think: int, answer: int) -> bytes:
    usage = {"prompt_tokens": 20, "completion_tokens": think + answer, "total_tokens": 20 + think + answer}
    last = json.dumps({"id": "chatcmpl-bench", "created": 1, "model": "mock", "choices": [], "usage": usage})
    return _event(CHUNK % ("{}", '"stop"')) + _event(last) + _event("[DONE]") + b"0\r\n\r\n"


class Engine(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()

    def on_url(self, url: bytes) -> None:
        self.path, self.body = url, b""

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.path != b"/v1/chat/completions":
            reply = b'{"object":"list","data":[{"id":"mock","object":"model"}]}'
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (len(reply), reply)
            )
            return
        request = json.loads(self.body)
        said = dict(re.findall(r"(\w+)=(\d+)", request["messages"][-1]["content"]))
        self.think, self.answer = int(said.get("think", 8)), int(said.get("answer", 8))
        self.gap, self.place = int(said.get("gap_ms", 0)) / 1000, 0
        if not request.get("stream"):
            self._unary()
            return
        role = _event(CHUNK % ('{"role":"assistant","content":""}', "null"))
        self.transport.write(HEAD + role)
        if self.gap:
            self._step()
        else:
            tokens = b"".join(_token(place, self.think) for place in range(self.think + self.answer))
            self.transport.write(tokens + _ending(self.think, self.answer))

    def _unary(self) -> None:
        text = "".join(f"t{place:05d} " for place in range(self.think, self.think + self.answer))
        message = {"role": "assistant", "content": text, "reasoning_content": "thought"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({"id": "x", "object": "chat.completion", "model": "mock", "choices": [choice]}).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)

    def _step(self) -> None:
        if self.place < self.think + self.answer:
            self.transport.write(_token(self.place, self.think))
            self.place += 1
            self.timer = asyncio.get_running_loop().call_later(self.gap, self._step)
        else:
            self.transport.write(_ending(self.think, self.answer))


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", int(sys.argv[1]))
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
