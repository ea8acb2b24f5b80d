"""From a leg that has ended to the one that goes on: what the engine is given, and what the client is told.

Arithmetic and text; the flight starts the leg.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from budgets import How, Plan, trim_thought
from gateway.deltas import Delta, Text
from gateway.engines import Call, KnownIds, Path, Prefix
from gateway.legwatch import Transcript
from gateway.pools import Pool, Worker
from parsers import Field, Start

HEAT, DEFAULT_HEAT, PRESENCE = 0.2, 0.7, 0.5
"""Where thinking cannot be switched off: so much more temperature (over the client's, else over a usual one), and a
penalty on words that were said. Higher temperature hides loops, no more (arXiv 2512.12895): it is the last resort."""

_GRAMMARS = ("response_format", "structured_outputs", "regex", "ebnf", "grammar", "json_schema")
"""Fields that bind the answer to a grammar: OpenAI's, vLLM's, SGLang's, llama-server's."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a flight stands when a leg is over: what it began with, what was told, what was used (tokens)."""

    first: Call
    query: Mapping[str, Any]
    """The client's body."""
    told: Transcript
    leg_ids: tuple[int, ...]
    """Of all that the leg which is over was given, where they are known."""
    pool: Pool
    plan: Plan
    used: int
    reasoning: int
    worker: Worker
    """The one whose cache is warm; the gateway's phrases are counted as it counts them."""
    can_hold: bool
    """Can a thought that must end be followed by an answer there?"""

    @property
    def has_other_worker(self) -> bool:
        return any(worker.is_ready and worker is not self.worker for worker in self.pool.workers)


@dataclass(frozen=True, slots=True)
class Continuation:
    """What to go on from, and the words put in, as the client gets them (`spoken`), with their tokens."""

    prefix: Prefix
    limit: int | None
    kind: str
    """As legs are counted."""
    spoken: list[Delta] = field(default_factory=list["Delta"])
    thought_tokens: int = 0
    answer_tokens: int = 0
    dropped: int = 0
    """Characters of the thought so far that are not gone on from."""

    def path_on(self, worker: Worker, now: Situation) -> Path | None:
        """How this worker could go on, None if it could not."""
        return now.pool.path(worker, now.query, resuming=self.prefix.is_open)

    def call_for(self, worker: Worker, now: Situation) -> Call:
        """The next leg on this worker."""
        pool = now.pool
        path = self.path_on(worker, now)
        if path is None:  # another worker than the one that was asked; it is taken for as able as its pool's best
            path = pool.dialect.paths(now.query, pool.profile.format)[0]
        return _as_filed(pool.dialect.onward(now.first, self.prefix, pool.profile, self.limit, path), worker, path)


def to_answer(now: Situation, *, keep: int | None = None) -> Continuation | None:
    """From a closed thought to the answer; None where the engine cannot, or no token is left.

    Something may have been answered already, by a model that thought again. The engine goes on from the thought trimmed
    to a clean break, or to its first `keep` characters; the client keeps all it has seen, and sees the closing phrase
    too, since the model was given it as its own.
    """
    if now.pool.path(now.worker, now.query) is None:
        return None
    said = "".join(now.told.said)
    thinking = now.pool.config.thinking
    phrase = thinking.closing_phrase
    lead_in = "" if said or _is_bound(now.first.body) else thinking.answer_lead_in
    room = None if now.plan.limit is None else now.plan.limit - now.used
    costs = [now.pool.tokens_of(words, now.worker) for words in (phrase, lead_in)]
    if room is not None:
        if room < 1:
            return None
        if sum(costs) > room // 2:
            phrase, lead_in, costs = "", "", [0, 0]  # what little the client allows belongs to the answer
    whole, closing, answer = "".join(now.told.thought), phrase or "\n", said or lead_in
    thought = _cut(whole, keep)
    # What was said stands before the second thought in the engine's tokens, and after both in its next prompt.
    known = None if said else _known_ids(now, thought, f"{closing}{now.pool.profile.format.closing}{answer}")
    prefix = Prefix(thought + closing, answer, known)
    words = ((Field.REASONING, _shown(whole, phrase)), (Field.CONTENT, lead_in))
    spoken: list[Delta] = [Text(0, field, text) for field, text in words if text]
    left = None if room is None else room - sum(costs)
    return Continuation(prefix, left, "answer", spoken, costs[0], costs[1], len(whole) - len(thought))


@dataclass(frozen=True, slots=True)
class Afresh:
    """Not a continuation: the answer is asked for anew, without a thought where that can be, else with other dice."""

    limit: int | None
    kind: str = "afresh"

    def call_for(self, worker: Worker, now: Situation) -> Call:
        pool, query = now.pool, now.query
        plan = replace(now.plan, how=How.OFF, cap=None, limit=self.limit, level="none")
        if pool.profile.format.switch:
            return pool.dialect.chat(query, pool.profile, plan)
        if pool.path(worker, query) is not None and pool.profile.format.framing is None:
            return past_thought(pool.dialect.chat(query, pool.profile, plan), worker, pool, plan)
        heat = query.get("temperature")
        warmer = {
            **query,
            "temperature": min(2.0, (heat if isinstance(heat, int | float) else DEFAULT_HEAT) + HEAT),
            "presence_penalty": PRESENCE,
        }
        return pool.dialect.chat(warmer, pool.profile, replace(now.plan, limit=self.limit))


def to_answer_afresh(now: Situation) -> Afresh | None:
    """Once more from the prompt; None where no token is left for it."""
    room = None if now.plan.limit is None else now.plan.limit - now.used
    return Afresh(room) if room is None or room > 0 else None


def to_more_thought(now: Situation) -> Continuation | None:
    """Back into a thought that the model has ended too early; None where the engine cannot, or nothing is left."""
    if now.pool.path(now.worker, now.query, resuming=True) is None:
        return None
    phrase = now.pool.config.thinking.think_on_phrase
    cost = now.pool.tokens_of(phrase, now.worker)
    room = None if now.plan.limit is None else now.plan.limit - now.used - cost
    if room is not None and room <= now.plan.reserve:
        return None
    whole = "".join(now.told.thought)
    thought = whole.rstrip()
    prefix = Prefix(thought + phrase, known=_known_ids(now, thought, phrase), is_open=True)
    return Continuation(prefix, room, "more", [Text(0, Field.REASONING, _shown(whole, phrase))], cost)


def to_elsewhere(now: Situation) -> Continuation | None:
    """From all that a leg had said when its worker was lost, to the letter; None where no token is left."""
    room = None if now.plan.limit is None else now.plan.limit - now.used
    if room is not None and room < 1:
        return None
    told, closing = now.told, now.pool.profile.format.closing
    thought, said = "".join(told.thought), "".join(told.said)
    if not said:
        return Continuation(Prefix(thought, known=_known_ids(now, thought, ""), is_open=True), room, "migrated")
    answer = said.lstrip("\n")
    has_thought = bool(thought) or (now.plan.thinks and now.first.start is Start.OPEN)
    closed = f"{thought.rstrip(chr(10))}\n" if has_thought else None
    known = _all_ids(now) if answer else None
    return Continuation(Prefix(closed, answer, known if closing or not has_thought else None), room, "migrated")


def past_thought(first: Call, worker: Worker, pool: Pool, plan: Plan) -> Call:
    """A first leg that starts past an empty thought: how thinking is off where the template has no switch for it."""
    nothing = Prefix("\n" if first.start is Start.OPEN else "\n\n")
    path = pool.path(worker, first.body) or pool.dialect.paths(first.body, pool.profile.format)[0]
    call = pool.dialect.onward(first, nothing, pool.profile, plan.limit, path)
    # It is the first leg all the same: nothing was drawn or generated before it.
    own = {name: first.body[name] for name in ("seed", "min_tokens") if name in first.body}
    return _as_filed(replace(call, body={**call.body, **own}), worker, path)


def _as_filed(call: Call, worker: Worker, path: Path) -> Call:
    """Some workers call a continued answer thought: then the call says so."""
    known = worker.capabilities
    misfiles = path is Path.CHAT and known is not None and known.misfiles
    return replace(call, misfiled=True) if misfiles else call


def _cut(whole: str, keep: int | None) -> str:
    """The thought as the engine gets it. A copy of a loop that ends with a word ends cleanly."""
    cut = whole[:keep]
    splits_word = keep is None or whole[max(0, keep - 1) : keep + 1].isalnum()
    return trim_thought(cut) if splits_word else cut.rstrip()


def _shown(thought: str, phrase: str) -> str:
    """The phrase as the client gets it: without the line ends that it has seen already."""
    seen = len(thought) - len(thought.rstrip("\n"))
    ends = len(phrase) - len(phrase.lstrip("\n"))
    return phrase[min(seen, ends) :]


def _known_ids(now: Situation, thought: str, after: str) -> KnownIds | None:
    """What the leg was given and as much of its thought as is known by its very ids, whole pieces only, and all else as
    text; None where the engine told none, or where the thought ends before what the leg was given."""
    told = now.told
    taken = sum(map(len, told.thought[: told.leg_thought]))
    if not now.leg_ids or taken > len(thought):
        return None
    ids = list(now.leg_ids)
    for text, own in zip(told.thought[told.leg_thought :], told.thought_ids[told.leg_thought :], strict=True):
        if own is None or taken + len(text) > len(thought):
            break
        taken += len(text)
        ids += own
    return KnownIds(tuple(ids), thought[taken:] + after)


def _all_ids(now: Situation) -> KnownIds | None:
    """All that the leg was given and has said, markers included, if every bit of it is known by its ids: the marker's
    came with the first words after it."""
    told = now.told
    own = [*told.thought_ids[told.leg_thought :], *told.said_ids[told.leg_said :]]
    known = [piece for piece in own if piece is not None]
    if not now.leg_ids or not own or len(known) < len(own):
        return None
    return KnownIds((*now.leg_ids, *(one for piece in known for one in piece)), "")


def _is_bound(body: Mapping[str, Any]) -> bool:
    """Must the answer follow a grammar? Then it begins with the grammar's first words, not with ours."""
    return any(body.get(name) for name in _GRAMMARS) and body.get("response_format") != {"type": "text"}
