"""The image without Docker: every RUN of its Dockerfile is run, and then its command, in front of a double.

With `THINKGATE_IMAGE=whole` all dependencies come from the index, as in a real build, and the gateway runs as the
image's user (half a minute, and 300 MB for a while). Else they are borrowed from where the tests run, after a look that
these are the ones that the build would take.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gateway import __version__
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.server import Host
from tests.image import BUILD_PATIENCE, ROOT, Container, build, environment, packages_here, stages

IS_WHOLE: Final = os.environ.get("THINKGATE_IMAGE") == "whole"
pytestmark = [pytest.mark.timeout(2 * BUILD_PATIENCE)] if IS_WHOLE else []
BUILDER, IMAGE = stages()
PINS: Final = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
CONFIG: Final = ROOT / "deploy" / "compose" / "gateway" / "llamacpp" / "thinkgate.yaml"


@pytest.fixture(scope="module")
def built() -> Iterator[tuple[Path, Path]]:
    """The folder that stands for the image's root, and its virtual environment. Whoever is not root may look in."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder, build(BUILDER, folder, is_whole=IS_WHOLE)


def packages_of(venv: Path) -> Path:
    (packages,) = venv.glob("lib/python*/site-packages")
    return packages


def wanted(place: Path) -> dict[str, Requirement]:
    """All that the image's extras of thinkgate ask for, and what those ask for, as found in `place`, by name."""
    known = {canonicalize_name(one.name): one for one in metadata.distributions(path=[str(place)])}
    found: dict[str, Requirement] = {}
    ahead = [("thinkgate", extra) for extra in ("", *BUILDER.arguments["EXTRAS"].split(","))]
    seen = set(ahead)
    while ahead:
        name, extra = ahead.pop()
        for text in known[name].requires or ():
            asked = Requirement(text)
            if asked.marker is not None and not asked.marker.evaluate({"extra": extra}):
                continue
            asked_name = canonicalize_name(asked.name)
            found[asked_name] = asked
            more = {(asked_name, wish) for wish in ("", *asked.extras)} - seen
            seen |= more
            ahead += more
    return found


def test_the_wheel_is_in_it_and_nothing_that_builds(built: tuple[Path, Path]) -> None:
    folder, venv = built
    names = {canonicalize_name(one.name) for one in metadata.distributions(path=[str(packages_of(venv))])}
    assert "thinkgate" in names
    assert not names & {"pip", "setuptools", "wheel", "hatchling", "pytest", "torch"}

    def told(program: str, *words: str) -> str:
        command = [venv / "bin" / program, *words]
        return subprocess.check_output(command, cwd=folder, env=environment(), text=True)

    for name in ("gateway", "router", "budgets", "parsers"):
        assert told("python", "-c", f"import {name}; print({name}.__file__)").startswith(str(venv))
    assert told("thinkgate", "version").strip() == __version__


def test_all_that_the_wheel_asks_for_is_pinned_and_can_be_had(built: tuple[Path, Path]) -> None:
    _, venv = built
    pins = {canonicalize_name(name): version for name, version in PINS.items()}
    place = packages_of(venv) if IS_WHOLE else packages_here()
    asked = wanted(place)
    assert {"fastapi", "onnxruntime", "opentelemetry-sdk"} <= set(asked)
    there = {canonicalize_name(one.name): one.version for one in metadata.distributions(path=[str(place)])}
    for name, requirement in asked.items():
        assert name in pins, f"constraints.txt does not pin {name}"
        assert requirement.specifier.contains(pins[name], prereleases=True), f"{requirement} is not {pins[name]}"
        assert there[name] == pins[name]
    if IS_WHOLE:
        assert set(there) == {"thinkgate", *asked}


def test_what_builds_is_pinned_too() -> None:
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    installed = " ".join(BUILDER.runs[0].split())
    for text in requires:
        requirement = Requirement(text)
        assert re.search(rf"pip install .*\b{requirement.name}\b", installed)
        assert requirement.specifier.contains(PINS[requirement.name])


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """All files and folders, with what changes when they are written; a file that comes and goes changes its folder."""
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize("variable", ["HOME", "TMPDIR"])
def test_what_it_would_write_would_be_seen(built: tuple[Path, Path], variable: str) -> None:
    folder, venv = built
    container = Container(folder, venv, IMAGE, {})
    before = state_of(folder)
    scratch = Path(container.environment[variable]) / "scratch"
    scratch.touch()
    scratch.unlink()
    assert state_of(folder) != before


def test_its_command_serves_is_healthy_writes_nothing_and_ends_when_told(built: tuple[Path, Path], host: Host) -> None:
    folder, venv = built
    double = host.add(LlamaDouble("qwen3-1.7b", opens=False))
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    for pool in config["pools"].values():
        assert pool["workers"] == ["http://llamacpp:8080"]
        pool["workers"] = [double.url]
    container = Container(folder, venv, IMAGE, config)
    before = state_of(folder)
    with container:
        if IS_WHOLE and os.getuid() == 0:
            assert f"{Path(f'/proc/{container.process.pid}').stat().st_uid}" == IMAGE.says["USER"].partition(":")[0]
        container.wait_workers(2)
        assert container.health() == 0
        assert httpx.get(f"{container.url}/readyz").status_code == 200
        asked = {"model": "auto", "messages": [{"role": "user", "content": "What is the capital of France?"}]}
        answer = httpx.post(f"{container.base_url}/chat/completions", json=asked, timeout=30)
        assert answer.status_code == 200, answer.text
        container.process.send_signal(signal.Signals[IMAGE.says["STOPSIGNAL"]])
    assert container.health() != 0, "nobody is there any more"
    assert state_of(folder) == before
    host.remove(double)
