"""The doubles' shapes against recorded bytes, how they continue a turn, and what they hold against a gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.mind import VOCABULARY
from tests.doubles.script import ask, expected_answer, thought
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.service.talk import Socket, chat, post, socket_to, stream

ID = {"x-request-id": "r-1"}
PHRASE = "\n\nTime is up.\n"


@pytest.fixture
def clean(host: Host) -> Iterator[Host]:
    """The host, with whatever was added to it taken away afterwards."""
    before = list(host.doubles)
    yield host
    for double in [one for one in host.doubles if one not in before]:
        host.remove(double)


def shape(value: Any) -> Any:
    """The keys of a JSON value, in order; what the leaves hold does not matter."""
    if isinstance(value, dict):
        return [(name, shape(inner)) for name, inner in value.items()]
    return [shape(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else "leaf"


def recorded(path: Path) -> tuple[int, Any]:
    """Status, and the JSON body or the list of events, of a recorded answer."""
    head, _, body = path.read_text().replace("\r\n", "\n").partition("\n\n")
    found = re.search(r"HTTP/1.1 (\d+)", head)
    assert found
    return int(found[1]), events_of(body) if "data: " in body else json.loads(body)


def events_of(body: str) -> list[Any]:
    return [json.loads(data) for data in re.findall(r"^data: (\{.*\})$", body, flags=re.M)]


def landmarks(events: list[Any], field: str) -> dict[str, Any]:
    """The events that differ in shape: role, thought, answer, finish, usage."""
    found: dict[str, Any] = {}
    for event in events:
        choice = (event.get("choices") or [{}])[0]
        delta = choice.get("delta") or {}
        if not event["choices"]:
            found["usage"] = event
        elif choice["finish_reason"]:
            found["finish"] = event
        elif "role" in delta:
            found["role"] = event
        else:
            found.setdefault("thought" if field in delta else "answer", event)
    return {name: shape(event) for name, event in found.items()}


@pytest.mark.shared
class TestRecordedShapes:
    async def test_vllm_stream(self, clean: Host, wire: Path) -> None:
        double = clean.add(VllmDouble())
        _, theirs = recorded(wire / "vllm-0.32" / "B_chat_think_answer_stream_continuous.txt")
        del theirs[-1]["usage"]["prompt_tokens_details"]  # only with a server flag
        options = {"include_usage": True, "continuous_usage_stats": True}
        ours = await stream(double.url, chat("double", "w1", body={"stream_options": options}), ID)
        assert landmarks(ours.events, "reasoning") == landmarks(theirs, "reasoning")

    async def test_vllm_unary(self, clean: Host, wire: Path) -> None:
        double = clean.add(VllmDouble())
        _, theirs = recorded(wire / "vllm-0.32" / "B_chat_think_answer_nostream.txt")
        theirs["usage"]["prompt_tokens_details"] = None  # only with a server flag
        ours = await post(double.url, chat("double", "w2", stream=False), headers=ID)
        assert shape(ours.json()) == shape(theirs)
        double.pardon("not-streamed")

    async def test_vllm_text_stream(self, clean: Host, wire: Path) -> None:
        double = clean.add(VllmDouble())
        _, theirs = recorded(wire / "vllm-0.32" / "completions_think_stream.txt")
        body = {"prompt": ask("w3"), "stream": True, "return_token_ids": True}
        response = await post(double.url, body, "/v1/completions", ID)
        assert shape(events_of(response.text)[0]) == shape(theirs[0])

    @pytest.mark.parametrize("name", ["err_unknown_model", "err_max_tokens_zero", "err_stream_options_nostream"])
    async def test_vllm_errors_word_for_word(self, clean: Host, wire: Path, name: str) -> None:
        double = clean.add(VllmDouble("smol"))
        status, theirs = recorded(wire / "vllm-0.32" / f"{name}.txt")
        response = await post(double.url, json.loads((wire / "vllm-0.32" / f"{name}.req.json").read_text()), headers=ID)
        assert (response.status_code, response.json()) == (status, theirs)
        double.violations.clear()

    @pytest.mark.parametrize("name", ["C_noparser_budget_stream", "C_noparser_budget"])
    async def test_vllm_without_a_parser_refuses_budgets(self, clean: Host, wire: Path, name: str) -> None:
        double = clean.add(VllmDouble("smol", parser=False))
        raw = (wire / "vllm-0.32" / f"{name}.txt").read_text().replace("\r\n", "\n")
        body = json.loads((wire / "vllm-0.32" / f"{name}.req.json").read_text())
        response = await post(double.url, body, headers=ID)
        assert response.status_code == int(raw.split()[raw.split().index("HTTP/1.1") + 1])
        assert response.text.strip() == raw.partition("\n\n")[2].strip()
        double.violations.clear()

    async def test_vllm_helpers(self, clean: Host, wire: Path) -> None:
        double = clean.add(VllmDouble("smol"))
        for path, name in (("/tokenize", "tokenize_prompt"), ("/tokenize", "tokenize_chat")):
            _, theirs = recorded(wire / "vllm-0.32" / f"{name}.txt")
            body = json.loads((wire / "vllm-0.32" / f"{name}.req.json").read_text())
            assert shape((await post(double.url, body, path)).json()) == shape(theirs)
        ids = VOCABULARY.encode("<think>\nhello world</think>")
        assert (await post(double.url, {"tokens": ids}, "/detokenize")).json() == {
            "prompt": "<think>\nhello world</think>"
        }
        names = set((wire / "vllm-0.32" / "metrics_after.txt").read_text().split())
        async with httpx.AsyncClient() as client:
            ours = (await client.get(f"{double.url}/metrics")).text
        ours_names = {line.partition("{")[0].split()[0] for line in ours.splitlines()}
        assert ours_names <= {name.split("{")[0] for name in names}

    @pytest.mark.parametrize("usage", [True, False])
    async def test_llama_stream(self, clean: Host, wire: Path, usage: bool) -> None:
        double = clean.add(LlamaDouble())
        _, theirs = recorded(wire / "llama-server" / f"{'think_stream' if usage else 'leg2_chat_stream'}.txt")
        ours = await stream(double.url, chat("double", "w4", usage=usage), ID)
        marks = landmarks(ours.events, "reasoning_content")
        for name, expected in landmarks(theirs, "reasoning_content").items():
            assert marks[name] == expected

    @pytest.mark.parametrize("name", ["think_nonstream", "missing_messages"])
    async def test_llama_unary(self, clean: Host, wire: Path, name: str) -> None:
        double = clean.add(LlamaDouble())
        raw = (wire / "llama-server" / f"{name}.txt").read_text()
        body = json.loads(raw.split("### body: ")[1].splitlines()[0])
        status, theirs = recorded(wire / "llama-server" / f"{name}.txt")
        response = await post(double.url, body, headers=ID)
        assert (response.status_code, shape(response.json())) == (status, shape(theirs))
        double.violations.clear()


class TestContinuation:
    async def test_llama_answers_from_the_thought_it_is_given(self, clean: Host) -> None:
        double = clean.add(LlamaDouble())
        given = thought("c1", 9) + PHRASE
        told = await stream(double.url, _continued("c1", reasoning_content=given, content=""), ID)
        assert told.thought == ""
        assert told.answer == expected_answer("c1", given)
        exchange = double.of("c1")[0]
        assert (exchange.ours_given, exchange.added, exchange.thought_given) == (9, "Time is up.", given)

    async def test_llama_resumes_a_thought(self, clean: Host) -> None:
        double = clean.add(LlamaDouble())
        body = _continued("c2", reasoning_content=thought("c2", 9), content="")
        body["continue_final_message"] = "reasoning_content"
        told = await stream(double.url, body, ID)
        assert thought("c2", 9) + told.thought.rstrip() == thought("c2", 24)
        assert told.answer == expected_answer("c2", thought("c2", 24))

    async def test_vllm_continues_from_token_ids(self, clean: Host) -> None:
        double = clean.add(VllmDouble())
        first = await stream(double.url, chat("double", "c3", body={"return_token_ids": True}), ID)
        ids = [*first.events[0]["prompt_token_ids"]]
        for event in first.events[1:14]:
            ids += event["choices"][0]["token_ids"]
        extra = await post(double.url, {"prompt": f"{PHRASE}</think>\n\n", "add_special_tokens": False}, "/tokenize")
        body = {"prompt": ids + extra.json()["tokens"], "stream": True, "max_tokens": 100}
        second = await post(double.url, body, "/v1/completions", ID)
        said = "".join(choice["text"] for event in events_of(second.text) for choice in event["choices"])
        exchange = double.of("c3")[1]
        assert exchange.added == "Time is up."
        assert exchange.ours_given == 12
        assert said == expected_answer("c3", exchange.thought_given)

    @pytest.mark.parametrize("engine", [VllmDouble, SglangDouble])
    async def test_chat_continues_after_a_closed_thought(self, clean: Host, engine: type[Double]) -> None:
        double = clean.add(engine())
        body = _continued("c4", content=f"<think>\n{thought('c4', 7)}\n</think>\n\n")
        body["continue_final_message"] = True
        if engine is SglangDouble:
            del body["add_generation_prompt"]
        told = await stream(double.url, body, ID)
        assert told.answer == expected_answer("c4", thought("c4", 7))

    async def test_an_answer_goes_on_where_it_stopped(self, clean: Host) -> None:
        double = clean.add(LlamaDouble())
        begun = expected_answer("c5", thought("c5", 24), 5)
        told = await stream(double.url, _continued("c5", reasoning_content=thought("c5", 24), content=begun), ID)
        assert begun + told.answer == expected_answer("c5", thought("c5", 24))

    async def test_a_foreign_thought_is_a_violation(self, clean: Host) -> None:
        double = clean.add(LlamaDouble())
        await stream(double.url, _continued("c6", reasoning_content=thought("other", 9), content=""), ID)
        assert double.pardon("foreign-thought")

    async def test_vllm_keeps_to_a_budget_and_sglang_only_in_strict_mode(self, clean: Host) -> None:
        engine = clean.add(VllmDouble())
        told = await stream(engine.url, chat("double", "c7", body={"thinking_token_budget": 10}), ID)
        assert told.answer.strip() == expected_answer("c7", thought("c7", 10))
        for strict, count in ((True, 10), (False, 24)):
            double = clean.add(SglangDouble(strict=strict))
            body = {"custom_params": {"thinking_budget": 10}}
            told = await stream(double.url, chat("double", "c7", body=body), ID)
            assert told.thought.strip() == thought("c7", count)


class TestViolations:
    @pytest.mark.parametrize(
        ("body", "code"),
        [
            ({"kv_transfer_params": {}}, "dangerous-field"),
            ({"bootstrap_room": 3}, "dangerous-field"),
            ({"max_tokens": 0}, "bad-max-tokens"),
            ({"stream": False}, "not-streamed"),
            ({"thinking_budget": 9}, "untranslated"),
            ({"note": "canary-1"}, "canary"),
        ],
        ids=str,
    )
    async def test_bodies(self, clean: Host, body: dict[str, Any], code: str) -> None:
        double = clean.add(SglangDouble())
        await post(double.url, chat("double", "v1", usage=False, body=body), headers=ID)
        assert double.pardon(code)

    @pytest.mark.parametrize(
        ("headers", "code"),
        [
            ({"authorization": "Bearer x"}, "client-authorization"),
            ({"cookie": "a=b"}, "foreign-header"),
            ({"te": "trailers"}, "foreign-header"),
            ({"x-request-id": "not sane!"}, "no-request-id"),
        ],
        ids=str,
    )
    async def test_headers(self, clean: Host, headers: dict[str, str], code: str) -> None:
        double = clean.add(VllmDouble())
        await post(double.url, chat("double", "v2"), headers={**ID, **headers})
        assert double.pardon(code)

    async def test_a_length_that_is_too_short(self, clean: Host) -> None:
        double = clean.add(VllmDouble())
        async with socket_to(double.port) as client:
            await _raw(client, b"{}  ", 3)
            await client.read_until(b"HTTP/1.1 400")
        await double.wait_closed()
        double.pardon("no-messages")
        double.pardon("not-streamed")
        double.pardon("cut-request")

    async def test_a_length_that_is_too_long(self, clean: Host) -> None:
        double = clean.add(VllmDouble())
        async with socket_to(double.port) as client:
            await _raw(client, b"{}", 99)
        await double.until(lambda: bool(double.violations), "a violation")
        double.pardon("cut-request")

    async def test_two_requests_at_once_on_one_connection(self, clean: Host) -> None:
        double = clean.add(VllmDouble())
        async with socket_to(double.port) as client:
            request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
            await client.send(request * 2)
            await client.read_until(b"HTTP/1.1 200", 2)
        assert [exchange.number for exchange in double.requests] == [1, 2]

    async def test_a_wrong_key_is_refused(self, clean: Host) -> None:
        double = clean.add(VllmDouble(api_key="k"))
        wrong = await post(double.url, chat("double", "v3"), headers={**ID, "authorization": "Bearer j"})
        right = await post(double.url, chat("double", "v3"), headers={**ID, "authorization": "Bearer k"})
        assert (wrong.status_code, right.status_code) == (401, 200)


async def _raw(client: Socket, body: bytes, length: int) -> None:
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-request-id: r\r\n"
    await client.send(f"{head}content-length: {length}\r\n\r\n".encode() + body)


def _continued(key: str, **assistant: Any) -> dict[str, Any]:
    body = chat("double", key)
    body["messages"].append({"role": "assistant", **assistant})
    return {**body, "continue_final_message": "content", "add_generation_prompt": False}
