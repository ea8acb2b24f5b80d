"""README.md, for a stranger: its configuration is right and short, its commands exist, its SDK example compiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from gateway.cli import app
from gateway.config import EngineKind
from gateway.configfile import load
from gateway.ledger import EndedBy
from tests.pages import ROOT

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
CLUSTER: Final = README.split("## Point it at your cluster\n")[1].split("\n## ")[0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    [yaml] = re.findall(r"```yaml\n(.*?)```", CLUSTER, re.DOTALL)
    path = tmp_path / "thinkgate.yaml"
    path.write_text(yaml, encoding="utf-8")
    return path


def test_ten_lines_point_it_at_a_cluster(file: Path) -> None:
    [commands] = re.findall(r"```bash\n(.*?)```", CLUSTER, re.DOTALL)
    lines = [
        line for line in (*file.read_text(encoding="utf-8").splitlines(), *commands.splitlines()) if line[0] != "#"
    ]
    assert len(lines) == 10
    config = load(file, {})
    assert {name: pool.engine for name, pool in config.pools.items()} == {
        "reasoning": EngineKind.SGLANG,
        "standard": EngineKind.VLLM,
    }
    assert not config.pools["standard"].thinking.enabled
    assert set(config.routes) == {"auto"}


def test_check_finds_nothing_wrong_with_them(file: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(file)])
    assert done.exit_code == 0, done.output
    assert "fine" in done.output


def test_every_make_target_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z-]+)\b", "\n".join(re.findall(r"```bash\n(.*?)```", README, re.DOTALL))))
    assert named >= {"serve", "test"}
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in named)


def test_its_python_is_python() -> None:
    [example] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    compile(example, "README.md", "exec")


def test_every_engine_and_every_end_of_a_thought_is_named() -> None:
    assert all(f"`{one}` (" in README for one in EndedBy)
    assert all(one in CLUSTER for one in set(EngineKind) - {EngineKind.EMBEDDED})
