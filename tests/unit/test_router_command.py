"""`python -m router --json`: one Decision a line, whatever the line."""

import io
import json
import subprocess
import sys

import pytest

from router import Ask, Decision, Route, Tier
from router.__main__ import main, read_prompt

LINES = (
    b'{"messages": [{"role": "user", "content": "Prove that the square root of 7 is irrational."}]}',
    b'{"text": "thanks!"}',
    '{"text": "谢谢", "history": [{"role": "user", "content": "证明一下"}]}'.encode(),
    b"plain words, no JSON",
    b"{}",
    b"[]",
    b'"a JSON string"',
    b"{broken",
    b'{"text": 5}',
    b'{"text": null}',
    b'{"messages": [{"role": "user", "content": null}]}',
    b'{"messages": [{"role": "wizard", "content": "Prove it."}, {"content": 1}, null]}',
    json.dumps({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}] * 250}).encode(),
    json.dumps({"messages": [{"role": "user", "content": "<a>" * 350_000 + "</a>"}]}).encode(),
    bytes(range(11, 256)),
    b'{"text": "\\ud800 lone"}',
    b"null",
    b'{"messages": null}',
    b'{"messages": [{"role": "user", "content": [[[[]]]]}]}',
    b"\xff\xfe\x00binary",
    b"",
    json.dumps({"text": "x " * 500_000}).encode(),
)


def test_every_line_gets_a_decision() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "router", "--json"], input=b"\n".join(LINES) + b"\n", capture_output=True, check=True
    )
    decisions = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(decisions) == len(LINES)
    for decision in decisions:
        assert set(decision) >= {"route", "p_reasoning", "complexity", "tier", "reasons"}
        assert decision["route"] in ("reasoning", "simple")
        assert 0 <= decision["p_reasoning"] <= 1
        assert 0 <= decision["complexity"] <= 1
    assert [decision["route"] for decision in decisions[:3]] == ["reasoning", "simple", "simple"]


def test_a_line_that_fails_says_so_and_the_next_is_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Torn:
        def decide(self, ask: Ask) -> Decision:
            if ask.text == "bad":
                raise RuntimeError("onnx")
            return Decision(Route.STANDARD, 0.1, 0.9, 0.1, Tier.CHEAP, ("words",))

    monkeypatch.setattr("router.__main__.load", lambda **_: Torn())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"good\nbad\ngood\n")))
    assert main(["--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("route") for line in lines] == ["simple", None, "simple"]
    assert lines[1] == {"error": "RuntimeError: onnx"}


def test_deep_json_is_only_text() -> None:
    assert read_prompt("[" * 100_000).text.startswith("[[")
