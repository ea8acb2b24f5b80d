"""Shell scripts and Dockerfiles of the repository, read by shellcheck and hadolint; each RUN is a script too."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.image import DOCKERFILE, ROOT, stages
from tests.linters import linter

SHEBANGS = (b"#!/bin/sh", b"#!/usr/bin/env bash", b"#!/bin/bash", b"#!/usr/bin/env sh")


def committed(root: Path = ROOT) -> list[Path]:
    """What git knows in this checkout, and nothing that lies about in it. An unpacked archive has no such list."""
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("this is no checkout of git's")
    told = subprocess.run(["git", "ls-files", "-z", "--cached"], cwd=root, capture_output=True, check=True)
    return [file for name in told.stdout.decode().split("\0") if name and (file := root / name).is_file()]


def is_script(file: Path) -> bool:
    if file.suffix in {".sh", ".bash"}:
        return True
    with file.open("rb") as start:
        return start.readline(80).startswith(SHEBANGS)


def lint(command: list[str], text: str | None = None) -> tuple[int, str]:
    told = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return told.returncode, told.stdout + told.stderr


def test_every_script_passes_shellcheck() -> None:
    scripts = [str(file) for file in committed() if is_script(file)]
    assert {str(ROOT / ".ci" / "run"), str(ROOT / "deploy" / "engines" / "vllm-r1-7b" / "serve.sh")} <= set(scripts)
    code, told = lint([linter("shellcheck"), "--severity=style", *scripts])
    assert code == 0, told


@pytest.mark.parametrize(
    "script", [run for stage in stages() for run in stage.runs], ids=lambda run: run.split(" --")[0]
)
def test_every_run_passes_shellcheck(script: str) -> None:
    code, told = lint([linter("shellcheck"), "--severity=style", "--shell=sh", "-"], script)
    assert code == 0, told


def test_every_dockerfile_passes_hadolint() -> None:
    files = [file for file in committed() if "Dockerfile" in file.name]
    assert files == [DOCKERFILE]
    code, told = lint([linter("hadolint"), "--failure-threshold=style", *map(str, files)])
    assert (code, told) == (0, "")


def test_the_linters_see_what_is_wrong() -> None:
    assert lint([linter("shellcheck"), "--shell=sh", "-"], "rm $1\n")[0] != 0
    assert lint([linter("hadolint"), "-"], "FROM python:latest\nRUN cd /tmp && pip install x\n")[0] != 0


def test_without_a_checkout_there_is_nothing_to_ask(tmp_path: Path) -> None:
    """As in an archive of the source, also where that was unpacked within somebody's checkout."""
    with pytest.raises(pytest.skip.Exception):
        committed(tmp_path)
