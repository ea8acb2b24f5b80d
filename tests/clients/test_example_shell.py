"""The shell example by itself: what it says to curl, and what it makes of what curl says, with jq and without."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.linters import linter

SCRIPT = Path(__file__).parents[2] / "deploy" / "examples" / "clients" / "curl" / "think.sh"
TOOLS = ["sh", "sed", "tr", "awk", "cat"]
AWKWARD = 'He said "no",\nthen a \\n that is none, 100 %s, {"content":"x"}, "error": é 思 \\"'
REPORT = {"pool": "p", "legs": 1, "thinking": {"cap": None, "tokens": 7, "injected_tokens": 0, "ended_by": "model"}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 11, "completion_tokens_details": {"reasoning_tokens": 7}}
CURL = '#!/bin/sh\nfor last; do :; done\nprintf %s "$last" >"$SENT"\ncat "$EVENTS"\n'


def event(delta: dict[str, Any], *, ascii_only: bool, **more: Any) -> str:
    said = {"choices": [{"index": 0, "delta": delta}], **more}
    return f"data: {json.dumps(said, separators=(',', ':'), ensure_ascii=ascii_only)}\n\n"


@pytest.fixture(params=["jq", "no jq"])
def jq(request: pytest.FixtureRequest) -> bool:
    if request.param == "jq" and not shutil.which("jq"):
        pytest.skip("jq is not installed")
    return request.param == "jq"


def run(folder: Path, *arguments: str, jq: bool, answer: str) -> subprocess.CompletedProcess[str]:
    """With nothing on its path but these tools, and a curl that says what it is told to."""
    for tool in [*TOOLS, *(["jq"] if jq else [])]:
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    (folder / "curl").write_text(CURL)
    (folder / "curl").chmod(0o755)
    (folder / "events").write_text(answer, encoding="utf-8")
    env = {"PATH": str(folder), "SENT": str(folder / "sent"), "EVENTS": str(folder / "events"), "LC_ALL": "C.UTF-8"}
    command = [str(folder / "sh"), str(SCRIPT), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", timeout=30, check=False)


def test_text_goes_and_comes_unharmed(tmp_path: Path, jq: bool) -> None:
    answer = "".join(
        [
            ": keep-alive\n\n",
            event({"role": "assistant", "content": None}, ascii_only=False),
            event({"reasoning_content": AWKWARD}, ascii_only=jq),
            event({"reasoning_content": " end", "content": "Not"}, ascii_only=False),
            event({"content": AWKWARD}, ascii_only=jq),
            event({}, ascii_only=False, thinkgate=REPORT),
            event({}, ascii_only=False, usage=USAGE),
            "data: [DONE]\n\n",
        ]
    )
    told = run(tmp_path, AWKWARD, "64", jq=jq, answer=answer)
    assert (told.returncode, told.stderr) == (0, "")
    summary = "[p: 7 tokens of thought, ended by model; 3 tokens in, 11 out]"
    assert told.stdout == f"[thinking]\n{AWKWARD} end\n[answer]\nNot{AWKWARD}\n{summary}\n"
    sent = json.loads((tmp_path / "sent").read_text(encoding="utf-8"))
    assert sent["messages"] == [{"role": "user", "content": AWKWARD}]
    assert (sent["model"], sent["stream"], sent["thinking_budget"]) == ("auto", True, 64)


def test_no_budget_is_sent_where_none_was_given(tmp_path: Path, jq: bool) -> None:
    told = run(tmp_path, "hi", jq=jq, answer=event({"content": "Hello"}, ascii_only=False))
    assert "thinking_budget" not in json.loads((tmp_path / "sent").read_text())
    assert told.stdout == "[answer]\nHello"
    assert (told.returncode, told.stderr.strip()) == (1, "The stream broke off.")


def test_shellcheck_has_nothing_to_say() -> None:
    command = [linter("shellcheck"), str(SCRIPT)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (0, "")
