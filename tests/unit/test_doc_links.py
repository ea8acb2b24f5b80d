"""Every link in every page leads somewhere, and what looks like a path of the repository is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

from tests.pages import PAGES, ROOT, anchors, without_code

README: Final = ROOT / "README.md"
INLINE: Final = re.compile(r"\]\(([^)]*)\)")
DEFINED: Final = re.compile(r"^ {0,3}\[[^\]]+\]:[ \t]*(\S+)", re.MULTILINE)
HTML: Final = re.compile(r"<(?:a|img)\b[^>]*\b(?:href|src)=\"([^\"]*)\"")
PATH: Final = re.compile(r"`((?:docs|deploy|tests|benchmarks|gateway|router|budgets|parsers)/[\w./-]+)`")

each = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def links(text: str) -> Iterator[str]:
    plain = without_code(text)
    for target in (*INLINE.findall(plain), *DEFINED.findall(plain), *HTML.findall(plain)):
        yield re.sub(r"\s+\"[^\"]*\"$", "", target)


def trouble(page: Path, target: str) -> str | None:
    """What is wrong with a link of this page; None where nothing is. No network is asked."""
    if not target or re.search(r"\s", target):
        return "no address"
    parts = urlsplit(target)
    if parts.scheme:
        host = parts.hostname or ""
        is_fine = parts.scheme in {"http", "https"} and re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z]{2,}", host)
        return None if is_fine or parts.scheme == "mailto" else "no address of the web"
    if parts.path.startswith("/"):
        return "a path of one machine"
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not file.is_relative_to(ROOT):
        return "it leaves the repository"
    if not file.exists():
        return "no such file"
    if parts.fragment:
        if file.suffix != ".md":
            return "an anchor in what has no headings"
        if parts.fragment not in anchors(file.read_text(encoding="utf-8")):
            return "no such heading"
    return None


@each
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = {target: why for target in links(page.read_text(encoding="utf-8")) if (why := trouble(page, target))}
    assert not wrong


@each
def test_what_looks_like_a_path_is_one(page: Path) -> None:
    missing = [path for path in PATH.findall(page.read_text(encoding="utf-8")) if not (ROOT / path).exists()]
    assert not missing


def test_the_readme_links_to_every_page_of_docs() -> None:
    linked = {(ROOT / urlsplit(target).path).resolve() for target in links(README.read_text(encoding="utf-8"))}
    assert {page for page in PAGES if page.parent == ROOT / "docs"} <= linked


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("docs/pools.md", None),
        ("docs/pools.md#when-thinkgate-itself-stops", None),
        ("#try-it-no-gpu-two-commands", None),
        ("deploy/engines", None),
        ("https://github.com/open-telemetry/semantic-conventions-genai", None),
        ("docs/pools.md#nowhere", "no such heading"),
        ("docs/swimming-pools.md", "no such file"),
        ("Makefile#serve", "an anchor in what has no headings"),
        ("../elsewhere.md", "it leaves the repository"),
        ("/etc/hosts", "a path of one machine"),
        ("http//example.org", "no such file"),
        ("htp://example.org", "no address of the web"),
        ("https://example", "no address of the web"),
        ("docs/po ols.md", "no address"),
        ("", "no address"),
    ],
)
def test_a_link_is_judged(target: str, why: str | None) -> None:
    assert trouble(README, target) == why


def test_links_are_found_and_code_is_none() -> None:
    text = "[![a](b.png)](c.md) [`d`](e.md 'no' ) [f]: x\n\n[g]: h.md\n`[i](j.md)`\n```\n[k](l.md)\n```\n"
    assert [*links(text)] == ["b.png", "c.md", "e.md 'no' ", "h.md"]


def test_anchors_are_github_s() -> None:
    page = "# One, two\n## `serve` and [check](x.md)\n## Again\n## Again\n```\n# none\n```\n### GPU-seconds: what?\n"
    assert anchors(page) == {"one-two", "serve-and-check", "again", "again-1", "gpu-seconds-what"}
