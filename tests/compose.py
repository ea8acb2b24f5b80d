"""compose.yaml as Docker Compose itself resolves it: whoever imports this skips where there is none."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.image import ROOT
from tests.linters import linter

FOLDER: Final = ROOT / "deploy" / "compose"
FILE: Final = FOLDER / "compose.yaml"
PROFILES: Final = ("vllm", "sglang", "llamacpp")


def binary() -> Path:
    """The program itself: what pip puts on the path in front of it forgets its exit code."""
    package = find_spec("compose")
    place = Path(package.origin).with_name("docker-compose") if package is not None and package.origin else None
    if place is None or not place.is_file():
        pytest.skip("Docker Compose is packaged for Python 3.11 on Linux x86-64 only", allow_module_level=True)
    return place


COMPOSE: Final = binary()


def config(*files: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """What `docker-compose config` says, with no more of this shell than it needs, and nothing of a `.env`."""
    command = [
        str(COMPOSE),
        "--env-file",
        os.devnull,
        *(word for file in files or (FILE,) for word in ("-f", str(file))),
        "config",
        "--format",
        "json",
    ]
    known = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    return subprocess.run(command, env=known | more, capture_output=True, text=True, check=False)


@cache
def resolved(profile: str) -> dict[str, Any]:
    """The whole of it for one profile."""
    told = config(COMPOSE_PROFILES=profile)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def services(profile: str) -> dict[str, dict[str, Any]]:
    return resolved(profile)["services"]


def mounts(service: dict[str, Any]) -> dict[str, Path]:
    """What of this checkout a service sees, by where it sees it."""
    return {told["target"]: Path(told["source"]) for told in service.get("volumes", ()) if told["type"] == "bind"}


def findings(file: Path) -> Counter[str]:
    """What compose-lint has to say of it, by rule."""
    command = [linter("compose-lint"), "check", "--format", "json", "--no-env", str(file)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return Counter(finding["rule_id"] for finding in json.loads(told.stdout)["findings"])


def seconds(text: str) -> int:
    """Of a duration as Go writes it: `15m30s`."""
    total, number = 0, ""
    for letter in text:
        if letter.isdigit():
            number += letter
        else:
            total += int(number) * {"h": 3_600, "m": 60, "s": 1}[letter]
            number = ""
    return total
