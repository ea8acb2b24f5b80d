"""Tokens grouped into what one event carries: split or raw, batched, cut inside a marker, ended by a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.doubles.mind import CLOSE, OPEN, VOCABULARY, Piece, Turn, tokens
from tests.doubles.script import Script

Side = Literal["think", "answer"]


@dataclass(slots=True)
class Step:
    """The text of one event, and what was generated for it. Without `parts` it is a token that gives no event."""

    parts: list[tuple[Side, str]] = field(default_factory=list[tuple[Side, str]])
    think: int = 0
    answer: int = 0
    reasoning: int = 0
    """Tokens an honest engine counts as reasoning: the thought and the white space around it."""
    ids: list[int] = field(default_factory=list[int])
    call: str = ""
    """The arguments of a tool call, as JSON text."""

    @property
    def side(self) -> Side | None:
        return self.parts[0][0] if self.parts else None

    def text(self, side: Side) -> str:
        return "".join(text for where, text in self.parts if where == side)

    def add(self, other: Step) -> None:
        for side, text in other.parts:
            if self.parts and self.parts[-1][0] == side:
                self.parts[-1] = (side, self.parts[-1][1] + text)
            else:
                self.parts.append((side, text))
        self.think += other.think
        self.answer += other.answer
        self.reasoning += other.reasoning
        self.ids += other.ids


@dataclass(slots=True)
class Plan:
    """How a turn is to be spoken."""

    script: Script
    turn: Turn
    split: bool
    seam: tuple[str, str] = ("\n", "\n\n")
    budget: int | None = None
    max_tokens: int | None = None
    tools: bool = False
    """A tool parser is at work."""


def call_deltas(step: Step) -> list[dict[str, Any]]:
    """The deltas of a tool call as every engine's parser gives them: its name, then its arguments."""
    if not step.call:
        return []
    named = {"id": "call-1", "type": "function", "index": 0, "function": {"name": "f", "arguments": ""}}
    return [{"tool_calls": [named]}, {"tool_calls": [{"index": 0, "function": {"arguments": step.call}}]}]


class Choice:
    """One sample: its steps, and what has become of it."""

    def __init__(self, index: int, plan: Plan) -> None:
        self.index = index
        self.reason = plan.script.finish
        self.said = Step()
        steps = _grouped(self._steps(plan), plan.script)
        self._steps_ahead = _cut(steps, plan.script.chunk_chars) if plan.script.chunk_chars else steps
        self.ahead = next(self._steps_ahead, None)

    def step(self) -> Step:
        """The next step; `ahead` is then the one after it, or None."""
        assert self.ahead is not None
        step, self.ahead = self.ahead, next(self._steps_ahead, None)
        return step

    def _steps(self, plan: Plan) -> Iterator[Step]:
        spoken = 0
        for piece in tokens(plan.script, plan.turn, budget=plan.budget):
            ids = VOCABULARY.encode(piece.text)
            spoken += len(ids)
            if plan.max_tokens is not None and spoken > plan.max_tokens:
                self.reason = "length"
                return
            if piece.kind == "call":
                yield _call(piece, ids, parsed=plan.tools)
                self.reason = "tool_calls" if plan.tools else self.reason
                return
            yield from _raw(piece, ids) if not plan.split else _split(piece, ids, plan.seam)


def _call(piece: Piece, ids: list[int], *, parsed: bool) -> Step:
    if parsed:
        return Step(answer=1, ids=ids, call=piece.text)
    text = f'<tool_call>\n{{"name": "f", "arguments": {piece.text}}}\n</tool_call>'
    return Step([("answer", text)], answer=1, ids=ids)


def _raw(piece: Piece, ids: list[int]) -> Iterator[Step]:
    step = Step([("answer", piece.text)], ids=ids)
    step.think, step.answer = int(piece.kind == "think"), int(piece.kind == "answer")
    step.reasoning = step.think
    yield step


def _split(piece: Piece, ids: list[int], seam: tuple[str, str]) -> Iterator[Step]:
    if piece.kind != "mark":
        thinks = int(piece.kind == "think")
        yield Step([(piece.kind, piece.text)], think=thinks, answer=1 - thinks, reasoning=thinks, ids=ids)
        return
    if piece.text.startswith(OPEN):
        yield Step(ids=ids, reasoning=len(ids) - 1)
        return
    at = ids.index(VOCABULARY.special[CLOSE])
    before, after = seam
    yield Step([("think", before)] if before else [], reasoning=at, ids=ids[:at])
    yield Step(ids=ids[at : at + 1])
    yield Step([("answer", after)] if after else [], ids=ids[at + 1 :])


def _grouped(steps: Iterator[Step], script: Script) -> Iterator[Step]:
    """Batch steps of one side up to `per_event` tokens; with `mixed`, let the batch at the border hold both sides."""
    group: Step | None = None
    for step in steps:
        if group is None:
            group = step
        elif _joins(group, step, script):
            group.add(step)
        else:
            yield group
            group = step
    if group is not None:
        yield group


def _joins(group: Step, step: Step, script: Script) -> bool:
    if step.call or group.call or (script.per_event == 1 and not script.mixed):
        return False
    if step.side is None or group.side is None:
        return True
    if group.side == step.side:
        crossed = len(group.parts) > 1
        return group.think + group.answer < script.per_event and not crossed
    return bool(script.mixed)


def _cut(steps: Iterator[Step], size: int) -> Iterator[Step]:
    """Raw text in pieces of `size` characters, wherever that falls; a piece counts the tokens that end in it."""
    held = Step()
    for step in steps:
        held.add(step)
        while len(text := held.text("answer")) >= size:
            whole, rest = text[:size], text[size:]
            held.parts = [("answer", whole)]
            yield held
            held = Step([("answer", rest)] if rest else [])
    if held.parts or held.ids:
        yield held
