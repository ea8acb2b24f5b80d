"""docs/proxies.md and deploy/nginx: their numbers are those of the code and of each other, their YAML is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.config import Server, Timeouts
from gateway.configfile import parse
from gateway.edge.request_id import LONGEST
from gateway.server import KEEP_ALIVE
from tests import kube

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "proxies.md").read_text(encoding="utf-8")
FILE: Final = (ROOT / "deploy" / "nginx" / "thinkgate.conf").read_text(encoding="utf-8")
BLOCKS: Final[list[Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]
SERVER, TIMEOUTS = Server(), Timeouts()


def of_nginx(directive: str) -> str:
    """What the file sets, of which there must be one."""
    (found,) = re.findall(rf"^\s*{directive} ([^;]+);", FILE, re.M)
    return found


def seconds(value: str) -> float:
    return float(value.removesuffix("s"))


def object_of(kind: str) -> dict[str, Any]:
    (found,) = [block for block in BLOCKS if block.get("kind") == kind]
    return found


def test_every_block_of_yaml_is_known_here() -> None:
    assert [block.get("kind") or next(iter(block)) for block in BLOCKS] == [
        "pools", "static_resources", "HTTPRoute", "Ingress", "ConfigMap"
    ]  # fmt: skip


def test_what_is_told_of_the_gateway_is_so() -> None:
    told = PAGE.split("What a proxy needs to know")[1].split("\n## ")[0]
    assert f"| {SERVER.keep_alive_comment:g} s (`server.keep_alive_comment`)" in told
    assert f"after | {TIMEOUTS.total:g} s at most" in told
    assert f"after | {KEEP_ALIVE} s. " in told
    assert f"| {SERVER.body_limit_mib:g} MiB" in told
    assert f"for | {SERVER.drain:g} s" in told
    assert f"if it has 1 to {LONGEST} letters" in told
    assert f"waits {SERVER.body_timeout:g} s for a body (`server.body_timeout`)" in " ".join(PAGE.split())


def test_nginx_agrees_with_the_gateway() -> None:
    assert of_nginx("client_max_body_size") == f"{SERVER.body_limit_mib:g}m"
    assert f"larger than {int(SERVER.body_limit_mib * 1024 * 1024)} bytes" in FILE
    assert seconds(of_nginx("proxy_read_timeout")) > TIMEOUTS.total
    assert SERVER.keep_alive_comment < seconds(of_nginx("keepalive_timeout")) < KEEP_ALIVE
    assert "non_idempotent" not in of_nginx("proxy_next_upstream")


def test_every_directive_of_the_file_is_explained_with_its_value() -> None:
    table = PAGE.split("| directive | why |")[1].split("\n\n")[0]
    explained = " ".join(re.findall(r"^\| (.*?) \|", table, re.M))
    plain = {"listen", "server", "server_name", "proxy_pass", "access_log", "default_type", "return", "add_header"}
    for name, value in re.findall(r"^\s+([a-z_]+) ([^{};]+);", FILE, re.M):
        if name in plain or name == "default":
            continue
        if name == "proxy_set_header":
            assert value.split()[0] == "Host" or f"`{value.split()[0]}" in explained, value
        elif name in {"keepalive", "zone", "error_page"}:
            assert f"`{name}`" in explained, name
        else:
            assert f"`{name} {value}`" in explained, name


def test_the_pool_for_an_impatient_proxy_is_a_right_configuration() -> None:
    text = yaml.safe_dump({**BLOCKS[0], "routes": {}})
    total = parse(text, name="thinkgate.yaml", base=Path(), env={}).pools["reasoning"].timeouts.total
    assert f"Cloudflare waits {120} s" in PAGE
    assert total < 120


def test_envoy_has_no_end_of_its_own_and_closes_first() -> None:
    resources = BLOCKS[1]["static_resources"]
    manager = resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    route = manager["route_config"]["virtual_hosts"][0]["routes"][0]
    assert route["match"] == {"prefix": "/v1/"}
    assert route["route"]["timeout"] == "0s"
    assert "retry_policy" not in str(manager)
    assert seconds(manager["stream_idle_timeout"]) > TIMEOUTS.total
    (options,) = resources["clusters"][0]["typed_extension_protocol_options"].values()
    assert seconds(options["common_http_protocol_options"]["idle_timeout"]) < KEEP_ALIVE


def test_kubernetes_would_take_its_objects() -> None:
    kube.check(object_of("Ingress"))
    kube.check(object_of("ConfigMap"))
    (rule,) = object_of("HTTPRoute")["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    assert seconds(object_of("ConfigMap")["data"]["worker-shutdown-timeout"]) > TIMEOUTS.total


def test_the_ingress_says_what_the_file_says() -> None:
    annotations = object_of("Ingress")["metadata"]["annotations"]
    told = {
        name.removeprefix("nginx.ingress.kubernetes.io/").replace("-", "_"): value
        for name, value in annotations.items()
    }
    assert float(told.pop("proxy_read_timeout")) == seconds(of_nginx("proxy_read_timeout"))
    assert told.pop("proxy_body_size") == of_nginx("client_max_body_size")
    assert told == {name: of_nginx(name) for name in told}
    assert set(told) == {"proxy_buffering", "proxy_next_upstream"}


def test_haproxy_waits_long_enough() -> None:
    (shown,) = re.findall(r"```haproxy\n(.*?)```", PAGE, re.S)
    for side in ("client", "server"):
        (found,) = re.findall(rf"timeout {side} (\S+)", shown)
        assert seconds(found) > TIMEOUTS.total


def test_links_within_the_project_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        if not target.startswith("http"):
            assert (ROOT / "docs" / target).exists(), target
