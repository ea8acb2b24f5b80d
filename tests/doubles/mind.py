"""The model a double pretends to have: a template, a tokenizer, and what comes next after a given prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as count_up
from typing import Any, Final, Literal

from tests.doubles.script import (
    Script,
    answer_count,
    answer_token,
    call_arguments,
    proof,
    recited,
    think_count,
    think_token,
)

OPEN: Final = "<think>"
CLOSE: Final = "</think>"
HEAD: Final = "<|im_start|>"
TAIL: Final = "<|im_end|>"
_PIECE: Final = re.compile(r"</?think>|<\|im_start\|>|<\|im_end\|>|\n| ?[^\s<]+|\s|<")

Kind = Literal["think", "mark", "answer", "call"]


class Vocabulary:
    """Words to ids and back, lossless. One for all doubles, as replicas of a model share theirs."""

    special: Final = {HEAD: 1, TAIL: 2, "\n": 198, OPEN: 49152, CLOSE: 49153}

    def __init__(self) -> None:
        self._ids = dict(self.special)
        self._texts = {number: text for text, number in self._ids.items()}
        self._next = count_up(60_000)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in _PIECE.findall(text):
            if (number := self._ids.get(piece)) is None:
                number = self._ids[piece] = next(self._next)
                self._texts[number] = piece
            ids.append(number)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._texts[number] for number in ids)


VOCABULARY: Final = Vocabulary()


@dataclass(frozen=True, slots=True)
class Piece:
    """One token as generated."""

    kind: Kind
    text: str


@dataclass(slots=True)
class Turn:
    """Where the assistant's turn stands when generation starts."""

    user: str
    thinking: bool = True
    opened: bool = False
    """The prompt already ends inside a thought."""
    thought: str = ""
    closed: bool = False
    """The prompt is already past the thought."""
    answer: str = ""
    prompt_tokens: int = 0
    recast: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a pair changes in the script this prompt asks for: the key its KV gives, a fault."""

    @property
    def continues(self) -> bool:
        return bool(self.thought or self.answer)


@dataclass(frozen=True, slots=True)
class Start:
    """What a turn gives to go on from: how much of the thought is ours, what was added to it, how far the answer is."""

    think: int
    added: str
    answer: int


def start_of(script: Script, turn: Turn) -> Start:
    """How many of our own tokens the given thought begins with, and where the answer goes on."""
    given = turn.thought.strip()
    grown, ours = "", 0
    while ours < max(think_count(script), 1) and given.startswith(longer := grown + think_token(script, ours)):
        grown, ours = longer, ours + 1
    proven = proof(script.key, turn.thought if turn.closed else "")
    said, answered = "", 0
    while said != turn.answer.rstrip() and answered < script.ans:
        said, answered = said + answer_token(script.key, proven, answered), answered + 1
    whole = bool(turn.answer) and said == turn.answer.rstrip()
    return Start(ours, given[len(grown) :].strip(), answered if whole else 0)


def tokens(script: Script, turn: Turn, *, budget: int | None = None) -> Iterator[Piece]:
    """Everything that comes after the prompt: thought, markers and answer, token by token."""
    start = start_of(script, turn)
    whole = turn.thought
    if turn.thinking and not turn.closed:
        thinks = think_count(script)
        until = thinks if budget is None else min(thinks, budget)
        if not turn.opened:
            yield Piece("mark", f"{OPEN}\n")
        for i in range(start.think, until):
            token = think_token(script, i)
            whole += token
            yield Piece("think", token)
        if script.quits:
            return
        yield Piece("mark", f"\n{CLOSE}\n\n")
    elif not turn.closed:
        whole = ""
    proven = proof(script.key, whole)
    for i in range(start.answer, answer_count(script)):
        if script.recite_in == "answer":
            yield Piece("answer", recited(script.recite, script.recite_size)[i])
        else:
            yield Piece("answer", answer_token(script.key, proven, i))
    if script.calls:
        yield Piece("call", call_arguments(script.key, proven))


def render(messages: Sequence[dict[str, Any]], *, thinking: bool, opens: bool, generation: bool = True) -> str:
    """ChatML as a Qwen3-like template writes it. `opens`: its generation prompt starts the thought."""
    lines = [f"{HEAD}{message.get('role', 'user')}\n{text_of(message)}{TAIL}\n" for message in messages]
    prompt = "".join(lines)
    if not generation:
        return prompt
    if not thinking:
        return f"{prompt}{HEAD}assistant\n{OPEN}\n\n{CLOSE}\n\n"
    return f"{prompt}{HEAD}assistant\n{OPEN}\n" if opens else f"{prompt}{HEAD}assistant\n"


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text", "") for part in parts if isinstance(part, dict))


def turn_of_prompt(prompt: str) -> Turn:
    """Read a rendered prompt back: what the user said last, and how far the assistant's turn is."""
    before, _, mine = prompt.rpartition(f"{HEAD}assistant\n")
    if TAIL in mine:
        before, mine = prompt, ""
    turn = Turn(user=before or prompt, prompt_tokens=len(VOCABULARY.encode(prompt)))
    read_prefix(turn, mine)
    return turn


def read_prefix(turn: Turn, prefix: str) -> None:
    """Fill `turn` from the text an assistant's turn begins with, markers and all."""
    if OPEN not in prefix and CLOSE not in prefix:
        if prefix.strip():
            turn.answer, turn.thinking = prefix, False
        return
    inside, closed, answer = prefix.partition(CLOSE)
    turn.opened, turn.closed = True, bool(closed)
    turn.thought = inside.partition(OPEN)[2].strip() if OPEN in inside else inside.strip()
    turn.answer = answer.strip()
    if turn.closed and not turn.thought:
        turn.thinking = False
