"""compose.yaml: valid by Docker Compose's own reading, closed to others, and of one mind with what it starts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from deploy.engines.recipes import CACHES, HERE, IMAGES, MODELS, PORTS, WORKERS
from deploy.grafana.boards import BOARDS
from gateway import __version__
from gateway.config import Config
from gateway.configsource import Source
from tests.compose import FILE, FOLDER, PROFILES, config, findings, mounts, resolved, seconds, services
from tests.image import ROOT, stages

IMAGE = stages()[-1]
RECIPES = {worker.name: worker for worker in WORKERS if worker.role == "serve"}
each_profile = pytest.mark.parametrize("profile", PROFILES)
EVERY = {(profile, name) for profile in PROFILES for name in services(profile)}
each_service = pytest.mark.parametrize(("profile", "name"), sorted(EVERY))
each_recipe = pytest.mark.parametrize(("profile", "name"), sorted(one for one in EVERY if one[1] in RECIPES))


def gateway_config(profile: str) -> Config:
    """As the gateway reads it in its container."""
    words = IMAGE.command
    overrides = {"server": {"host": words[words.index("--host") + 1], "port": int(words[words.index("--port") + 1])}}
    (folder,) = mounts(services(profile)["gateway"]).values()
    return Source(folder / Path(words[words.index("--config") + 1]).name, overrides).load()


def test_there_are_engines_in_every_profile_and_a_configuration_for_each() -> None:
    assert {file.parent.name for file in (FOLDER / "gateway").glob("*/thinkgate.yaml")} == set(PROFILES)
    given = yaml.safe_load(FILE.read_text())["services"].values()
    assert {profile for service in given for profile in service.get("profiles", ())} == set(PROFILES)


def test_without_a_profile_it_says_what_to_say() -> None:
    told = config()
    assert told.returncode != 0
    assert "say COMPOSE_PROFILES=vllm (or sglang, llamacpp)" in told.stderr


def test_a_file_of_settings_beside_it_changes_no_test(tmp_path: Path) -> None:
    """README.md has everybody make a `.env` in that folder."""
    (tmp_path / ".env").write_text("COMPOSE_PROFILES=vllm\n")
    told = config(Path(shutil.copy(FILE, tmp_path)))
    assert told.returncode != 0
    assert "say COMPOSE_PROFILES" in told.stderr


def test_a_key_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("services:\n  gateway:\n    stop_grace: 5m\n")
    told = config(FILE, wrong, COMPOSE_PROFILES="vllm")
    assert told.returncode != 0
    assert "stop_grace" in told.stderr


@each_service
def test_what_is_mounted_is_there_and_cannot_be_written(profile: str, name: str) -> None:
    for told in services(profile)[name].get("volumes", ()):
        if told["type"] == "bind":
            assert Path(told["source"]).exists(), told
            assert Path(told["source"]).is_relative_to(ROOT)
            assert told["read_only"] is True
        else:
            assert told["source"] in resolved(profile)["volumes"]


@each_service
def test_every_service_is_confined_watched_and_of_a_known_version(profile: str, name: str) -> None:
    service = services(profile)[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service.get("read_only") is True or name in RECIPES, "an engine of a recipe writes where it likes"
    repository, _, tag = service["image"].rpartition(":")
    assert repository
    assert any(letter.isdigit() for letter in tag), f"{service['image']} is not one version"
    assert "healthcheck" in service or ("build" in service and "HEALTHCHECK" in IMAGE.says)
    for port in service.get("ports", ()):
        assert port["host_ip"] == "127.0.0.1"


def test_the_linter_finds_nothing_but_what_is_meant() -> None:
    rules = findings(FILE)
    writing = {one[1] for one in EVERY if one[1] in RECIPES}
    assert rules.pop("CL-0007") == len(writing)  # a root that can be written: engines compile kernels
    rules.pop("CL-0019")  # no digests: a tag can be read, and whoever deploys pins what was tried
    rules.pop("CL-0026")  # no limit on cores: whatever the machine has
    assert not rules


@each_profile
def test_the_gateway_is_the_image_of_the_dockerfile(profile: str) -> None:
    gateway = services(profile)["gateway"]
    assert gateway["image"] == f"thinkgate:{__version__}"
    assert (Path(gateway["build"]["context"]), gateway["build"]["dockerfile"]) == (ROOT, "deploy/docker/Dockerfile")
    assert gateway["user"] == IMAGE.says["USER"]
    assert [str(port["target"]) for port in gateway["ports"]] == [IMAGE.says["EXPOSE"]]
    assert list(mounts(gateway)) == [IMAGE.folder]


@each_profile
def test_its_configuration_is_valid_and_its_drain_waited_for(profile: str) -> None:
    read = gateway_config(profile)
    assert set(read.routes) == {"auto"}
    assert seconds(services(profile)["gateway"]["stop_grace_period"]) >= read.server.drain + 30


@each_profile
def test_its_pools_are_the_engines_of_the_profile_and_nobody_else_reaches_those(profile: str) -> None:
    told = services(profile)
    reached = set[str]()
    for pool in gateway_config(profile).pools.values():
        for address in (*pool.workers, *([pool.discover] if pool.discover else [])):
            host, port = urlsplit(address).hostname, urlsplit(address).port
            assert host is not None
            reached.add(host)
            health = " ".join(told[host]["healthcheck"]["test"])
            assert re.search(rf"127\.0\.0\.1(:|', ){port}\b", health), f"{host} is asked elsewhere than it is watched"
    engines = {name for name, service in told.items() if service.get("profiles")}
    assert reached == engines
    for name, service in told.items():
        networks = set(service["networks"])
        expected = {"engines"} if name in engines else {"watching"}
        assert networks == (expected if name != "gateway" else {"engines", "watching"})
        assert name not in engines or "ports" not in service


def health_of(check: list[str], port: int, path: str) -> dict[int, int]:
    """The exit code of a check in Python for each status that an engine may answer, behind a proxy that is nobody."""
    codes: dict[int, int] = {}
    for status in (200, 503):

        class Engine(BaseHTTPRequestHandler):
            said = status

            def do_GET(self) -> None:
                self.send_response(self.said if self.path == path else 404)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        with HTTPServer(("127.0.0.1", 0), Engine) as server:
            Thread(target=server.handle_request, daemon=True).start()
            command = [sys.executable, *(word.replace(f" {port},", f" {server.server_port},") for word in check[1:])]
            env = {"http_proxy": "http://127.0.0.1:9"}
            codes[status] = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False).returncode
    return codes


def test_no_check_goes_through_a_proxy() -> None:
    """Docker hands on its client's. Go, and so promtool, asks none for loopback."""
    without = {"python3": "HTTPConnection", "wget": "-Y off", "curl": "--noproxy *", "promtool": ""}
    for profile, name in EVERY:
        if "healthcheck" in services(profile)[name]:
            _, program, *words = services(profile)[name]["healthcheck"]["test"]
            assert without[program] in " ".join(words), name


@each_recipe
def test_an_engine_is_its_recipe(profile: str, name: str) -> None:
    worker, service = RECIPES[name], services(profile)[name]
    assert service["image"] == IMAGES[worker.engine]
    assert service["entrypoint"] == ["bash", "/recipe/serve.sh"]
    assert mounts(service) == {"/recipe/serve.sh": worker.script}
    assert CACHES[worker.engine].items() <= service["environment"].items()
    assert [told["target"] for told in service["volumes"] if told["type"] == "volume"] == [MODELS]
    (devices,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert (devices["driver"], devices["capabilities"]) == ("nvidia", ["gpu"])
    assert len(devices["device_ids"]) == worker.gpus
    _, *check = service["healthcheck"]["test"]
    assert health_of(check, PORTS[worker.engine], "/v1/models") == {200: 0, 503: 1}
    assert seconds(service["healthcheck"]["start_period"]) >= max(worker.start, 20 * 60)
    assert seconds(service["stop_grace_period"]) >= worker.drain + 30
    pools = yaml.safe_load((HERE / worker.recipe / "pool.yaml").read_text())["pools"]
    ours = yaml.safe_load((FOLDER / "gateway" / profile / "thinkgate.yaml").read_text())["pools"]
    assert pools.items() <= ours.items()


@each_profile
def test_no_two_engines_of_a_profile_share_a_gpu(profile: str) -> None:
    devices = [service.get("deploy", {}).get("resources", {}) for service in services(profile).values()]
    taken = Counter(
        number
        for told in devices
        for one in told.get("reservations", {}).get("devices", ())
        for number in one["device_ids"]
    )
    assert all(count == 1 for count in taken.values())


def laid_out(service: dict[str, Any], folder: Path) -> Path:
    """What a service sees of this checkout, at its own paths below a folder."""
    for target, source in mounts(service).items():
        place = folder / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)
    return folder


def prometheus_settings(folder: Path) -> tuple[Path, dict[str, Any]]:
    service = services("vllm")["prometheus"]
    (path,) = [word.partition("=")[2] for word in service["command"] if word.startswith("--config.file=")]
    file = laid_out(service, folder) / path.lstrip("/")
    return file, yaml.safe_load(file.read_text())


def test_prometheus_takes_its_configuration_and_the_rules(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    file, _ = prometheus_settings(tmp_path)
    told = subprocess.run([promtool, "check", "config", str(file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "SUCCESS: 1 rule files found" in told.stdout


def test_prometheus_scrapes_the_gateway_and_holds_the_rules(tmp_path: Path) -> None:
    file, settings = prometheus_settings(tmp_path)
    (job,) = settings["scrape_configs"]
    assert job["job_name"] == "thinkgate"
    assert job["static_configs"] == [{"targets": [f"gateway:{IMAGE.says['EXPOSE']}"]}]
    (rules,) = settings["rule_files"]
    assert (file.parent / rules).read_text() == (ROOT / "deploy" / "prometheus" / "thinkgate.rules.yaml").read_text()
    told = services("vllm")["prometheus"]
    kept = [word.partition("=")[2] for word in told["command"] if word.startswith("--storage.tsdb.path=")]
    assert kept == [one["target"] for one in told["volumes"] if one["type"] == "volume"]


def test_grafana_finds_its_data_and_every_board(tmp_path: Path) -> None:
    service = services("vllm")["grafana"]
    root = laid_out(service, tmp_path)
    provisioning = root / "etc" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert (source["type"], source["isDefault"], source["access"]) == ("prometheus", True, "proxy")
    address = urlsplit(source["url"])
    (port,) = services("vllm")[str(address.hostname)]["ports"]
    assert address.port == port["target"]
    assert source["jsonData"]["timeInterval"] == prometheus_settings(tmp_path / "p")[1]["global"]["scrape_interval"]

    (provider,) = yaml.safe_load((provisioning / "dashboards" / "thinkgate.yaml").read_text())["providers"]
    place = root / provider["options"]["path"].lstrip("/")
    boards = {file.name: json.loads(file.read_text()) for file in place.iterdir()}
    assert set(boards) == {f"{board.uid}.json" for board in BOARDS}
    home = service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (root / home.lstrip("/")).is_file()
    for board in boards.values():
        (choice,) = [one for one in board["templating"]["list"] if one["type"] == "datasource"]
        assert choice["query"] == source["type"]
        assert "current" not in choice, "a board that names its data source would not find this one"
        named = {found["uid"] for found in sources_in(board)}
        assert named <= {f"${{{choice['name']}}}", "-- Grafana --", source["uid"]}


def sources_in(thing: Any) -> list[dict[str, Any]]:
    """All references to a data source in a board."""
    if isinstance(thing, list):
        return [found for one in thing for found in sources_in(one)]
    if not isinstance(thing, dict):
        return []
    below = [found for value in thing.values() for found in sources_in(value)]
    here = thing.get("datasource")
    return [*below, here] if isinstance(here, dict) else below


def test_nobody_can_log_in_to_grafana() -> None:
    said = services("vllm")["grafana"]["environment"]
    assert said["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert (said["GF_AUTH_DISABLE_LOGIN_FORM"], said["GF_AUTH_BASIC_ENABLED"]) == ("true", "false")


def test_the_readme_knows_every_profile_and_every_port() -> None:
    text = (FOLDER / "README.md").read_text()
    for profile in PROFILES:
        assert f"| `{profile}` |" in text
    for service in services("vllm").values():
        for port in service.get("ports", ()):
            assert f"127.0.0.1:{port['published']}" in text
