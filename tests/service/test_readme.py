"""The README's promises, on the engine it speaks of: its curls, run as they stand, give what it shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Gateway

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CURLS = re.findall(r"```bash\n(curl .*?)```", README, re.DOTALL)
SHOWN = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", README, re.DOTALL)]
HEAD = re.findall(r"```\n(HTTP/1.1 200 OK\n.*?)```", README, re.DOTALL)[0]

Answer = tuple[str, dict[str, Any]]

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


@pytest.fixture(scope="module")
def demo(gateway: Callable[..., Gateway]) -> Gateway:
    """What `make serve` runs: `tests/unit/test_config_docs.py` holds this example equal to the default."""
    return gateway((ROOT / "deploy" / "examples" / "embedded.yaml").read_text(encoding="utf-8")).wait_workers(2)


@pytest.fixture(scope="module")
def answers(demo: Gateway) -> list[Answer]:
    """Of the README's curls, each run once."""
    return [run(curl, demo) for curl in CURLS]


def run(curl: str, demo: Gateway) -> Answer:
    """(head, body) of a curl of the README, sent to the gateway under test."""
    assert "localhost:8080" in curl
    command = shlex.split(curl.replace("localhost:8080", demo.url.removeprefix("http://")))
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    head, _, body = told.rpartition("\n\n") if told.startswith("HTTP/") else ("", "", told)
    return head, json.loads(body)


def test_there_are_two_curls() -> None:
    assert len(CURLS) == 2


def test_the_simple_question_is_answered_at_once_by_the_standard_pool(answers: list[Answer]) -> None:
    _, body = answers[0]
    assert body["thinkgate"]["pool"] == "standard"
    assert body["thinkgate"]["legs"] == 1
    assert "Paris" in body["choices"][0]["message"]["content"]
    assert body["choices"][0]["message"]["reasoning_content"] is None
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


def test_the_hard_one_thinks_is_cut_at_its_cap_and_answers(answers: list[Answer]) -> None:
    head, body = answers[1]
    report, message = body["thinkgate"], body["choices"][0]["message"]
    assert "x-thinkgate-route: reasoning" in head
    assert f"x-thinkgate-thinking-cap: {report['thinking']['cap']}; how=cut; source=complexity" in head
    assert report["thinking"]["ended_by"] == "cap"
    assert report["thinking"]["tokens"] == report["thinking"]["cap"]
    assert report["legs"] == 2
    assert message["reasoning_content"].startswith("Tom")
    assert message["content"].startswith("The answer is")
    assert len(message["content"]) > len("The answer is")
    assert "<think>" not in json.dumps(message)


def test_the_headers_that_are_explained_are_the_ones_that_come(answers: list[Answer]) -> None:
    head, _ = answers[1]
    sent = set(re.findall(r"^(x-[a-z-]+):", head, re.MULTILINE))
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    section = page.split("## Headers of an answer\n")[1].split("\n## ")[0]
    explained = set(re.findall(r"`(x-(?:thinkgate|request)-[a-z-]+)`", section))
    assert sent == explained


@pytest.mark.parametrize("number", [0, 1])
def test_what_is_shown_is_what_comes(number: int, answers: list[Answer]) -> None:
    """But for ids and times, and for the last digit of what another machine's floating point may round otherwise."""
    shown, (_, body) = SHOWN[number], answers[number]
    assert shape(shown) == shape(body)
    for name in ("route", "pool", "legs"):
        assert shown["thinkgate"][name] == body["thinkgate"][name]
    assert shown["thinkgate"]["complexity"] == pytest.approx(body["thinkgate"]["complexity"], abs=0.02)
    assert shown["thinkgate"]["thinking"].get("ended_by") == body["thinkgate"]["thinking"]["ended_by"]
    assert shown["usage"]["prompt_tokens"] == body["usage"]["prompt_tokens"]


def test_the_head_that_is_shown_is_the_one_that_comes(answers: list[Answer]) -> None:
    head, _ = answers[1]
    sent = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
    shown = dict(line.split(": ", 1) for line in HEAD.splitlines()[1:])
    assert shown.keys() <= sent.keys()
    for name in ("route", "pool", "model", "tier"):
        assert shown[f"x-thinkgate-{name}"] == sent[f"x-thinkgate-{name}"]
    for name in ("complexity", "confidence"):
        assert float(shown[f"x-thinkgate-{name}"]) == pytest.approx(float(sent[f"x-thinkgate-{name}"]), abs=0.02)


def shape(value: Any) -> Any:
    """Names and nesting, without values."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else None
