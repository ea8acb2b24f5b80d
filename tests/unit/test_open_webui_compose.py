"""Open WebUI's compose file: valid by Docker Compose's own reading, alone and in the network of deploy/compose."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.compose import FOLDER as STACK
from tests.compose import PROFILES, config, findings, services
from tests.compose import resolved as stack
from tests.image import ROOT

FOLDER: Final = ROOT / "deploy" / "examples" / "clients" / "open-webui"
FILE: Final = FOLDER / "compose.yaml"
WITH_STACK: Final = (FOLDER / "README.md").read_text(encoding="utf-8").split("### With deploy/compose")[1]
(OVERRIDE,) = re.findall(r"```yaml\n(.*?)```", WITH_STACK.split("\n## ")[0], re.DOTALL)
EXPORTS: Final = dict(re.findall(r"\b([A-Z_]+)=(\S+)", WITH_STACK.split("\n## ")[0]))


def taken(*files: Path, **settings: str) -> dict[str, Any]:
    told = config(*files, **settings)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def published(service: dict[str, Any]) -> set[tuple[str, str]]:
    return {(port["host_ip"], port["published"]) for port in service.get("ports", ())}


def test_it_is_taken_and_seen_by_nobody_else() -> None:
    (service,) = taken(FILE, THINKGATE_KEY="tg-x")["services"].values()
    assert published(service) == {("127.0.0.1", "3000")}
    assert service["environment"]["OPENAI_API_KEY"] == "tg-x"


def test_without_a_key_it_says_what_it_wants() -> None:
    told = config(FILE)
    assert told.returncode != 0
    assert "thinkgate keys new" in told.stderr


def test_the_linter_finds_nothing_but_what_is_known() -> None:
    """It was not run here, so that nothing is taken from a container that starts as root and writes where it likes."""
    known = {"CL-0006": "capabilities", "CL-0007": "a root to write to", "CL-0019": "a tag", "CL-0026": "no limits"}
    assert findings(FILE) == Counter(dict.fromkeys(known, 1))


@pytest.mark.parametrize("profile", PROFILES)
def test_beside_the_stack_it_reaches_the_gateway_and_no_engine(profile: str, tmp_path: Path) -> None:
    override = tmp_path / "compose.override.yaml"
    override.write_text(OVERRIDE)
    joined = taken(FILE, override, **EXPORTS)
    (service,) = joined["services"].values()
    names = {joined["networks"][network]["name"] for network in service["networks"]}
    assert all(joined["networks"][network]["external"] for network in service["networks"])
    address = urlsplit(service["environment"]["OPENAI_API_BASE_URL"])
    reached = {
        name
        for name, one in services(profile).items()
        if names & {stack(profile)["networks"][network]["name"] for network in one["networks"]}
    }
    assert address.hostname in reached
    assert not [name for name in reached if services(profile)[name].get("profiles")], "engines are not reached"
    (port,) = services(profile)["gateway"]["ports"]
    assert (address.port, address.path) == (port["target"], "/v1")
    assert not published(service) & {taken for one in services(profile).values() for taken in published(one)}


@pytest.mark.parametrize("profile", PROFILES)
def test_its_task_model_is_the_profiles_own(profile: str) -> None:
    pools = yaml.safe_load((STACK / "gateway" / profile / "thinkgate.yaml").read_text())["pools"]
    assert pools["standard"]["model"] in WITH_STACK
    assert profile in WITH_STACK
    assert EXPORTS["TASK_MODEL"] == "qwen3-1.7b"
