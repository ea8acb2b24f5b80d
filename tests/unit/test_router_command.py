"""`python -m router --json`: one Decision a line, whatever the line."""

import json
import subprocess
import sys

from router.__main__ import read_prompt

LINES = (
    b'{"messages": [{"role": "user", "content": "Prove that the square root of 7 is irrational."}]}',
    b'{"text": "thanks!"}',
    '{"text": "谢谢", "history": [{"role": "user", "content": "证明一下"}]}'.encode(),
    b"plain words, no JSON",
    b"{}",
    b"[]",
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


def test_deep_json_is_only_text() -> None:
    assert read_prompt("[" * 100_000).text.startswith("[[")
