"""docs/pools.md names every state, cause, policy and series, and every number as it is in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.attempts import ATTEMPTS
from gateway.closing import LAST_WORD
from gateway.config import Health, SelectionPolicy, Server, Timeouts
from gateway.edge.errors import MAX_RETRY_AFTER
from gateway.engines import llamacpp, sglang, vllm
from gateway.observe.metrics import Metrics
from gateway.pools import State, breaker, canary, departures, membership, pace, pressure, retries, roster, selection
from gateway.pools.roster import Cause
from gateway.pools.verdict import Kind

PAGE = (Path(__file__).parents[2] / "docs" / "pools.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.split())


def rows(heading: str) -> list[str]:
    """The first column of the table under a heading."""
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([a-z_]+)` \|", table, re.M)


def test_every_state_cause_and_policy_has_its_row() -> None:
    assert rows("The life of a worker") == [*State]
    assert sorted(rows("Why a worker is ejected")) == sorted(Cause)
    assert rows("Who serves a request")[1 : 1 + len(SelectionPolicy)] == [*SelectionPolicy]
    assert all(f"`{kind}`" in PAGE for kind in Kind)


def test_no_request_is_given_less_than_half_an_hour_to_think() -> None:
    assert Timeouts().total >= 1_800
    assert rows("Deadlines") == ["connect", "queue", "first_token", "idle", "thought", "total"]
    assert sorted(rows("Deadlines")) == sorted(Timeouts.model_fields)


def test_the_series_it_names_exist() -> None:
    known = {f"{name}{'_total' if kind == 'counter' else ''}" for name, kind in _families(Metrics())}
    named = set(re.findall(r"`(thinkgate_[a-z_]+)`", PAGE))
    assert named <= known
    assert {name for name in known if "worker" in name} - named <= {
        "thinkgate_worker_floods_total",
    }


def _families(metrics: Metrics) -> list[tuple[str, str]]:
    return [(family.name, family.type) for family in metrics.registry.collect()]


@pytest.mark.parametrize(
    "told",
    [
        f"`health.interval` ({Health().interval:g} s)",
        f"`health.warm_up` ({Health().warm_up:g} s)",
        f"`health.slow_start` ({Health().slow_start:g} s)",
        f"`health.failures` ({Health().failures}) polls",
        f"generation of {canary.TOKENS} tokens",
        f"gets {roster.FIRST_SHARE:.0%} of its share",
        f"| {breaker.THRESHOLD} requests in a row failed, each within {breaker.MEMORY:g} s of the one before",
        f"after the same {breaker.OPEN_FOR:g} to {breaker.LONGEST:g} s one client's request tries each again",
        f"after {breaker.OPEN_FOR:g} s, doubling up to {breaker.LONGEST:g} s",
        f"after {breaker.UNREACHABLE_FOR:g} s, doubling up to {breaker.LONGEST:g} s",
        f"after {roster.SICK_FOR:g} s",
        f"after {pace.EJECTED_FOR:g} windows (30 s), doubling up to {pace.LONGEST:g} (600 s)",
        f"Each `health.pace_window` ({Health().pace_window:g} s) the characters",
        f"{pace.WINDOWS} windows in a row; in pools of {pace.LEAST_POOL} and more",
        f"no more than {selection.BOUND} of its share of the requests and its KV cache is below {selection.FULL:.0%}",
        f"older than {pressure.STALE_AFTER} polls",
        f"({MAX_RETRY_AFTER} s at most; {roster.UNTOLD_PAUSE:g} s in which",
        f"at most {ATTEMPTS} launches",
        f"within {retries.WINDOW:g} s no more than {retries.SHARE:.0%} of the pool's traffic ({retries.ALWAYS} are",
        f"looked up every {membership.INTERVAL:g} s",
        *(
            f"| `{name}` | {getattr(Timeouts(), name):g} |"
            for name in ("connect", "queue", "first_token", "idle", "total")
        ),
        f"has `server.drain` ({Server().drain:g} s) to finish",
        f"seen to stop ({departures.LAST_LOOK:g} s at most), and for clients to take their last word ({LAST_WORD:g}",
        f"missing {membership.MISSES} times in a row",
        f"up to `timeouts.queue` {'' if Timeouts().queue else 'never '}for the first",
    ],
)
def test_numbers_are_those_of_the_code(told: str) -> None:
    assert told in FLAT


@pytest.mark.parametrize("series", [vllm.LOAD, sglang.LOAD, llamacpp.LOAD])
def test_engines_are_read_where_it_says(series: object) -> None:
    names = re.findall(r"(?:vllm|sglang|llamacpp):\w+", str(series))
    assert names
    assert all(f"`{name}`" in PAGE for name in names if "ratio" not in name)
