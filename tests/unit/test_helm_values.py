"""Values of the chart: what is wrong is refused by Helm itself, with the key named, and every key is in the README."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import pytest
import yaml

from deploy.engines.recipes import HERE, RECIPES
from deploy.helm import schema
from gateway import configfile
from tests.helm import CHART, LEAST, helm_python, rendered


def with_value(path: str, value: Any) -> dict[str, Any]:
    values = deepcopy(LEAST)
    *parents, last = path.split(".")
    place = values
    for key in parents:
        place = place.setdefault(key, {})
    place[last] = value
    return values


def refusal(values: dict[str, Any]) -> str:
    with helm_python.Chart.load(str(CHART)) as chart, pytest.raises(helm_python.HelmError) as refused:
        chart.render(values, name="demo", namespace="llm")
    return str(refused.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", "2"),
        ("replicas", 0),
        ("replica", 2),
        ("image.repository", ""),
        ("image.repository", "registry/thinkgate:latest"),
        ("image.pullPolicy", "Sometimes"),
        ("service.port", 70_000),
        ("serviceMonitor.enabled", "yes"),
        ("autoscaling.by", "magic"),
        ("prometheusRule.runbookBase", "not an address"),
        ("secret.values.team", 5),
        ("secret.values", {"thinkgate.yaml": "x"}),
        ("secret.values", {"a/b": "x"}),
        ("resources.limits.memory", "two gigabytes"),
        ("config.server.host", "127.0.0.1"),
        ("config.server.port", 9000),
        ("config.server.drain", "long"),
        ("config.server.drain", "${DRAIN}"),
        ("config.pools.reasoning.engine", "vlllm"),
        ("config.pools.reasoning.workers", []),
        ("config.pools.reasoning.thinking.max_cap", "many"),
        ("config.pools.reasoning.thinkin", {}),
        ("config.pools", {}),
        ("config.keys", []),
        ("engineScaling", [{"name": "engine", "pool": "reasoning", "min": 0, "max": 2}]),
    ],
)
def test_wrong_values_are_refused_by_name(path: str, value: Any) -> None:
    said = refusal(with_value(path, value))
    parent, _, last = path.rpartition(".")
    there, above = (f"'/{name.replace('.', '/')}" if name else "'" for name in (path, parent))
    assert there in said or f"{above}': additional properties '{last}' not allowed" in said, said


def test_a_pool_without_workers_and_a_gateway_without_keys() -> None:
    pool = with_value("config.pools.reasoning", {"model": "r1", "engine": "vllm"})
    assert "/config/pools/reasoning': missing property 'workers'" in refusal(pool)
    without = deepcopy(LEAST)
    del without["config"]["keys"]
    assert "/config': missing property 'keys'" in refusal(without)
    without["config"]["server"] = {"allow_open": False}
    assert "/config': missing property 'keys'" in refusal(without)
    without["config"]["server"] = {"allow_open": True}
    assert rendered(without)
    del without["config"]["pools"]
    assert "/config': missing property 'pools'" in refusal(without)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"secret": {"existing": "mine", "values": {"a": "b"}}}, "secret.values and secret.existing"),
        ({"autoscaling": {"by": "hpa", "min": 5, "max": 2}}, "autoscaling.min is above autoscaling.max"),
        ({"autoscaling": {"by": "keda"}}, "prometheus: KEDA needs the address"),
        ({"engineScaling": [{"name": "e", "pool": "other", "min": 1, "max": 2}]}, 'there is no pool "other"'),
        ({"engineScaling": [{"name": "e", "pool": "reasoning", "min": 3, "max": 2}]}, "of e, min is above max"),
    ],
)
def test_values_that_disagree(more: dict[str, Any], said: str) -> None:
    assert said in refusal(LEAST | more)


def test_the_schema_is_the_one_that_is_made() -> None:
    assert schema.FILE.read_text() == schema.render(), "run `make docs`"


def test_every_key_is_in_the_readme_with_its_default() -> None:
    readme = (CHART / "README.md").read_text()
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \|", readme, re.MULTILINE))
    own = json.loads(schema.OWN.read_text())["properties"]
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    opaque = {"config", "nodeSelector", "resources"}
    expected: dict[str, Any] = {}
    for key, field in own.items():
        if "properties" in field and key not in opaque:
            assert set(defaults[key]) == set(field["properties"]), key
            expected |= {f"{key}.{name}": defaults[key][name] for name in field["properties"]}
        elif key != "global":
            expected[key] = defaults[key]
    expected |= dict.fromkeys(own["engineScaling"]["items"]["properties"])
    assert set(rows) == set(expected)
    for key, value in expected.items():
        if key not in {*opaque, "image.repository", "dashboards.labels"} and value is not None:
            assert rows[key] == f"`{value if isinstance(value, str) and value else json.dumps(value)}`", key


def test_the_example_in_the_readme_is_taken() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (CHART / "README.md").read_text(), re.DOTALL)
    values = yaml.safe_load(example)
    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name="demo", namespace="llm")
    config = yaml.safe_load(files["thinkgate/templates/configmap.yaml"])["data"]["thinkgate.yaml"]
    secret = values["secret"]["values"]["team-key-hash"]
    taken = config.replace("file:team-key-hash", secret)
    assert configfile.parse(taken, name="thinkgate.yaml", base=CHART, env={}).pools["reasoning"].discover


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_pools_of_the_recipes_are_taken(recipe: str) -> None:
    pools = yaml.safe_load((HERE / recipe / "pool.yaml").read_text())
    assert rendered(LEAST | {"config": LEAST["config"] | pools})
