"""What Open WebUI 0.12.4 sends, replayed against a gateway, and the answers read by its rules; and its compose file.

The requests follow its `routers/openai.py` (the connection), `routers/tasks.py` (titles) and `utils/payload.py` (a
model's parameters), the reading its `utils/middleware.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway import configfile
from tests.clients.conftest import KEY
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.script import ask, expected_answer, thought
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
FOLDER = EXAMPLES / "clients" / "open-webui"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
SERVICE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["services"]["open-webui"]
USER = {
    "X-OpenWebUI-User-Name": "J%C3%BCrgen",
    "X-OpenWebUI-User-Id": "7d1f",
    "X-OpenWebUI-User-Email": "j@example.org",
    "X-OpenWebUI-User-Role": "user",
    "X-OpenWebUI-Chat-Id": "c0ffee",
}
PARAMETERS = {"temperature": 0.7, "top_p": 0.9, "seed": 7, "stop": ["<END>"], "frequency_penalty": 0.0}
TITLE = """### Task:
Generate a concise title summarizing the chat history.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: %s
ASSISTANT: Even.
</chat_history>"""


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble, llama: LlamaDouble) -> Gateway:
    """A standard pool that answers at once, and one that thinks."""
    keys = [{"alias": "open-webui", "hash": f"sha256:{sha256(KEY.encode()).hexdigest()}"}]
    pools = {"standard": pool(llama, thinking={"enabled": False}), "reasoning": pool(vllm)}
    return gateway(config(pools, keys=keys)).wait_workers(2)


@pytest.fixture
async def open_webui(served: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **USER}
    async with httpx.AsyncClient(base_url=served.base_url, headers=headers, trust_env=False) as client:
        yield client


def conversation(question: str) -> list[dict[str, Any]]:
    """A second turn; the first one's thought is not sent back."""
    return [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Is the sum of two odd numbers odd?"},
        {"role": "assistant", "content": "Even."},
        {"role": "user", "content": [{"type": "text", "text": question}]},
    ]


async def chat(client: httpx.AsyncClient, **body: Any) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """What its screen is told of a stream, piece by piece: (thought or answer, text); and the usage."""
    shown: list[tuple[str, str]] = []
    usage: dict[str, Any] = {}
    async with client.stream("POST", "/chat/completions", json={"stream": True, **body}) as response:
        assert response.status_code == 200
        assert "text/event-stream" in response.headers["content-type"]
        async for line in response.aiter_lines():
            if line.startswith("data:") and line.removeprefix("data:").strip() != "[DONE]":
                event = json.loads(line.removeprefix("data:"))
                assert "error" not in event
                usage.update(event.get("usage") or {})
                for choice in event.get("choices", [])[:1]:
                    delta = choice.get("delta", {})
                    reasoning = delta.get("reasoning_content") or delta.get("reasoning") or delta.get("thinking")
                    shown += [("thought", reasoning)] if reasoning else []
                    shown += [("answer", delta["content"])] if delta.get("content") else []
    return shown, usage


def said(shown: list[tuple[str, str]], part: str) -> str:
    return "".join(text for name, text in shown if name == part).strip()


async def test_it_finds_the_models(open_webui: httpx.AsyncClient) -> None:
    listed = (await open_webui.get("/models")).json()
    assert {model["id"] for model in listed["data"]} == {"auto", "l-model", "v-model"}


async def test_a_chat_shows_the_thought_and_then_the_answer(open_webui: httpx.AsyncClient, vllm: VllmDouble) -> None:
    body = {"model": "v-model", "messages": conversation(ask("ow-chat")), "stream_options": {"include_usage": True}}
    shown, usage = await chat(open_webui, **body, **PARAMETERS)
    parts = [name for name, _ in shown]
    assert parts == sorted(parts, reverse=True), "no thought after the answer has begun"
    assert parts.count("thought") > 10, "piece by piece"
    assert said(shown, "thought") == thought("ow-chat", 24)
    assert said(shown, "answer") == expected_answer("ow-chat", thought("ow-chat", 24))
    assert usage["completion_tokens"] > 24
    reached = vllm.of("ow-chat")[0]
    assert reached.json["temperature"] == 0.7
    assert not [name for name in reached.headers if name.startswith("x-openwebui")]
    assert KEY not in str(reached.headers)


@pytest.mark.parametrize("way", ["parameter", "header"])
async def test_a_budget_is_a_custom_parameter_or_a_header(open_webui: httpx.AsyncClient, way: str) -> None:
    key, body = f"ow-{way}", {"thinking_budget": 40} if way == "parameter" else {}
    if way == "header":
        open_webui.headers["x-thinking-budget"] = "40"
    shown, _ = await chat(open_webui, model="v-model", messages=conversation(ask(key, think=400)), **body)
    assert thought(key, 36) in said(shown, "thought")
    assert thought(key, 60) not in said(shown, "thought")
    assert said(shown, "answer").startswith("Answer(")


async def task(client: httpx.AsyncClient, model: str, question: str) -> dict[str, Any]:
    """A title as it asks for one."""
    body = {"model": model, "messages": [{"role": "user", "content": TITLE % question}], "stream": False}
    answer = await client.post("/chat/completions", json={**body, "max_tokens": 1000})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_title_of_the_task_model_costs_no_thought(open_webui: httpx.AsyncClient) -> None:
    told = await task(open_webui, "l-model", ask("ow-title"))
    assert told["choices"][0]["message"]["content"].strip() == expected_answer("ow-title", "")
    assert told["choices"][0]["message"]["reasoning_content"] is None
    assert told["thinkgate"]["thinking"]["how"] == "off"


async def test_a_title_of_a_model_that_thinks_has_room_for_its_answer(open_webui: httpx.AsyncClient) -> None:
    """Else Open WebUI would make a title of the thought."""
    told = await task(open_webui, "v-model", ask("ow-thoughtful", think=5000))
    assert told["choices"][0]["message"]["content"].strip().startswith("Answer(")
    assert told["usage"]["completion_tokens"] <= 1000


def test_the_compose_file_is_what_the_page_says() -> None:
    settings: dict[str, str] = SERVICE["environment"]
    table = dict(re.findall(r"^\| `([A-Z_]+)` \| `?(.+?)`? \| .+ \|$", README, re.MULTILINE))
    assert set(settings) == set(table)
    assert settings["OPENAI_API_BASE_URL"] == f"${{THINKGATE_URL:-{table['OPENAI_API_BASE_URL']}}}"
    assert settings["OPENAI_API_KEY"].startswith("${THINKGATE_KEY:?"), "no start without a key"
    assert settings["DEFAULT_MODELS"] == table["DEFAULT_MODELS"] == "auto"
    assert settings["ENABLE_OLLAMA_API"] == table["ENABLE_OLLAMA_API"]
    version = SERVICE["image"].rpartition(":")[2]
    assert f"version {version};" in README
    assert f"Open WebUI {version}" in (__doc__ or "")


def test_the_configuration_on_the_page_is_a_right_one() -> None:
    (snippet,) = re.findall(r"```yaml\n(# thinkgate.yaml.*?)```", README, re.DOTALL)
    pools = yaml.safe_dump({"pools": {"one": {"model": "m", "engine": "vllm", "workers": ["http://engine:8000"]}}})
    digest = f"sha256:{sha256(KEY.encode()).hexdigest()}"
    read = configfile.parse(snippet + pools, name="thinkgate.yaml", base=FOLDER, env={"OPEN_WEBUI_KEY_HASH": digest})
    assert [(key.alias, key.hash) for key in read.keys] == [("open-webui", digest)]
    assert not read.server.is_loopback
    with pytest.raises(configfile.ConfigError):
        configfile.parse(snippet + pools, name="thinkgate.yaml", base=FOLDER, env={})


def test_its_task_model_is_the_one_that_does_not_think() -> None:
    pools = yaml.safe_load((EXAMPLES / "embedded.yaml").read_text(encoding="utf-8"))["pools"]
    calm = [one["model"] for one in pools.values() if not one["thinking"].get("enabled", True)]
    assert [f"${{TASK_MODEL:-{model}}}" for model in calm] == [SERVICE["environment"]["TASK_MODEL_EXTERNAL"]]
