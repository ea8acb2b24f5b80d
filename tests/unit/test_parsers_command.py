"""`python -m parsers`: what it prints, and its exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from parsers.__main__ import main


def run(argv: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(argv) == 0
    return capsys.readouterr().out


def test_a_split_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(["qwen3", "--start", "open"], "a\n</think>\nb", monkeypatch, capsys)
    assert shown == "--- reasoning (1 characters)\na\n--- content (1 characters)\nb\n"


@pytest.mark.parametrize(
    ("argv", "text", "split"),
    [
        (["deepseek-r1"], "a\n</think>b", ("a", "b")),
        (["deepseek-r1", "--ws", "verbatim"], "a\n</think>b", ("a\n", "b")),
        (["deepseek-r1", "--chunk", "1"], "a</think>b", ("a", "b")),
        (["qwen3", "--thinking", "off"], "b</think>", ("", "b</think>")),
        (["qwen3", "--thinking", "on", "--tools"], "<think>a<tool_call>", ("a", "<tool_call>")),
        (["harmony"], "<|channel|>analysis<|message|>a<|end|>", ("a", "")),
        (["none"], "", ("", "")),
    ],
)
def test_options_reach_the_machine(
    argv: list[str],
    text: str,
    split: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = json.loads(run([*argv, "--json"], text, monkeypatch, capsys))
    assert (shown["reasoning"], shown["content"]) == split
    assert "".join(piece for _, piece in shown["pieces"]) == "".join(split)


@pytest.mark.parametrize("argv", [[], ["qwen-3"], ["think", "--chunk", "-1"]])
def test_wrong_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert "usage" in capsys.readouterr().err


def test_a_case_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.jsonl"
    good = {"id": "good", "format": "think", "output": "a</think>b", "expected_reasoning": "a", "expected_content": "b"}
    bad = {**good, "id": "bad", "expected_content": "c"}
    file.write_text(f"{json.dumps(good)}\n\n{json.dumps(bad)}\n", encoding="utf-8")
    assert main(["--cases", str(file)]) == 1
    told, closing = capsys.readouterr().out.splitlines()
    assert closing == "1 passed, 1 failed"
    assert (json.loads(told)["id"], json.loads(told)["content"]) == ("bad", "b")
    file.write_text(json.dumps(good), encoding="utf-8")
    assert main(["--cases", str(file)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_a_file_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
    (tmp_path / "bad").write_text("{", encoding="utf-8")
    assert main(["--cases", str(tmp_path / "bad")]) == 2
    assert "line 1" in capsys.readouterr().err
