"""The Dockerfile says what the project says, and the chart runs the image as it was made."""

from __future__ import annotations

import re
import shlex
import tomllib
from copy import deepcopy
from pathlib import PurePosixPath

import pytest

from gateway import __version__
from gateway.config import Server
from tests.helm import CHART, LEAST, helm_python, one
from tests.image import ROOT, VENV, stages

BUILDER, IMAGE = stages()
SPEC = one("Deployment", LEAST)["spec"]["template"]["spec"]
CONTAINER = SPEC["containers"][0]
WORDS = IMAGE.command


def test_only_what_is_copied_goes_to_the_builder() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    allowed = [line[1:] for line in lines if line.startswith("!")]
    assert sorted(allowed) == sorted(name for copy in BUILDER.copies for name in copy.sources)


def test_what_is_copied_is_what_the_wheel_is_made_of() -> None:
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {*made["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], made["project"]["readme"]}
    needed |= {*made["project"]["license-files"], "pyproject.toml", "constraints.txt"}
    assert {name for copy in BUILDER.copies for name in copy.sources} == needed
    assert set(BUILDER.arguments["EXTRAS"].split(",")) <= set(made["project"]["optional-dependencies"])


def test_the_image_is_the_base_and_the_virtual_environment() -> None:
    assert IMAGE.base == BUILDER.base
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", IMAGE.base)
    assert IMAGE.runs == []
    (copy,) = IMAGE.copies
    assert (copy.stage, copy.sources, copy.target) == (BUILDER.name, (VENV,), VENV)
    assert BUILDER.arguments["VENV"] == IMAGE.arguments["VENV"] == VENV


def test_versions_agree() -> None:
    labels = dict(word.split("=", 1) for word in shlex.split(IMAGE.says["LABEL"]))
    assert labels["org.opencontainers.image.version"] == __version__
    licence = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert labels["org.opencontainers.image.licenses"] == licence


def test_the_port_is_one_and_the_same() -> None:
    port = IMAGE.says["EXPOSE"]
    assert int(port) == Server().port
    assert WORDS[WORDS.index("--port") + 1] == port
    assert any(f"HTTPConnection('127.0.0.1', {port}," in word and "'/livez'" in word for word in IMAGE.health)
    assert [str(told["containerPort"]) for told in CONTAINER["ports"]] == [port]


def test_the_chart_runs_it_as_its_own_user() -> None:
    user = SPEC["securityContext"]
    assert IMAGE.says["USER"] == f"{user['runAsUser']}:{user['runAsGroup']}"


def test_the_chart_starts_what_it_starts_with_the_file_where_it_looks() -> None:
    file = WORDS[WORDS.index("--config") + 1]
    assert CONTAINER["command"] == WORDS[: WORDS.index("--config") + 2]
    assert str(PurePosixPath(file).parent) == IMAGE.folder
    assert IMAGE.folder in {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}


def test_variables_of_the_chart_are_those_of_the_image() -> None:
    said = dict(word.split("=", 1) for word in shlex.split(IMAGE.says["ENV"]))
    assert {told["name"]: told["value"] for told in CONTAINER["env"]}.items() <= said.items()


@pytest.mark.parametrize("is_there", [True, False])
def test_no_registry_is_made_up(is_there: bool) -> None:
    values = deepcopy(LEAST)
    values["image"] = {"tag": "0.1.0"}
    if not is_there:
        del values["image"]
    with helm_python.Chart.load(str(CHART)) as chart, pytest.raises(helm_python.HelmError) as refused:
        chart.render(values, name="demo", namespace="llm")
    assert "/image/repository" in str(refused.value)
