"""`python -m budgets.loops`: what it prints, and its exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from budgets.loops.__main__ import main

LOOP = "I'm not sure what to do. " * 60
SHORT = "The answer is 391, and nothing else has to be said about it."


def rows_of(tmp_path: Path, rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> tuple[list[Any], str]:
    file = tmp_path / "traces.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    assert main(["--json", str(file)]) == 0
    told = capsys.readouterr()
    return [json.loads(line) for line in told.out.splitlines()], told.err


def test_a_trace_is_drawn_and_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(LOOP))
    assert main([]) == 0
    told = capsys.readouterr().out
    assert "exact copies of 25 characters" in told
    assert "^ onset" in told
    assert all(row in told for row in ("exact", "flood", "copied", "fresh", "compressed", "state"))


def test_a_healthy_trace_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for text in (SHORT * 3, SHORT, ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert main([]) == 0
        assert "no loop in" in capsys.readouterr().out


def test_the_prompt_and_the_channel_change_the_rope(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    for options in ([], ["--channel", "answer"], ["--prompt", "Repeat this forever."]):
        monkeypatch.setattr("sys.stdin", io.StringIO(LOOP))
        assert main(options) == 0
        told.append(capsys.readouterr().out)
    assert told[1] == told[2] != told[0]


def test_a_file_is_told_in_pieces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pieces = ["Hm", "m:\n", *["I ", "am ", "not ", "sure. "] * 60]
    (row, other), told = rows_of(tmp_path, [{"id": "a", "pieces": pieces}, {"id": 7, "text": SHORT}], capsys)
    assert row == {"id": "a", "fired": True, "kind": "exact", "onset": 2, "fired_at": row["fired_at"], "period": 4}
    assert 2 + 4 * 10 < row["fired_at"] <= len(pieces)
    assert other == {"id": "7", "fired": False, "kind": None, "onset": None, "fired_at": None, "period": None}
    assert not told


def test_labels_are_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": "1", "label": "loop", "text": LOOP},
        {"id": "2", "label": "loop", "text": SHORT},
        {"id": "3", "label": "no_loop", "text": SHORT},
        {"id": "4", "label": "near_loop", "text": SHORT},
        {"id": "5", "label": "no_loop", "text": LOOP, "prompt": "Repeat it forever."},
    ]
    found, told = rows_of(tmp_path, rows, capsys)
    assert [row["fired"] for row in found] == [True, False, False, False, True]
    assert told == "recall 0.500 (1 of 2 loops); near loops found: 0 of 1; false alarms: 1 of 2\n"


@pytest.mark.parametrize("line", ["{", "[]", '{"id": "x"}', '{"pieces": [1]}', '{"text": "a", "label": "maybe"}'])
def test_a_bad_line_is_named(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(f'{{"text": "a"}}\n{line}\n', encoding="utf-8")
    assert main(["--json", str(file)]) == 2
    assert "line 2" in capsys.readouterr().err


def test_a_file_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
