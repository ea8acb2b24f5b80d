"""docs/thinking.md says what the code does: its tables are the code's, or are run through it row by row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from budgets import BUDGET_HEADER, ClassCaps, How, Intent, IntentError, Mode, Policy, make_plan, read_intent
from budgets.dialects import DIALECTS
from budgets.intent import LEVELS, MOST_TOKENS
from budgets.plan import RESERVE_SHARE
from gateway import service
from gateway.config import EngineKind, Thinking
from gateway.ledger import EndedBy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "thinking.md").read_text(encoding="utf-8")

DEFAULTS = Thinking()
POLICY = Policy(
    enabled=True,
    can_disable=True,
    max_cap=DEFAULTS.max_cap,
    caps=ClassCaps(**DEFAULTS.caps.model_dump()),
    answer_reserve=DEFAULTS.answer_reserve,
    how=How.CUT,
)
POOLS = {
    "thinking": POLICY,
    "standard": replace(POLICY, enabled=False),
    "always": replace(POLICY, can_disable=False),
    "unheld": replace(POLICY, how=How.NONE),
    "small": replace(POLICY, max_cap=500),
}


def block(name: str) -> str:
    return PAGE.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->")[0]


def rows(name: str) -> list[tuple[str, ...]]:
    lines = block(name).splitlines()[2:]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def code(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def fields_table() -> str:
    lines = ["| field | in | comes from | values |", "|---|---|---|---|"]
    for dialect in DIALECTS:
        places = "the body" if dialect.places == ("",) else code(dialect.places)
        lines += [f"| {code(field.names)} | {places} | {dialect.name} | {field.meaning} |" for field in dialect.fields]
    return "\n".join(lines) + "\n"


def described(call: Callable[[], str]) -> str:
    try:
        return call()
    except IntentError as error:
        return f"400 `{error.code}`, `{error.param}`"


def in_words(intent: Intent) -> str:
    if intent.mode is Mode.AUTO:
        return "open"
    how_much = f", {intent.cap} tokens" if intent.cap else f", level `{intent.level}`" if intent.level else ""
    return f"{intent.mode}{how_much}, by `{intent.source}`"


def test_the_table_of_fields_is_the_code_s() -> None:
    assert block("fields") == fields_table(), f"put this between the marks:\n{fields_table()}"


@pytest.mark.parametrize(("body", "header", "meaning"), rows("precedence"))
def test_a_row_of_the_precedence_table_is_true(body: str, header: str, meaning: str) -> None:
    sent = json.loads(body.strip("`"))
    assert described(lambda: in_words(read_intent(sent, header.strip("`") or None))) == meaning


@pytest.mark.parametrize(("pool", "body", "complexity", "limit", "room", "meaning"), rows("plans"))
def test_a_row_of_the_plan_table_is_true(
    *, pool: str, body: str, complexity: str, limit: str, room: str, meaning: str
) -> None:
    def planned() -> str:
        plan = make_plan(
            read_intent(json.loads(body.strip("`"))),
            POOLS[pool],
            complexity=float(complexity),
            limit=int(limit) if limit else None,
            room=int(room) if room else None,
        )
        cap = "" if plan.cap is None else f" at {plan.cap}"
        return f"`{plan.how}`{cap}, reserve {plan.reserve}, by `{plan.source}`"

    assert described(planned) == meaning


def test_the_levels_are_the_classes() -> None:
    told: list[str] = []
    for complexity, name, levels, cap in rows("levels"):
        assert getattr(POLICY.caps, name.strip("`")) == int(cap) == POLICY.caps.at(float(complexity))
        for level in re.findall(r"`(\w+)`", levels):
            assert POLICY.caps.for_level(level) == int(cap)
            told.append(level)
    assert tuple(told) == LEVELS
    assert POLICY.caps.at(0.375) == 2048, "the example below the table"
    assert RESERVE_SHARE == 10


def test_every_word_that_comes_back_is_explained() -> None:
    source = Path(service.__file__).read_text(encoding="utf-8")
    headers = set(re.findall(r'"(x-thinkgate-[a-z-]+)"', source))
    assert len(headers) > 5
    for word in (*headers, *How, *EndedBy, *EngineKind, BUDGET_HEADER):
        assert f"`{word}`" in PAGE, word
    for name in ("how", "cap", "source", "tokens", "injected_tokens", "ended_by"):
        assert f"thinking.{name}`" in PAGE or f"`.{name}`" in PAGE, name


def test_every_refusal_is_explained() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "budgets").glob("*.py"))
    codes = set(re.findall(r'code="(\w+)"', sources))
    assert codes == {word for line in PAGE.split("## What is refused")[1].splitlines() for word in _first_code(line)}
    assert str(MOST_TOKENS) in PAGE


def _first_code(line: str) -> list[str]:
    return re.findall(r"^\| `(\w+_\w+)`", line)
