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

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


@pytest.fixture(scope="module")
def demo(gateway: Callable[..., Gateway]) -> Gateway:
    """What `make serve` runs: `tests/unit/test_config_docs.py` holds this example equal to the default."""
    return gateway((ROOT / "deploy" / "examples" / "embedded.yaml").read_text(encoding="utf-8")).wait_workers(2)


def run(curl: str, demo: Gateway) -> tuple[str, dict[str, Any]]:
    """(head, body) of a curl of the README, sent to the gateway under test."""
    assert "localhost:8080" in curl
    command = shlex.split(curl.replace("localhost:8080", demo.url.removeprefix("http://")))
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    head, _, body = told.rpartition("\n\n") if told.startswith("HTTP/") else ("", "", told)
    return head, json.loads(body)


def test_there_are_two_curls() -> None:
    assert len(CURLS) == 2


def test_the_simple_question_is_answered_at_once_by_the_standard_pool(demo: Gateway) -> None:
    _, body = run(CURLS[0], demo)
    assert body["thinkgate"]["pool"] == "standard"
    assert body["thinkgate"]["legs"] == 1
    assert "Paris" in body["choices"][0]["message"]["content"]
    assert body["choices"][0]["message"]["reasoning_content"] is None
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


def test_the_hard_one_thinks_is_cut_at_its_cap_and_answers(demo: Gateway) -> None:
    head, body = run(CURLS[1], demo)
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


def test_the_headers_that_are_explained_are_the_ones_that_come(demo: Gateway) -> None:
    head, _ = run(CURLS[1], demo)
    sent = set(re.findall(r"^(x-[a-z-]+):", head, re.MULTILINE))
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    section = page.split("## Headers of an answer\n")[1].split("\n## ")[0]
    explained = set(re.findall(r"`(x-(?:thinkgate|request)-[a-z-]+)`", section))
    assert sent == explained
