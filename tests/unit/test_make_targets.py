"""Every target of the Makefile leads to commands, and every hook of pre-commit and module it names is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
MAKEFILE: Final = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS: Final = re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE)
HOOKS: Final = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]


def planned(target: str) -> str:
    """What make would run for it where everything is to be made. Runs none of it."""
    command = ["make", "-n", "-B", target, f"VENV={ROOT}/none", "DATA=data"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_has_commands(target: str) -> None:
    commands = planned(target)
    assert commands.strip()
    for module in re.findall(r"bin/python -m ([\w.]+)", commands):
        assert find_spec(module) is not None, f"make {target} runs {module}"
    for path in re.findall(r"pytest -q (tests/\S+)", commands):
        assert (ROOT / path).exists(), f"make {target} runs {path}"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_target_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(AssertionError, match="No rule to make target"):
        planned("nothing")


def test_what_is_documented_is_declared_phony() -> None:
    """A folder of the same name would switch a target off, as `docs` or `train` well might."""
    (phony,) = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == set(TARGETS)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_is_a_command_that_check_runs_too(hook: dict[str, str]) -> None:
    """With the same words, so that what a commit passes `make check` passes."""
    program, *words = hook["entry"].split()
    folder, name = program.rsplit("/", 1)
    assert folder == ".venv/bin"
    command = " ".join([name, *words])
    (check,) = re.findall(r"^check:.*\n((?:\t.+\n)+)", MAKEFILE, re.MULTILINE)
    assert re.search(rf"\$\(BIN\)/{re.escape(command)}(?: \.)?$", check, re.MULTILINE), command
