"""The schema, the reference and the examples say what the code does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gateway import configdocs
from gateway.config import EngineKind, embedded_default
from gateway.configfile import ConfigError, json_schema, load, parse
from gateway.configschema import tables
from gateway.edge.keys import hash_key

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "deploy" / "examples").glob("*.yaml"))
REGENERATE = "run `python -m gateway.configdocs docs`"


def test_the_committed_schema_is_the_code_s() -> None:
    committed = (ROOT / "docs" / "thinkgate.schema.json").read_text(encoding="utf-8")
    assert committed == configdocs.render_schema(), REGENERATE


def test_the_reference_is_the_code_s() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    by_hand, marker, made = page.partition(configdocs.MARKER)
    assert marker
    assert len(by_hand) > 1000
    assert made == "\n\n" + configdocs.render_reference(), REGENERATE


def test_regenerating_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "configuration.md"
    page.write_text(f"# by hand\n\n{configdocs.MARKER}\nold", encoding="utf-8")
    configdocs.write(tmp_path)
    first = page.read_text(encoding="utf-8")
    configdocs.write(tmp_path)
    assert first == page.read_text(encoding="utf-8")
    assert first.startswith("# by hand\n\n" + configdocs.MARKER)
    assert "old" not in first.splitlines()


@pytest.mark.parametrize(("name", "schema"), [pytest.param(*table, id=table[0]) for table in tables()])
def test_every_key_is_documented(name: str, schema: dict[str, Any]) -> None:
    undocumented = [key for key, field in schema["properties"].items() if not field.get("description")]
    assert not undocumented
    assert f"### {name}\n" in configdocs.render_reference()


def test_the_error_in_the_page_is_the_one_that_people_see() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    sample = page.split("```yaml\n")[1].split("```")[0]
    parse(sample, name="thinkgate.yaml", base=ROOT, env={})
    with pytest.raises(ConfigError) as caught:
        parse(sample.replace("vllm", "vlm").replace("workers", "worker"), name="thinkgate.yaml", base=ROOT, env={})
    assert f"```\n{caught.value}\n```" in page


def schema_errors(document: Any) -> list[str]:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    validator: Any = jsonschema.Draft202012Validator(json_schema())
    return [error.message for error in validator.iter_errors(document)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_loads_and_follows_the_schema(path: Path) -> None:
    config = load(path, {"TEAM_KEY_HASH": hash_key("x")})
    assert config.pools
    assert schema_errors(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_the_examples_are_what_they_say() -> None:
    assert {path.stem for path in EXAMPLES} >= {"vllm", "sglang", "two-pools", "embedded"}
    assert load(ROOT / "deploy" / "examples" / "embedded.yaml", {}) == embedded_default()
    two = load(ROOT / "deploy" / "examples" / "two-pools.yaml", {"TEAM_KEY_HASH": hash_key("x")})
    assert two.pools["reasoning"].engine is EngineKind.SGLANG
    assert two.pools["standard"].engine is EngineKind.VLLM
    with pytest.raises(ConfigError, match="not set in the environment: `TEAM_KEY_HASH`"):
        load(ROOT / "deploy" / "examples" / "two-pools.yaml", {})


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({"server": {"port": "${PORT:-1}"}}, True),
        ({"server": {"port": "80"}}, False),
        ({"server": {"prot": 80}}, False),
        ({"keys": [{"alias": "a", "hash": "file:team"}]}, True),
        ({"keys": [{"alias": "a", "hash": "tg-the-key-itself"}]}, False),
        ({"logs": {"level": "file:x"}}, False),
        ({"reasoning_output": "${OUT}"}, True),
        ({"reasoning_output": "out"}, False),
        ({"pools": {}}, False),
    ],
)
def test_an_editor_sees_what_the_gateway_would_say(change: dict[str, Any], valid: bool) -> None:
    pool = {"model": "m", "engine": "vllm", "workers": ["http://a"]}
    assert (schema_errors({"pools": {"p": pool}, **change}) == []) is valid


def test_the_schema_says_what_it_is() -> None:
    schema = json.loads(configdocs.render_schema())
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "thinkgate.yaml"
    assert schema["description"]
