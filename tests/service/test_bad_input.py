"""What no client should send. Every answer is an OpenAI-shaped error, and the next request works."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import JSON, assert_complete, assert_error, chat, post, socket_to, stream

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    server = {"body_limit_mib": 2, "body_timeout": 20}
    return gateway(config({"only": pool(vllm)}, server=server)).wait_workers(1)


@pytest.fixture(autouse=True)
async def still_serves(served: Gateway) -> AsyncIterator[None]:
    yield
    assert_complete(await stream(served.url, chat("v-model", "after")), "after")


MESSAGES = [{"role": "user", "content": "hi"}]
WRONG = {
    "no model": {"messages": MESSAGES},
    "model null": {"model": None, "messages": MESSAGES},
    "model a number": {"model": 3, "messages": MESSAGES},
    "no messages": {"model": "v-model"},
    "messages null": {"model": "v-model", "messages": None},
    "messages empty": {"model": "v-model", "messages": []},
    "messages an object": {"model": "v-model", "messages": {}},
    "messages text": {"model": "v-model", "messages": "hi"},
    "a message a string": {"model": "v-model", "messages": ["hi"]},
    "a message without role": {"model": "v-model", "messages": [{"content": "hi"}]},
    "role a number": {"model": "v-model", "messages": [{"role": 1, "content": "hi"}]},
    "content a number": {"model": "v-model", "messages": [{"role": "user", "content": 5}]},
    "stream text": {"model": "v-model", "messages": MESSAGES, "stream": "yes"},
    "max_tokens zero": {"model": "v-model", "messages": MESSAGES, "max_tokens": 0},
    "max_tokens negative": {"model": "v-model", "messages": MESSAGES, "max_tokens": -5},
    "max_tokens a fraction": {"model": "v-model", "messages": MESSAGES, "max_tokens": 1.5},
    "max_tokens text": {"model": "v-model", "messages": MESSAGES, "max_tokens": "10"},
    "max_tokens true": {"model": "v-model", "messages": MESSAGES, "max_tokens": True},
    "n zero": {"model": "v-model", "messages": MESSAGES, "n": 0},
    "n a million": {"model": "v-model", "messages": MESSAGES, "n": 1_000_000},
    "stream_options text": {"model": "v-model", "messages": MESSAGES, "stream": True, "stream_options": "all"},
    "temperature text": {"model": "v-model", "messages": MESSAGES, "temperature": "hot"},
    "thinking_budget text": {"model": "v-model", "messages": MESSAGES, "thinking_budget": "much"},
    "thinking_budget below -1": {"model": "v-model", "messages": MESSAGES, "thinking_budget": -2},
    "effort unknown": {"model": "v-model", "messages": MESSAGES, "reasoning_effort": "huge"},
    "on and off": {"model": "v-model", "messages": MESSAGES, "thinking_budget": 9, "enable_thinking": False},
    "two numbers": {"model": "v-model", "messages": MESSAGES, "thinking_budget": 9, "max_thinking_tokens": 8},
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
async def test_wrong_fields(served: Gateway, body: object) -> None:
    assert_error(await post(served.url, body), 400, "invalid_request_error")


NOT_JSON = {
    "empty": b"",
    "broken": b'{"model": "v-model", "messages": [',
    "trailing": b'{"model":"v-model"} x',
    "an array": b"[1,2]",
    "a string": b'"hi"',
    "a number": b"3",
    "null": b"null",
    "not UTF-8": b'{"model":"v-model","messages":[{"role":"user","content":"\xff\xfe"}]}',
    "UTF-16": '{"model":"v-model"}'.encode("utf-16"),
    "NaN": b'{"model":"v-model","messages":[{"role":"user","content":"a"}],"temperature":NaN}',
    "deeply nested": b'{"model":"v-model","messages":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "a lone surrogate's half": b'{"model":"v-model","messages":"\\ud800',
}


@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON)
async def test_bodies_that_are_no_json_object(served: Gateway, raw: bytes) -> None:
    assert_error(await post(served.url, raw), 400, "invalid_request_error")


async def test_nesting_in_an_unknown_field_is_answered_one_way_or_the_other(served: Gateway) -> None:
    deep = b"[" * 400 + b"]" * 400
    raw = json.dumps(chat("v-model", "deep")).encode()[:-1] + b',"metadata":' + deep + b"}"
    response = await post(served.url, raw)
    assert response.status_code in {200, 400}


async def test_a_field_twice_counts_once(served: Gateway, vllm: VllmDouble) -> None:
    """The double notes it when one arrives twice: the next parser might read the other."""
    raw = json.dumps(chat("v-model", "twice")).encode()[:-1] + b',"temperature":0.1,"temperature":0.2}'
    assert (await post(served.url, raw)).status_code == 200
    assert vllm.of("twice")[0].json["temperature"] == 0.2


async def test_query_parameters_do_not_matter(served: Gateway) -> None:
    response = await post(served.url, chat("v-model", "query"), "/v1/chat/completions?model=a&model=b&stream=no")
    assert response.status_code == 200


async def test_an_emoji_escaped_as_surrogates_passes(served: Gateway, vllm: VllmDouble) -> None:
    raw = json.dumps(chat("v-model", "emoji", body={"user": "🙂"})).encode()
    assert b"\\ud83d" in raw
    assert (await post(served.url, raw)).status_code == 200
    assert vllm.of("emoji")[0].json["user"] == "🙂"


@pytest.mark.parametrize("kind", ["text/plain", "application/json; charset=utf-8", "application/octet-stream"])
async def test_json_is_read_whatever_the_content_type_says(served: Gateway, kind: str) -> None:
    response = await post(served.url, chat("v-model", "kind"), headers={"content-type": kind})
    assert response.status_code == 200


class TestSize:
    async def test_forty_mebibytes(self, served: Gateway) -> None:
        body = chat("v-model", "huge", body={"padding": "x" * (40 * MIB)})
        assert_error(await post(served.url, body), 413, "invalid_request_error")

    async def test_an_announced_length_is_refused_before_the_body_comes(self, served: Gateway) -> None:
        async with socket_to(served.port) as client:
            await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 41943040\r\n\r\n")
            assert b" 413 " in await client.read_until(b"\r\n\r\n")

    async def test_without_a_length_it_is_counted_as_it_comes(self, served: Gateway) -> None:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(40):
                yield b"x" * MIB

        async with httpx.AsyncClient(timeout=60) as client:
            response = await client.post(f"{served.url}/v1/chat/completions", content=parts(), headers=JSON)
        assert_error(response, 413, "invalid_request_error")

    async def test_just_below_the_limit_passes(self, served: Gateway) -> None:
        body = chat("v-model", "big", body={"padding": "x" * (2 * MIB - 2000)})
        assert (await post(served.url, body)).status_code == 200


class TestPaths:
    @pytest.mark.parametrize("path", ["/", "/v1", "/v1/nope", "/v1/chat/completions/", "/v1//chat/completions", "/%00"])
    async def test_unknown(self, served: Gateway, path: str) -> None:
        assert_error(await post(served.url, chat("v-model", "path"), path), 404, "invalid_request_error")

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
    async def test_wrong_method(self, served: Gateway, method: str) -> None:
        async with httpx.AsyncClient() as client:
            response = await client.request(method, f"{served.url}/v1/chat/completions")
        assert_error(response, 405, "invalid_request_error")
        assert "POST" in response.headers["allow"]


class TestBytes:
    @pytest.mark.parametrize(
        "raw",
        [
            b"\x00\x01\x02\x03\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        ],
        ids=["garbage", "version", "negative length", "two lengths", "bad chunk"],
    )
    async def test_no_http(self, served: Gateway, raw: bytes) -> None:
        async with socket_to(served.port) as client:
            await client.send(raw)
            answer = await client.read_all()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer

    async def test_a_body_cut_short(self, served: Gateway, vllm: VllmDouble) -> None:
        async with socket_to(served.port) as client:
            await client.send(b'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{"model"')
        assert vllm.active == []
