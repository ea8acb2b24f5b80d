"""The doubles themselves: their text is keyed, it comes whole, and faults strike as asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.engine import Double
from tests.doubles.exchange import End
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.mind import VOCABULARY, render
from tests.doubles.script import expected_answer, thought, word
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.service.talk import Stream, chat, post, socket_to, stream

ID = {"x-request-id": "r-1"}
ENGINES = [VllmDouble, SglangDouble, LlamaDouble]
FIELDS = {"vllm": "reasoning", "sglang": "reasoning_content", "llamacpp": "reasoning_content"}


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.kind)
def double(request: pytest.FixtureRequest, host: Host) -> Iterator[Double]:
    double = host.add(request.param("double"))
    yield double
    host.remove(double)


async def say(double: Double, key: str, *, body: Any = None, **controls: Any) -> Stream:
    return await stream(double.url, chat("double", key, body=body, **controls), ID)


def text(told: Stream, field: str) -> str:
    return "".join(delta.get(field) or "" for delta in told.deltas)


class TestKeyedText:
    def test_another_key_says_something_else(self) -> None:
        assert thought("a", 8) != thought("b", 8)
        assert expected_answer("a", thought("a", 8)) != expected_answer("b", thought("a", 8))

    def test_the_answer_depends_on_every_token_of_the_thought(self) -> None:
        answers = {expected_answer("a", thought("a", count)) for count in range(40)}
        assert len(answers) == 40

    def test_white_space_around_a_thought_does_not_count(self) -> None:
        assert expected_answer("a", "x y") == expected_answer("a", "\nx y\n")

    def test_a_token_is_one_id_and_comes_back(self) -> None:
        said = thought("a", 200)
        ids = VOCABULARY.encode(said)
        assert len(ids) == 200
        assert VOCABULARY.decode(ids) == said

    def test_any_prompt_survives_the_tokenizer(self) -> None:
        prompt = render([{"role": "user", "content": "a < b\n\n  c\t<think>ü</think> 🙂"}], thinking=True, opens=True)
        assert VOCABULARY.decode(VOCABULARY.encode(prompt)) == prompt

    def test_some_words_need_two_bytes_a_letter(self) -> None:
        assert any(len(word("a", i).encode()) > len(word("a", i)) for i in range(8))


class TestEveryEngine:
    async def test_streams_the_whole_text_once_and_in_order(self, double: Double) -> None:
        told = await say(double, "k1", think=30, ans=9)
        assert text(told, FIELDS[double.kind]).strip() == thought("k1", 30)
        assert told.answer.strip() == expected_answer("k1", thought("k1", 30), 9)
        assert told.reasons == ["stop"]
        assert told.done

    async def test_says_the_same_unary(self, double: Double) -> None:
        response = await post(double.url, chat("double", "k2", stream=False), headers=ID)
        message = response.json()["choices"][0]["message"]
        assert message[FIELDS[double.kind]].strip() == thought("k2", 24)
        assert message["content"].strip() == expected_answer("k2", thought("k2", 24))
        assert double.pardon("not-streamed")

    async def test_sends_usage_only_if_asked(self, double: Double) -> None:
        asked = await say(double, "k3")
        silent = await stream(double.url, chat("double", "k3", usage=False), ID)
        assert [event["choices"] for event in asked.events if event.get("usage")] == [[]]
        assert asked.usages[0]["completion_tokens"] >= 36
        assert silent.usages == []

    async def test_thinks_not_when_told_so(self, double: Double) -> None:
        told = await say(double, "k4", body={"chat_template_kwargs": {"enable_thinking": False}})
        assert text(told, FIELDS[double.kind]) == ""
        assert told.answer.strip() == expected_answer("k4", "")

    async def test_max_tokens_cuts_the_thought(self, double: Double) -> None:
        told = await say(double, "k5", body={"max_tokens": 12})
        assert told.reasons == ["length"]
        assert told.answer == ""
        assert thought("k5", 24).startswith(text(told, FIELDS[double.kind]).strip())

    @pytest.mark.parametrize(
        "style", [{"per_event": 5}, {"burst": 9}, {"write_bytes": 7}, {"mixed": 1, "per_event": 4}]
    )
    async def test_batching_changes_no_text(self, double: Double, style: dict[str, int]) -> None:
        told = await say(double, "k6", **style)
        assert text(told, FIELDS[double.kind]).strip() == thought("k6", 24)
        assert told.answer.strip() == expected_answer("k6", thought("k6", 24))

    @pytest.mark.parametrize("form", ["raw", "raw_open"])
    async def test_raw_text_holds_the_markers_however_it_is_cut(self, double: Double, form: str) -> None:
        told = await say(double, "k7", format=form, chunk_chars=3)
        opening = "<think>\n" if form == "raw" and not double.opens else ""
        assert told.answer == f"{opening}{thought('k7', 24)}\n</think>\n\n{expected_answer('k7', thought('k7', 24))}"

    async def test_a_loop_repeats_word_for_word(self, double: Double) -> None:
        told = await say(double, "k8", think=60, loop_after=10, loop_period=5)
        words = text(told, FIELDS[double.kind]).split()
        assert words[10:15] == words[15:20] == words[55:60]


class TestFaults:
    async def test_reset(self, double: Double) -> None:
        with pytest.raises(httpx.ReadError):
            await say(double, "f1", die_after=5, delay_ms=1)
        assert double.of("f1")[0].end is End.BROKEN

    async def test_a_clean_end_too_early(self, double: Double) -> None:
        told = await say(double, "f2", eof_after=5)
        assert (told.done, told.reasons) == (False, [])
        assert text(told, FIELDS[double.kind]).strip() == thought("f2", 5)

    async def test_a_chunk_cut_in_the_middle(self, double: Double) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await say(double, "f3", drop_after=5)

    async def test_an_error_event_in_the_middle(self, double: Double) -> None:
        told = await say(double, "f4", error_after=5)
        assert [error["code"] for error in told.errors] == [500]
        assert told.reasons == []
        assert told.done is (double.kind != "llamacpp")

    async def test_an_error_event_first(self, double: Double) -> None:
        told = await say(double, "f5", error_first=503)
        assert told.status == 200
        assert told.events[0]["error"]["code"] == 503

    async def test_a_status_with_retry_after(self, double: Double) -> None:
        response = await post(double.url, chat("double", "f6", status=503, retry_after=7), headers=ID)
        assert (response.status_code, response.headers["retry-after"]) == (503, "7")
        body = response.json()
        assert (body if double.kind == "sglang" else body["error"])["code"] == 503

    async def test_no_answer_at_all(self, double: Double) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await say(double, "f7", drop_request=1)

    async def test_only_so_many_times(self, double: Double, host: Host) -> None:
        host.seen.clear()
        first = await post(double.url, chat("double", "f8", status=500, times=1), headers=ID)
        second = await post(double.url, chat("double", "f8", status=500, times=1), headers=ID)
        assert (first.status_code, second.status_code) == (500, 200)

    async def test_a_stall_lasts_until_released(self, double: Double) -> None:
        async with socket_to(double.port) as client:
            await _send(client, chat("double", "f9", stall_after=6))
            exchange = await double.wait_for("f9", tokens=6)
            assert (exchange.end, exchange.tokens) == (End.RUNNING, 6)
            exchange.release()
            await client.read_until(b"[DONE]" if double.kind != "llamacpp" else b"0\r\n\r\n")
        assert (await double.wait_end(exchange)).end is End.FINISHED

    async def test_a_client_that_leaves_is_noticed(self, double: Double) -> None:
        async with socket_to(double.port) as client:
            await _send(client, chat("double", "f10", think=100_000, delay_ms=1))
            await client.read_until(b"reasoning", 20)
        exchange = await double.wait_end(double.of("f10")[0])
        assert exchange.end is End.ABORTED
        assert double.aborted == [exchange]
        assert 18 <= exchange.tokens < 100_000
        await double.wait_closed()

    async def test_down_refuses_and_up_serves_on_the_same_port(self, double: Double) -> None:
        double.down()
        with pytest.raises(httpx.ConnectError):
            await say(double, "f11")
        double.up()
        assert (await say(double, "f11")).done

    async def test_idle_connections_close_when_told(self, double: Double) -> None:
        async with socket_to(double.port) as client:
            await client.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            await client.read_until(b"\r\n\r\n")
            await double.until(lambda: all(one.idle for one in double.connections), "an idle connection")
            assert double.close_idle() == 1
            assert await client.read_all() in (b"", b'{"status":"ok"}')


async def _send(client: Any, body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-request-id: r\r\n"
    await client.send(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)
