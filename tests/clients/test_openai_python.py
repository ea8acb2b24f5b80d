"""The official Python SDK, sync and async: what it returns, what it raises, what it stops when it is closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.clients.conftest import KEY
from tests.doubles.exchange import End
from tests.doubles.script import ask, expected_answer, thought
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway


@pytest.fixture(scope="module")
def client(served: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served.base_url, api_key=KEY, max_retries=0) as client:
        yield client


def messages(key: str, **controls: Any) -> Any:
    return [{"role": "user", "content": ask(key, **controls)}]


def reasoning_of(value: Any) -> str:
    """The SDK has no field for it; it keeps what it does not know."""
    return getattr(value, "reasoning_content", None) or ""


def test_unary(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="v-model", messages=messages("py-unary"))
    message = answer.choices[0].message
    assert message.content
    assert message.content.strip() == expected_answer("py-unary", thought("py-unary", 24))
    assert reasoning_of(message).strip() == thought("py-unary", 24)
    assert answer.usage
    assert answer.usage.completion_tokens_details
    assert (answer.usage.completion_tokens_details.reasoning_tokens or 0) >= 24


def test_streamed(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            model="v-model", messages=messages("py-stream"), stream=True, stream_options=options
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas).strip() == expected_answer(
        "py-stream", thought("py-stream", 24)
    )
    assert "".join(reasoning_of(delta) for delta in deltas).strip() == thought("py-stream", 24)
    assert [chunk.usage.total_tokens > 0 for chunk in chunks if chunk.usage] == [True]
    assert chunks[-1].choices == []


async def test_async_streamed(served: Gateway) -> None:
    async with openai.AsyncOpenAI(base_url=served.base_url, api_key=KEY, max_retries=0) as client:
        stream = await client.chat.completions.create(model="l-model", messages=messages("py-async"), stream=True)
        said = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert said.strip() == expected_answer("py-async", thought("py-async", 24))


def test_the_stream_helper_assembles_the_same(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="v-model", messages=messages("py-helper")) as stream:
        answer = stream.get_final_completion()
    assert (answer.choices[0].message.content or "").strip() == expected_answer("py-helper", thought("py-helper", 24))


def test_raw_response_shows_headers(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model="auto", messages=messages("py-raw"))
    assert raw.headers["x-request-id"]
    assert raw.headers["x-thinkgate-route"] in {"standard", "reasoning"}
    assert raw.parse()._request_id == raw.headers["x-request-id"]


def test_extra_body_cuts_a_thought(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="l-model", messages=messages("py-cut", think=400), extra_body={"thinking_budget": 40}
    )
    extension = (answer.model_extra or {})["thinkgate"]
    assert extension["thinking"]["ended_by"] == "cap"
    assert (answer.choices[0].message.content or "").strip().startswith("Answer(")


def test_models(client: openai.OpenAI) -> None:
    names = {model.id for model in client.models.list()}
    assert {"v-model", "l-model", "auto"} <= names
    assert client.models.retrieve("v-model").id == "v-model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, openai.BadRequestError), (429, openai.RateLimitError), (503, openai.InternalServerError)],
)
def test_errors_are_of_the_right_class(client: openai.OpenAI, status: int, error: type[openai.APIStatusError]) -> None:
    with pytest.raises(error) as caught:
        client.chat.completions.create(model="v-model", messages=messages(f"py-{status}", status=status))
    assert caught.value.status_code == status
    assert caught.value.request_id
    assert f"The double answers {status}." in caught.value.message


def test_an_unknown_model_and_a_wrong_key(client: openai.OpenAI, served: Gateway) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="nobody", messages=messages("x"))
    assert caught.value.code == "model_not_found"
    stranger = openai.OpenAI(base_url=served.base_url, api_key="wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model="v-model", messages=messages("x"))


def test_a_broken_stream_raises(client: openai.OpenAI) -> None:
    """Not an early, silent end: the SDK sees the error event."""
    stream = client.chat.completions.create(
        model="v-model", messages=messages("py-broken", die_after=10, delay_ms=1), stream=True
    )
    with pytest.raises(openai.APIError):
        list(stream)


def test_a_retry_after_back_pressure_is_the_sdks(served: Gateway, vllm: VllmDouble) -> None:
    """One 503, then an answer: the SDK waits as told and asks again."""
    with openai.OpenAI(base_url=served.base_url, api_key=KEY, max_retries=1) as patient:
        answer = patient.chat.completions.create(
            model="v-model", messages=messages("py-retry", status=503, retry_after=1, times=1)
        )
    assert (answer.choices[0].message.content or "").startswith(("Answer(", "\n\nAnswer("))
    assert len(vllm.of("py-retry")) == 2


async def test_closing_the_stream_stops_the_engine(served: Gateway, vllm: VllmDouble) -> None:
    async with openai.AsyncOpenAI(base_url=served.base_url, api_key=KEY, max_retries=0) as client:
        asked = messages("py-close", think=100_000, delay_ms=1)
        stream = await client.chat.completions.create(model="v-model", messages=asked, stream=True)
        async for chunk in stream:
            if chunk.choices and reasoning_of(chunk.choices[0].delta):
                break
        await stream.close()
    exchange = await vllm.wait_end(vllm.of("py-close")[0])
    assert exchange.end is End.ABORTED
