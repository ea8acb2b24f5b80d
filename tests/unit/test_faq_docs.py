"""docs/faq.md and docs/upgrade.md: versions, numbers and denials are the code's."""

from __future__ import annotations

import re
from typing import Final

import pytest

from budgets.open_call import PATIENCE
from gateway.config import Config, EngineKind, Health, Router, Server
from gateway.configchanges import FIXED
from gateway.observe import metricsdocs
from gateway.opinions import REMEMBERED
from gateway.pools.canary import TOKENS
from parsers import FORMATS
from tests.engines.install_vllm import VLLM
from tests.engines.sglang_flags import SGLANG
from tests.pages import ROOT

PAGES: Final = {
    name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("faq", "upgrade", "http", "routing")
}
FLAT: Final = {name: " ".join(text.split()) for name, text in PAGES.items()}
SHIPPED: Final = [path for room in ("gateway", "router", "budgets", "parsers") for path in (ROOT / room).rglob("*.py")]
CARD: Final = (ROOT / "router" / "MODEL_CARD.md").read_text(encoding="utf-8")
PROJECT: Final = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
HELPERS: Final = (ROOT / "deploy" / "helm" / "thinkgate" / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
[LAG] = re.findall(r'define "thinkgate\.lag" -}}(\d+)\{', HELPERS)


def accuracy(of: str) -> str:
    """Of the held-out handwritten asks, two digits."""
    [figure] = re.findall(rf"^\| — {of} \| \d+ \| (0\.\d+)", CARD.split("**crossed, held-out templates**")[0], re.M)
    return f"{float(figure):.2f}"


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("faq", f"the last {REMEMBERED:,} request ids"),
        ("faq", f"| `vllm` | vLLM {VLLM} |"),
        ("faq", f"| `sglang` | SGLang {SGLANG} |"),
        ("faq", f"xllamacpp {re.findall('xllamacpp==([0-9.]+)', PROJECT)[0]} |"),
        ("faq", f"to its end, {PATIENCE:,} tokens past the cap at most"),
        ("faq", f"else some milliseconds, {Router().deadline * 1000:g} by `router.deadline`, somewhat more"),
        ("faq", f"accuracy {accuracy('other languages')} against {accuracy('English')} in English"),
        ("upgrade", f"`server.drain` ({Server().drain:g} s)"),
        (
            "upgrade",
            f"serves on for {LAG} s, then drains; Kubernetes waits for those {LAG} s, `server.drain` and half a",
        ),
        ("upgrade", f"the last {REMEMBERED:,} requests"),
        ("upgrade", f"a generation of {TOKENS} tokens"),
        ("upgrade", f"`health.slow_start` ({Health().slow_start:g} s)"),
        ("upgrade", "Only `server.host`, `server.port`, `server.drain`, `embedded` and `tracing` need a restart"),
    ],
)
def test_a_number_is_that_of_the_code(page: str, told: str) -> None:
    assert told in FLAT[page]


def test_every_engine_has_its_row() -> None:
    table = PAGES["faq"].split("| `engine` |")[1].split("\n\n")[0]
    rows = [line.split(" | ")[0] for line in table.splitlines()]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(EngineKind)


def test_what_needs_a_restart_is_what_is_told() -> None:
    assert [".".join(map(str, place)) for place in FIXED] == [
        "server.host",
        "server.port",
        "server.drain",
        "embedded",
        "tracing",
    ]


def test_what_it_denies_is_not_there() -> None:
    """Redis, quotas, and other vendors' doors: when one comes, these answers have to be written anew."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in SHIPPED).lower()
    assert "import redis" not in code
    assert not {"redis", "limits", "quotas"} & {*Config.model_fields, *Server.model_fields}
    assert "/v1/responses" not in code
    assert "/v1/messages" not in code
    assert "There is no `/v1/responses` and no `/v1/messages`" in FLAT["http"]


def test_some_fifty_formats_are_known() -> None:
    """As the README says too."""
    assert 45 <= len(FORMATS) <= 55


def test_series_they_name_exist() -> None:
    named = {name for page in ("faq", "upgrade") for name in re.findall(r"`(thinkgate_\w+)", PAGES[page])}
    assert named <= set(metricsdocs.families())


def test_tests_they_name_exist() -> None:
    for path in re.findall(r"`(tests/[\w/]+\.py)`", PAGES["faq"]):
        assert (ROOT / path).is_file(), path
