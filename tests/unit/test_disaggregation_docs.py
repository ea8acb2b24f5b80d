"""docs/disaggregation.md: its numbers, keys, names and series are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from prometheus_client import Counter, Histogram

from gateway.api.prompts import MOST
from gateway.attempts import ATTEMPTS
from gateway.configfile import parse
from gateway.confighandoff import Disaggregation, HandOffKind, PrefillWorker
from gateway.observe.metrics import Metrics
from gateway.pools.breaker import OPEN_FOR
from gateway.pools.handoff.beside import CONFIRMED_WITHIN
from gateway.pools.handoff.pairing import EDGE_FAILS
from gateway.pools.handoff.prompts import ALONE
from gateway.pools.handoff.pull import LONG_LEASE
from gateway.pools.retries import SHARE
from tests.unit.test_epd_rows import TESTS

ROOT = TESTS.parent
PAGE = (ROOT / "docs" / "disaggregation.md").read_text(encoding="utf-8")
SETTINGS = {**Disaggregation.model_fields, **PrefillWorker.model_fields}


def rows(heading: str) -> list[list[str]]:
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"][2:]


def failures() -> dict[str, str]:
    return {row[0]: row[1] for row in rows("When something fails")}


def test_the_example_is_a_right_configuration() -> None:
    example = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0]
    assert yaml.safe_load(example)["pools"]["reasoning"]["disaggregation"]["handoff"] == "nixl"
    parse(example, name="thinkgate.yaml", base=Path(), env={})


def test_every_hand_off_has_its_flags_and_stands_in_the_example() -> None:
    told = {row[0] for row in rows("The workers' flags")}
    assert told == {f"`{kind}`" for kind in HandOffKind} | {"encoders (vLLM)"}
    assert f"# {', '.join(HandOffKind)}" in PAGE


def test_the_keys_that_are_named_exist() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?:: \w+)?`", PAGE))
    named = {name for name in named if not name.startswith("thinkgate_")} - {"troubled_pairs", "prompt_logprobs"}
    assert named <= set(SETTINGS), named - set(SETTINGS)
    assert {"local_below", "without_prefill", "if_missing", "kv_host", "engine_id", "encode_batch"} <= named


def test_the_numbers_are_those_of_the_code() -> None:
    defaults = {name: field.default for name, field in SETTINGS.items()}
    assert f"`local_below` ({defaults['local_below']}) tokens" in PAGE
    assert f"or {CONFIRMED_WITHIN:g} s later" in PAGE
    assert f"`VLLM_MOONCAKE_BOOTSTRAP_PORT` ({defaults['bootstrap_port']})" in PAGE
    assert f"--disaggregation-bootstrap-port {defaults['bootstrap_port']}" in PAGE
    assert f"at most {MOST} of them" in PAGE
    told = failures()
    assert f"After {EDGE_FAILS} failures in a row" in told["two workers fail with each other"]
    assert f"after {OPEN_FOR:g} s" in told["two workers fail with each other"]
    assert f"above {LONG_LEASE:g} s" in told["the client leaves"]
    assert f"at most {ATTEMPTS} attempts" in told["a prefill worker refuses the connection, breaks off, answers 5xx"]
    assert SHARE == 1 / 5
    assert "a fifth of the requests" in told["no prefill worker is ready"]


def test_what_only_one_worker_can_answer_is_among_what_is_named() -> None:
    told = re.search(r"only one worker can answer \(([^)]+)\)", PAGE)
    assert told is not None
    assert set(re.findall(r"`(\w+)`", told[1])) <= ALONE


def test_the_series_are_those_that_are_told() -> None:
    told = {row[0].strip("`"): row[1] for row in rows("What to watch")}
    metrics = Metrics()
    kept = [metrics.handoffs, metrics.handoff_seconds, metrics.handoff_tokens, metrics.orphaned_prefill_seconds]
    names = {
        f"{one._name}_total" if isinstance(one, Counter) else one._name
        for one in kept
        if isinstance(one, Counter | Histogram)
    }
    assert set(told) == names
    text = metrics.handoffs._documentation
    for result in re.findall(r"`(\w+)`", told["thinkgate_handoffs_total"]):
        assert result in text
