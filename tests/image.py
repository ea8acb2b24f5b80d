"""The gateway's image without Docker: its Dockerfile read, its RUNs run in a folder, its command started from there.

A path of the image is the same path below the folder. Programs of the base image are those of this machine.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import yaml
from dockerfile_parse import DockerfileParser

from tests.harness import Gateway

ROOT: Final = Path(__file__).parents[1]
DOCKERFILE: Final = ROOT / "deploy" / "docker" / "Dockerfile"
VARIABLE: Final = re.compile(r"\$\{(\w+)\}|\$(\w+)")
OURS: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables that would lead the image's Python to this checkout."""
BUILD_PATIENCE: Final = 300.0
VENV: Final = "/opt/thinkgate"
BORROWED: Final = "borrowed.pth"


@dataclass(frozen=True, slots=True)
class Copy:
    """`stage`: the one copied from; '' is the build's context."""

    stage: str
    sources: tuple[str, ...]
    target: str


@dataclass(slots=True)
class Stage:
    """What a stage says, in its order where that counts: `steps` are its COPYs and its RUNs (as text)."""

    base: str
    name: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    folder: str = "/"
    steps: list[Copy | str] = field(default_factory=list["Copy | str"])
    says: dict[str, str] = field(default_factory=dict[str, str])
    """All other instructions, by name."""

    @property
    def runs(self) -> list[str]:
        return [step for step in self.steps if isinstance(step, str)]

    @property
    def copies(self) -> list[Copy]:
        return [step for step in self.steps if isinstance(step, Copy)]

    @property
    def command(self) -> list[str]:
        return [*json.loads(self.says["ENTRYPOINT"]), *json.loads(self.says["CMD"])]

    @property
    def health(self) -> list[str]:
        return json.loads(self.says["HEALTHCHECK"].partition(" CMD ")[2])


def stages() -> list[Stage]:
    found: list[Stage] = []
    before: dict[str, str] = {}
    for step in DockerfileParser(fileobj=BytesIO(DOCKERFILE.read_bytes())).structure:
        instruction, value = step["instruction"], " ".join(step["value"].split())
        if instruction == "COMMENT":
            continue
        if instruction == "FROM":
            base, _, name = value.partition(" AS ")
            found.append(Stage(_filled(base, before), name))
            continue
        known = found[-1].arguments if found else before
        if instruction == "ARG":
            name, _, default = value.partition("=")
            known[name] = default
        else:
            _take(found[-1], instruction, step["value"] if instruction == "RUN" else _filled(value, known))
    return found


def _take(stage: Stage, instruction: str, value: str) -> None:
    if instruction == "RUN":
        stage.steps.append(value)
    elif instruction == "COPY":
        words = value.split()
        source = next((word.removeprefix("--from=") for word in words if word.startswith("--from=")), "")
        *sources, target = [word for word in words if not word.startswith("--")]
        stage.steps.append(Copy(source, tuple(sources), target))
    elif instruction == "WORKDIR":
        stage.folder = value
    else:
        assert instruction not in stage.says, f"{instruction} is said twice, which this reader does not know"
        stage.says[instruction] = value


def _filled(text: str, values: dict[str, str]) -> str:
    """`PATH` and the like stay as they are: only arguments are known here."""
    return VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), text)


def environment(**more: str) -> dict[str, str]:
    """This process's, so that pip finds its index, without what would lead Python here; `python` is on the path."""
    known = {name: value for name, value in os.environ.items() if name not in OURS}
    return known | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | more


def build(stage: Stage, folder: Path, *, is_whole: bool) -> Path:
    """Run a stage's COPYs and RUNs in their order; gives the place of its virtual environment. `is_whole`: with all
    dependencies from the index; else each RUN that installs into it is told to leave them out, and they are borrowed
    from where the tests run. Raises CalledProcessError."""
    place = folder / stage.folder.lstrip("/")
    place.mkdir(parents=True)
    venv = folder / stage.arguments["VENV"].lstrip("/")
    for step in stage.steps:
        if isinstance(step, Copy):
            _copy(step, place)
            continue
        spared = {} if is_whole or "${VENV}" not in step else {"PIP_NO_DEPS": "1"}
        told = environment(**stage.arguments | {"VENV": str(venv)} | spared)
        subprocess.run(["/bin/sh", "-c", step], cwd=place, env=told, check=True, timeout=BUILD_PATIENCE)
    if not is_whole:
        (packages,) = venv.glob("lib/python*/site-packages")
        # A plain line adds the folder behind the image's own, and none of the links in it to this checkout.
        (packages / BORROWED).write_text(f"{packages_here()}\n")
    return venv


def packages_here() -> Path:
    """Where the dependencies of the tests are installed."""
    (packages,) = Path(sys.prefix).glob("lib/python*/site-packages")
    return packages


def _copy(copy: Copy, place: Path) -> None:
    assert not copy.stage, "only the context is known while a stage is built"
    for name in copy.sources:
        source, target = ROOT / name, place / copy.target
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name if target.is_dir() else target)


class Container(Gateway):
    """The image's own command, in a folder that `build` has filled. What cannot be had without Docker is put otherwise:
    paths lie below the folder, the port is a free one, and only loopback listens."""

    def __init__(self, folder: Path, venv: Path, image: Stage, config: dict[str, Any]) -> None:
        self._folder, self._venv, self._image = folder, venv, image
        place = folder / image.folder.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "thinkgate.yaml").write_text(yaml.safe_dump(config))
        scratch = folder / "tmp"
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o1777)  # anybody could write there, as in the base image
        self.environment = environment(**self._said())
        super().__init__(None, place, env=self.environment)

    def command(self) -> list[str]:
        program, *words = self._image.command
        found = shutil.which(program, path=self._said()["PATH"])
        assert found is not None
        assert found.startswith(str(self._venv)), f"{program} is not the image's own: {found}"
        return [*self._user(), found, *map(self._word, words)]

    def health(self) -> int:
        """The exit code of the image's health check, where Docker has handed on a proxy that reaches nobody."""
        program, *words = self._image.health
        asked = [word.replace(" 8080,", f" {self.port},") for word in words]
        assert asked != words
        path = self._said()["PATH"]
        found = shutil.which(program, path=path)
        assert found is not None
        told = subprocess.run(
            [*self._user(), found, *asked],
            env=environment(PATH=path, http_proxy="http://127.0.0.1:9", no_proxy=""),
            capture_output=True,
            check=False,
        )
        return told.returncode

    def _said(self) -> dict[str, str]:
        """ENV of the image, and what Docker itself would say."""
        said = dict(word.split("=", 1) for word in shlex.split(self._image.says["ENV"]))
        said["PATH"] = said["PATH"].replace("${PATH}", "/usr/bin:/bin")
        return {name: value.replace(VENV, str(self._venv)) for name, value in said.items()} | {
            "HOME": str(self._folder),
            "TMPDIR": str(self._folder / "tmp"),
        }

    def _word(self, word: str) -> str:
        if word.startswith("/"):
            return str(self._folder / word.lstrip("/"))
        return {"0.0.0.0": "127.0.0.1", "8080": "0"}.get(word, word)

    def _user(self) -> list[str]:
        """As root all could be written, and nothing be proven. Nobody else can read what is borrowed, though."""
        if os.getuid() != 0 or shutil.which("setpriv") is None or next(self._venv.rglob(BORROWED), None):
            return []
        user, _, group = self._image.says["USER"].partition(":")
        return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--"]
