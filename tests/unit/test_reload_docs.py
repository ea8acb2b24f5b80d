"""docs/configuration.md says of every part of the configuration what a reload does, as the code does it."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.config import Config
from gateway.configchanges import FIXED
from gateway.configerrors import path_of
from gateway.observe.metrics import Metrics
from gateway.reload import INTERVAL

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
PART = PAGE.split("## Change it while it serves\n")[1].split("\n## ")[0]
ROWS = [row.split("|")[1:3] for row in PART.splitlines() if row.startswith("| ")]


def test_every_section_has_its_row() -> None:
    told = " ".join(what for what, _ in ROWS).replace("pool", "pools")
    assert all(re.search(rf"\b{name}\b", told) for name in Config.model_fields)


def test_what_needs_a_restart_is_named() -> None:
    [row] = [what for what, happens in ROWS if "Needs a restart" in happens]
    assert re.findall(r"`([a-z.]+)`", row)[: len(FIXED)] == [path_of(place) for place in FIXED]
    live = {
        f"server.{key}"
        for what, _ in ROWS
        if what.startswith(" `server`:")
        for key in re.findall(r"`([a-z_]+)`", what)[1:]
    }
    fixed = {path_of(place) for place in FIXED}
    assert live | {key for key in fixed if key.startswith("server.")} == {
        f"server.{key}" for key in Config.model_fields["server"].annotation.model_fields
    }


def test_its_series_exist_and_its_numbers_hold() -> None:
    known = {family.name for family in Metrics().registry.collect()}
    named = re.findall(r"`(thinkgate_[a-z_]+)", PART)
    assert len(named) >= 3
    assert {name.removesuffix("_total") for name in named} <= known
    assert INTERVAL == 1
    assert "within two seconds or so" in PART
    assert "every second" in PART
