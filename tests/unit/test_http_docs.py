"""docs/http.md names every path, header and error code that the code has, and none that it has not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.api.explained import RouteTold
from gateway.app import CHAT_PATH, Thinkgate
from gateway.configfile import parse
from gateway.configsource import Source
from gateway.edge.errors import MAX_RETRY_AFTER
from gateway.edge.request_id import LONGEST
from router import Tier
from tests.pages import ROOT

PAGE: Final = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
TREES: Final = {
    path: ast.parse(path.read_text(encoding="utf-8"))
    for room in ("gateway", "budgets")
    for path in sorted((ROOT / room).rglob("*.py"))
}
CONFIG: Final = "pools: {p: {model: m, engine: vllm, workers: ['http://127.0.0.1:9']}}\nrouter: {mode: fast}\n"
FRAMING: Final = {"transfer-encoding"}
"""Read by the client of engines, below what a header means."""


def rows(heading: str) -> list[list[str]]:
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line[:1] == "|"][
        2:
    ]


def named(heading: str) -> set[str]:
    """What stands in backticks in the first column."""
    return {name for row in rows(heading) for name in re.findall(r"`([^`]+)`", row[0])}


def texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def constants() -> dict[str, str]:
    """Names that stand for a text, in any module: `INTERNAL`, and `REQUEST_ID`, as which a `HEADER` is imported."""
    found: dict[str, str] = {}
    of_modules: dict[tuple[str, str], str] = {}
    for path, tree in TREES.items():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                        found[target.id] = of_modules[module, target.id] = node.value.value
    for node in (node for tree in TREES.values() for node in tree.body if isinstance(node, ast.ImportFrom)):
        for name in node.names:
            if name.asname is not None and (text := of_modules.get((node.module or "", name.name))) is not None:
                found[name.asname] = text
    return found


NAMES: Final = constants()


def headers_of(path: Path) -> Iterator[str]:
    """Texts that this module uses as the name of a header: `x-…` anywhere, keys of what is called headers or has an
    `x-…` among them, and what such a thing is asked for."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"x-[a-z-]+", node.value):
                yield node.value
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in {"get", "setdefault"} and node.args:
                yield from _told(node.args[0]) if _is_headers(node.func.value) else ()
            for keyword in node.keywords:
                yield from _keys(keyword.value) if keyword.arg == "headers" else ()
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_is_headers(target) for target in targets):
                yield from _keys(node.value)
        elif isinstance(node, ast.Dict) and any(name.startswith("x-") for key in node.keys for name in _told(key)):
            yield from _keys(node)
        elif isinstance(node, ast.Compare) and _is_headers(node.comparators[-1]):
            yield from _told(node.left)
        elif isinstance(node, ast.DictComp) and any(_is_headers(part) for part in ast.walk(node)):
            yield from texts(node)


def _is_headers(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return "headers" in name.lower()


def _keys(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Dict):
            for key in part.keys:
                yield from _told(key)


def _told(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.lower()
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield NAMES[node.id]


def documented_headers() -> set[str]:
    return named("Headers of a request") | named("Headers of an answer") | named("Headers to an engine")


def test_every_header_of_the_code_is_named() -> None:
    found = {name for path in TREES for name in headers_of(path)}
    assert len({name for name in found if name.startswith("x-thinkgate-")}) >= 9
    assert found >= {"authorization", "retry-after", "traceparent", "cache-control", "accept"}
    assert found - documented_headers() - FRAMING == set()


def test_every_header_named_is_one_of_the_code() -> None:
    written = {text.lower() for tree in TREES.values() for text in texts(tree)} | set(NAMES.values())
    lines = {word for text in written for word in re.findall(r"^([a-z-]+): ", text)}
    assert documented_headers() - written - lines == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('SHOWN = "x-thinkgate-new"', {"x-thinkgate-new"}),
        ('def f(headers): return headers.get("idempotency-key")', {"idempotency-key"}),
        ('error(headers={"deprecation": "1"})', {"deprecation"}),
        ('STREAM_HEADERS = {"link": "a"}', {"link"}),
        ('def f(request): return "te" in request.headers', {"te"}),
        ('names = {REQUEST_ID: "a", "from": "b"}', {"from", "x-request-id"}),
        ('title = "x marks the spot"', set[str]()),
    ],
)
def test_a_new_header_would_be_seen(source: str, found: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path("new.py")
    monkeypatch.setitem(TREES, here, ast.parse(source))
    assert set(headers_of(here)) == found


def codes() -> set[str]:
    """What is given as `code=` to anything."""
    found: set[str] = set()
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "code":
                value = node.value
                branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                found |= {text for branch in branches for text in _told(branch)}
    return found


def test_every_error_code_is_named() -> None:
    assert {"shutting_down", "internal_error", "context_length_exceeded"} <= codes()
    assert codes() == named("Error codes")


def test_every_status_is_one_that_is_sent() -> None:
    numbers = {part.value for tree in TREES.values() for part in ast.walk(tree) if isinstance(part, ast.Constant)}
    for row in rows("Error codes"):
        assert all(int(status) in numbers for status in row[1].split(", ")), row


def test_every_path_is_named_with_its_methods() -> None:
    config = parse(CONFIG, name="thinkgate.yaml", base=ROOT, env={})
    gateway = Thinkgate(config, Source(None))
    gateway.service.close()
    app: Any = vars(gateway)["_rest"]
    there: dict[str, set[str]] = {CHAT_PATH: {"POST"}}
    for path, operations in app.openapi()["paths"].items():
        there.setdefault(path, set()).update(method.upper() for method in operations)
    there |= {path: {"GET"} for path in (app.openapi_url, app.docs_url, app.redoc_url)}
    told: dict[str, set[str]] = {}
    for row in rows("Paths"):
        told |= {path: set(row[1].split(", ")) for path in re.findall(r"`(/[^`]*)`", row[0])}
    assert told == there


def test_every_tier_is_named_wherever_the_header_is() -> None:
    thinking = (ROOT / "docs" / "thinking.md").read_text(encoding="utf-8")
    told = [line for page in (PAGE, thinking) for line in page.splitlines() if "`x-thinkgate-tier`" in line]
    assert len(told) == 2
    for text in (*told, RouteTold.model_fields["tier"].description or ""):
        assert set(Tier) <= set(re.findall(r"`(\w+)`", text)), text


def test_the_numbers_in_it_are_the_code_s() -> None:
    assert f"(1 to {LONGEST} of letters" in PAGE
    assert f"Seconds, 1 to {MAX_RETRY_AFTER}:" in PAGE
