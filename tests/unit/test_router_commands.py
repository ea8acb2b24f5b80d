"""`thinkgate router …` and `thinkgate explain`, as typed: what they print, their exit codes, and what they refuse."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gateway import config
from gateway.cli import app
from gateway.observe.metrics import Metrics
from gateway.routing import Routing
from router import Ask, Tier, loading
from router.encoder import OnnxEncoder, TextIds
from router.loading import ASSETS, read_head
from router.retrain.log import LogRow

GUARD = ASSETS / "guard.jsonl"


@pytest.fixture(autouse=True, scope="module")
def one_encoder() -> Iterator[None]:
    """The same few prompts are read by every command with the same weights: each is encoded once for all of them."""
    made: dict[str, OnnxEncoder] = {}

    def remembered(model: Path, ids: TextIds) -> OnnxEncoder:
        weights = sha256(model.read_bytes()).hexdigest()
        return made.setdefault(weights, made.get(weights) or OnnxEncoder(model, ids))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "OnnxEncoder", remembered)
        yield


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def told(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def guard_lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GUARD.read_text(encoding="utf-8").splitlines()]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def turned(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "label": 1 - row["label"]}


def test_calibrate_then_eval_then_diff(tmp_path: Path) -> None:
    [made] = told(run("router", "calibrate", "--log", GUARD, "--out", tmp_path))
    head = Path(made["head"])
    assert head.parent == tmp_path
    assert read_head(head).card["retrained"]["by"] == "calibrate"
    assert made["guard"]["after"] >= made["guard"]["before"] - 0.01
    [again] = told(run("router", "calibrate", "--log", GUARD, "--out", tmp_path))
    assert again["head"] == made["head"], "the same log makes the same version"
    [figures] = told(run("router", "eval", "--log", GUARD, "--head", head))
    assert figures["n"] == len(guard_lines())
    lines = told(run("router", "diff", ASSETS / "head.npz", head, "--log", GUARD))
    assert lines[-1] == {"rows": len(guard_lines()), "flipped": len(lines) - 1}
    assert all((line["old"] >= 0.5) is not (line["new"] >= 0.5) for line in lines[:-1])


def test_refit_makes_a_version_that_holds_its_guard(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", guard_lines() * 2)
    [made] = told(run("router", "refit", "--log", log, "--out", tmp_path / "heads"))
    assert read_head(Path(made["head"])).card["retrained"]["rows"] == 2 * len(guard_lines())
    assert made["guard"]["after"] >= made["guard"]["before"] - 0.01
    assert made["seconds"] >= 0


@pytest.mark.parametrize("command", ["calibrate", "refit"])
def test_a_log_that_is_upside_down_makes_no_version(tmp_path: Path, command: str) -> None:
    log = write(tmp_path / "log.jsonl", [turned(row) for row in guard_lines()] * 2)
    result = run("router", command, "--log", log, "--out", tmp_path / "heads")
    assert result.exit_code == 1
    assert "guard set falls" in result.stderr
    assert not (tmp_path / "heads").exists()


def test_too_small_a_log_and_no_log(tmp_path: Path) -> None:
    result = run("router", "refit", "--log", GUARD, "--out", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "500 labelled rows" in result.stderr
    absent = run("router", "eval", "--log", tmp_path / "absent.jsonl")
    assert absent.exit_code == 1
    assert "absent.jsonl" in absent.stderr
    torn = tmp_path / "torn.jsonl"
    torn.write_text('{"text": "hi"}\n{torn\n', encoding="utf-8")
    assert "line 2" in run("router", "eval", "--log", torn).stderr
    assert run("router", "eval").exit_code == 2


def outcome(row: dict[str, Any]) -> dict[str, Any]:
    """A strong model that is always right, a weak one that is right where no reasoning is needed."""
    asked = {name: value for name, value in row.items() if name != "label"}
    return {**asked, "weak": not row["label"], "strong": True}


@pytest.mark.parametrize("command", ["outcomes", "eval"])
def test_outcomes_stand_beside_length_and_chance(tmp_path: Path, command: str) -> None:
    log = write(tmp_path / "log.jsonl", [outcome(row) for row in guard_lines()])
    curves = {line["router"]: line["apgr"] for line in told(run("router", command, "--log", log))}
    ours = curves["words and encoder, own labels"]
    assert ours > curves["length"]
    assert ours > curves["random"]


FURTHER = "router.training.further"


def many_lines(path: Path) -> Path:
    return write(path, [row for row in guard_lines() for _ in range(4)])


def test_finetune_without_torch_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, FURTHER, None)
    log = many_lines(tmp_path / "log.jsonl")
    result = run("router", "finetune", "--log", log, "--work", tmp_path, "--out", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.strip() == "fine-tuning needs torch: pip install 'thinkgate[train]'"


def test_finetune_wants_a_thousand_labels(tmp_path: Path) -> None:
    result = run("router", "finetune", "--log", GUARD, "--work", tmp_path, "--out", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.strip() == "1000 labelled rows are needed, the log has 320"


class Training:
    """Stands for `router.training.further`, which needs torch: makes a router of the shipped files."""

    def __init__(self, head: Path) -> None:
        self.head = head

    def run(self, log: Sequence[LogRow], out: Path, work: Path) -> None:
        assert all(row.label is not None for row in log)
        out.mkdir(parents=True)
        for name in ("encoder.onnx", "tokenizer.json", "cheap.npz"):
            shutil.copy(ASSETS / name, out / name)
        shutil.copy(self.head, out / "head.npz")


def test_finetune_keeps_what_holds_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, FURTHER, Training(ASSETS / "head.npz"))
    log, work, out = many_lines(tmp_path / "log.jsonl"), tmp_path / "work", tmp_path / "out"
    [made] = told(run("router", "finetune", "--log", log, "--work", work, "--out", out))
    assert Path(made["folder"]).parent == out
    assert sorted(path.name for path in Path(made["folder"]).iterdir()) == [
        "cheap.npz",
        "encoder.onnx",
        "head.npz",
        "tokenizer.json",
    ]
    [figures] = told(run("router", "eval", "--log", GUARD, "--folder", made["folder"]))
    assert figures["accuracy"] == made["guard"]["after"]
    served = Routing.of_config(config.Router(folder=made["folder"], mode="accurate"), Metrics())
    assert served.classifier.decide(Ask("Is 91 a product of two primes?")).tier is Tier.ENCODER
    served.close()
    assert made["guard"] == {"before": made["guard"]["before"], "after": made["guard"]["before"]}


def test_finetune_refuses_what_loses_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worse = read_head(ASSETS / "head.npz")
    worse.output[:] = -worse.output
    worse.write(tmp_path / "worse.npz")
    monkeypatch.setitem(sys.modules, FURTHER, Training(tmp_path / "worse.npz"))
    log, work, out = many_lines(tmp_path / "log.jsonl"), tmp_path / "work", tmp_path / "out"
    result = run("router", "finetune", "--log", log, "--work", work, "--out", out)
    assert result.exit_code == 1
    assert "guard set falls" in result.stderr
    assert not out.exists()


POOLS = """
pools:
  small: {model: small, engine: vllm, workers: [http://127.0.0.1:9]}
router:
  noise_tags: [house]
  threshold: 0.3
  routes:
    tickets: {route: reasoning, pool: small, regex: 'INC-[0-9]+'}
"""


def test_explain_reads_aloud() -> None:
    result = run("explain", "Prove that n^3 - n is divisible by 6. Thanks a lot!")
    assert result.exit_code == 0
    for part in ("reasoning (", "encoder, raw", "calibrated", "threshold", "margin", "history: none", "weigh most"):
        assert part in result.stdout
    assert "nearest shipped prompts" in result.stdout
    assert "Thanks a lot!" in result.stdout.split("what each sentence adds")[1]


def test_explain_follows_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "thinkgate.yaml"
    file.write_text(POOLS, encoding="utf-8")
    [seen] = told(run("explain", "<house>noise</house>what of INC-77?", "--config", file, "--json"))
    assert (seen["rule"], seen["target"], seen["route"], seen["tier"]) == ("tickets", "small", "reasoning", "rule")
    assert seen["threshold"] == 0.3


def test_explain_tells_what_history_did() -> None:
    hard = "Prove by induction that the sum of the first n odd numbers is n^2."
    [seen] = told(run("explain", "go on", "--before", hard, "--json"))
    assert (seen["route"], seen["history"]["effect"]) == ("reasoning", "go-ahead")
    assert seen["history"]["p_before"] == pytest.approx(seen["p_reasoning"])
    assert seen["history"]["p_without"] < 0.5


def test_explain_says_what_is_wrong_with_a_head(tmp_path: Path) -> None:
    file = tmp_path / "thinkgate.yaml"
    file.write_text(POOLS + "  head: /nowhere/head.npz\n", encoding="utf-8")
    result = run("explain", "hi", "--config", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "head is unreadable" in result.stderr
