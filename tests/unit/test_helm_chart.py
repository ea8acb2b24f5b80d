"""The chart, rendered by Helm's own engine: what it makes is valid and safe, and says what the project says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana.boards import BOARDS
from gateway import configfile
from gateway.config import Config, Server
from gateway.observe.metrics import Metrics
from tests.helm import CHART, HASH, LEAST, ROOT, files_of, helm_python, one, rendered

ALL = LEAST | {
    "serviceMonitor": {"enabled": True, "labels": {"release": "kube-prometheus"}},
    "prometheusRule": {"enabled": True, "runbookBase": "https://git.example/thinkgate/"},
    "dashboards": {"enabled": True},
    "autoscaling": {"by": "keda"},
    "prometheus": "http://prometheus:9090",
    "engineScaling": [
        {"name": "engine-r1", "pool": "reasoning", "min": 1, "max": 4},
        {"name": "other", "kind": "StatefulSet", "pool": "reasoning", "min": 1, "max": 2, "kv": 0.5, "waiting": 2},
    ],
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "apps"}}}],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "engine"}}}], "ports": [{"port": 8000}]}],
    },
    "nodeSelector": {"pool": "cpu"},
    "tolerations": [{"key": "cpu", "operator": "Exists"}],
    "imagePullSecrets": ["registry"],
    "service": {"annotations": {"a": "b"}},
}


def pod(values: dict[str, Any]) -> dict[str, Any]:
    return one("Deployment", values)["spec"]["template"]["spec"]


def config_of(values: dict[str, Any], folder: Path) -> Config:
    """As the gateway finds it in its pod: thinkgate.yaml, with the Secret's files beside it."""
    text = {thing["metadata"]["name"]: thing for thing in rendered(values) if thing["kind"] == "ConfigMap"}
    file = folder / "thinkgate.yaml"
    file.write_text(text["demo-thinkgate"]["data"]["thinkgate.yaml"])
    for name, value in values["secret"]["values"].items():
        (folder / name).write_text(value)
    return configfile.load(file, {})


@pytest.mark.parametrize("values", [LEAST, ALL, ALL | {"autoscaling": {"by": "hpa"}}], ids=["least", "all", "hpa"])
def test_every_object_is_valid_and_the_chart_lints(values: dict[str, Any]) -> None:
    kinds = {thing["kind"] for thing in rendered(values)}
    assert {"Deployment", "Service", "ConfigMap", "Secret", "NetworkPolicy", "PodDisruptionBudget"} <= kinds
    assert not kinds & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount"}
    report = helm_python.lint(str(CHART), values, strict=True)
    assert report["errors"] == []
    assert [told for told in report["messages"] if told["severity"] > 1] == []


def test_all_is_there_when_asked_for() -> None:
    kinds = [thing["kind"] for thing in rendered(ALL)]
    assert kinds.count("ScaledObject") == 3
    assert kinds.count("ConfigMap") == 1 + len(BOARDS)
    assert {"ServiceMonitor", "PrometheusRule"} <= set(kinds)
    assert "HorizontalPodAutoscaler" in {thing["kind"] for thing in rendered(ALL | {"autoscaling": {"by": "hpa"}})}


def test_the_gateway_reads_its_file(tmp_path: Path) -> None:
    values = LEAST | {
        "config": LEAST["config"]
        | {
            "server": {"body_limit_mib": 2.5, "drain": 900},
            "pools": {
                "reasoning": {
                    "model": "on",  # a word that YAML takes for true
                    "engine": "vllm",
                    "workers": ["http://engine:8000"],
                    "thinking": {"max_cap": 1_000_000, "closing_phrase": "\n\nEnough.\n"},
                }
            },
        }
    }
    config = config_of(values, tmp_path)
    assert (config.server.host, config.server.port, config.logs.format) == ("0.0.0.0", 8080, "json")
    assert config.server.body_limit_mib == 2.5
    assert config.keys[0].hash == HASH
    pool = config.pools["reasoning"]
    assert (pool.model, pool.thinking.max_cap, pool.thinking.closing_phrase) == ("on", 1_000_000, "\n\nEnough.\n")
    text = config_of(LEAST | {"config": LEAST["config"] | {"logs": {"format": "pretty"}}}, tmp_path)
    assert text.logs.format == "pretty"


def test_files_of_the_secret_lie_beside_the_configuration() -> None:
    (settings,) = [volume for volume in pod(LEAST)["volumes"] if volume["name"] == "settings"]
    assert [next(iter(source)) for source in settings["projected"]["sources"]] == ["configMap", "secret"]
    (container,) = pod(LEAST)["containers"]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "settings"]
    assert container["command"] == ["thinkgate", "serve", "--config", f"{mount['mountPath']}/thinkgate.yaml"]
    mine = LEAST | {"secret": {"existing": "mine"}}
    assert {"secret": {"name": "mine"}} in pod(mine)["volumes"][0]["projected"]["sources"]
    assert "Secret" not in {thing["kind"] for thing in rendered(mine)}


@pytest.mark.parametrize("drain", [None, 30, 1234.5])
def test_kubernetes_waits_for_the_drain(drain: float | None) -> None:
    values = LEAST | {"config": LEAST["config"] | ({"server": {"drain": drain}} if drain else {})}
    lag = pod(values)["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    least = lag + (drain or Server().drain)
    assert least + 20 < pod(values)["terminationGracePeriodSeconds"] < least + 40


def test_no_rights_no_root_and_nothing_to_write_to() -> None:
    spec = pod(LEAST)
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [volume["name"] for volume in spec["volumes"] if "emptyDir" in volume] == ["tmp"]


@pytest.mark.parametrize("egress", [[], ALL["networkPolicy"]["egress"]], ids=["anywhere", "named"])
def test_names_are_found_also_where_dns_is_local_to_the_node(egress: list[dict[str, Any]]) -> None:
    dns, *others = one("NetworkPolicy", LEAST | {"networkPolicy": {"egress": egress}})["spec"]["egress"]
    assert dns == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}, "to anywhere"
    if egress:
        assert others == egress
    else:
        (blocks,) = others
        assert [set(told["ipBlock"]["except"]) for told in blocks["to"]] == [{"169.254.0.0/16"}, {"fe80::/10"}]


def test_a_slow_start_is_waited_for_and_engines_kill_no_gateway() -> None:
    (container,) = pod(LEAST)["containers"]
    startup, liveness = container["startupProbe"], container["livenessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 120
    assert startup["httpGet"]["path"] == liveness["httpGet"]["path"] == "/livez"
    assert liveness["failureThreshold"] >= 3
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 8080}


def test_a_change_that_is_taken_over_rolls_no_pod() -> None:
    def annotations(**config: Any) -> dict[str, str]:
        values = LEAST | {"config": LEAST["config"] | config}
        return one("Deployment", values)["spec"]["template"]["metadata"]["annotations"]

    before = annotations()
    assert annotations(reasoning_output="both") == before
    assert annotations(server={"body_timeout": 5}) == before
    assert annotations(server={"drain": 5}) != before
    assert annotations(tracing={"sample": 0.5}) != before
    assert annotations(embedded={"threads": 2}) != before


def test_rules_and_boards_are_the_ones_of_the_repository() -> None:
    things = rendered(ALL)
    (rule,) = [thing for thing in things if thing["kind"] == "PrometheusRule"]
    text = (ROOT / "deploy" / "prometheus" / "thinkgate.rules.yaml").read_text()
    based = text.replace("runbook_url: docs/", "runbook_url: https://git.example/thinkgate/docs/")
    assert based != text
    assert rule["spec"] == yaml.safe_load(based)
    assert one("PrometheusRule", ALL | {"prometheusRule": {"enabled": True}})["spec"] == yaml.safe_load(text)
    boards = {
        name: json.loads(board)
        for thing in things
        if thing["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, board in thing["data"].items()
    }
    committed = {file.name: json.loads(file.read_text()) for file in (ROOT / "deploy" / "grafana").glob("*.json")}
    assert boards == committed


def test_a_packaged_chart_has_what_its_links_lead_to(tmp_path: Path) -> None:
    with helm_python.Chart.load(str(CHART)) as chart:
        archive = chart.save(str(tmp_path))
    with helm_python.Chart.load(archive) as chart:
        files: dict[str, str] = chart.render(ALL, name="demo", namespace="llm")
    for name in ("prometheusrule", "dashboards"):
        path = f"thinkgate/templates/{name}.yaml"
        packaged = [thing for thing in yaml.safe_load_all(files[path]) if thing]
        kind = packaged[0]["kind"]
        names = {thing["metadata"]["name"] for thing in packaged}
        here = [thing for thing in rendered(ALL) if thing["kind"] == kind and thing["metadata"]["name"] in names]
        assert packaged == here


def test_what_keda_asks_for_is_there(tmp_path: Path) -> None:
    scaled = [thing["spec"] for thing in rendered(ALL) if thing["kind"] == "ScaledObject"]
    queries = [trigger["metadata"]["query"] for spec in scaled for trigger in spec["triggers"]]
    assert len(queries) == 5
    known = {family.name for family in Metrics().registry.collect()}
    for query in queries:
        assert set(re.findall(r"thinkgate_[a-z_]+", query)) <= known
    if promtool := shutil.which("promtool"):
        rules = [{"record": f"keda:{number}", "expr": query} for number, query in enumerate(queries)]
        file = tmp_path / "rules.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "keda", "rules": rules}]}))
        told = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr


def test_only_one_thing_decides_how_many() -> None:
    assert one("Deployment", LEAST | {"replicas": 3})["spec"]["replicas"] == 3
    assert "replicas" not in one("Deployment", ALL)["spec"]


def test_selectors_find_the_pods_and_nobody_elses() -> None:
    things = rendered(ALL)
    labels = one("Deployment", ALL)["spec"]["template"]["metadata"]["labels"]
    service = one("Service", ALL)
    found = {
        "service": service["spec"]["selector"],
        "policy": one("NetworkPolicy", ALL)["spec"]["podSelector"]["matchLabels"],
        "budget": one("PodDisruptionBudget", ALL)["spec"]["selector"]["matchLabels"],
    }
    for selector in found.values():
        assert selector.items() <= labels.items()
        assert selector["app.kubernetes.io/instance"] == "demo"
    monitor = one("ServiceMonitor", ALL)["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert len({(thing["kind"], thing["metadata"]["name"]) for thing in things}) == len(things)


def test_a_release_that_is_called_thinkgate_is_not_called_so_twice() -> None:
    assert one("Service", LEAST, "thinkgate")["metadata"]["name"] == "thinkgate"


@pytest.mark.parametrize("port", [80, 8443])
def test_what_is_said_after_an_install_is_so(port: int) -> None:
    values = LEAST | {"service": {"port": port}, "config": LEAST["config"] | {"server": {"drain": 900}}}
    said = files_of(values)["thinkgate/templates/NOTES.txt"]
    service, (listens,) = one("Service", values), one("Service", values)["spec"]["ports"]
    name = service["metadata"]["name"]
    assert listens["port"] == port
    assert f"thinkgate serves http://{name}.llm:{port}/v1 once" in said
    assert f"kubectl -n llm get endpoints {name}\n" in said
    assert f"kubectl -n llm port-forward svc/{name} 8080:{port}\n" in said
    assert "A pod that leaves has 900 s to end" in said
    assert "{{" not in said
