"""What follows a leg that is over: more of the thought, the answer, a fresh start, or nothing. And what it may cost.

The one place that knows how often a flight may be cut, led on and rescued. It starts no leg: the flight does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from budgets import How, Ruling
from budgets.loops import Channel, Finding, Kind
from gateway.config import LoopAction
from gateway.continuation import (
    Afresh,
    Continuation,
    Situation,
    to_answer,
    to_answer_afresh,
    to_elsewhere,
    to_more_thought,
)
from gateway.deltas import Finish
from gateway.ledger import EndedBy, LoopDone, LoopNote
from gateway.legwatch import LegWatch
from gateway.loopwatch import LoopOrders, engine_found
from gateway.query import Query

MAX_CUTS = 2
"""Thoughts cut in one flight. A model that thinks again after the second gets no third chance."""

MAX_MORE = 4
"""Times a model is told to think on. One that ends its thought at once each time has nothing to think about."""

MAX_MOVES = 2
"""Workers that may be lost in one flight after something was told, and as many before."""

REPETITION = frozenset({"repetition", "repeat"})
"""How engines say that they ended a loop: vLLM's `repetition_detection`, and its like."""

ENDED_BY = {
    Ruling.CAP: EndedBy.CAP,
    Ruling.DEADLINE: EndedBy.DEADLINE,
    Ruling.LOOP: EndedBy.LOOP,
    Ruling.SHORT: EndedBy.MODEL,
}


@dataclass(slots=True)
class Steps:
    """What a flight has done so far beside its first leg."""

    loops: LoopOrders
    cuts: int = 0
    more: int = 0
    afresh: int = 0
    moves: int = 0
    """Times a worker was lost and the flight went on elsewhere."""
    restarts: int = 0
    """Times a worker was lost before anything of it was told: then the flight began anew."""
    floods: int = 0
    """Legs that were taken back because their worker said nothing but one character."""
    notes: list[LoopNote] = field(default_factory=list[LoopNote])
    ended_by: EndedBy | None = None

    @property
    def is_first(self) -> bool:
        """Has there been no leg that went on from another?"""
        return not (self.cuts or self.more or self.afresh or self.moves)

    def after(self, now: Situation, watch: LegWatch, ruling: Ruling | None) -> Continuation | Afresh | None:
        """The next step; None if the flight is to land. May change the finish of a leg that cannot be followed."""
        for index, other in watch.finishes.items():
            if index and other.reason in REPETITION:  # of several choices in one stream each ends by itself
                watch.finishes[index] = Finish(index, self.loops.finish)
        finish = watch.finishes.get(0)
        reason = finish.reason if finish is not None else ""
        is_inside = bool(now.told.thought) and not now.told.is_answered and not now.told.stopped
        if reason in REPETITION and ruling is None:
            return self._after_engine_loop(now, watch, is_inside=is_inside)
        if ruling is Ruling.LOOP:
            finding = watch.found[-1].finding
            return self._after_loop(now, watch, finding, keep=watch.thought_before + finding.keep)
        self._note_others(now, watch)
        has_stopped = reason == "stop" and is_inside
        if ruling is Ruling.SHORT or (ruling is None and has_stopped and watch.is_short):
            more = to_more_thought(now)
            if more is not None:
                self.more += 1
                return more
        if ruling is None and not has_stopped:
            return None
        self.ended_by = EndedBy.STOP if ruling is None else ENDED_BY[ruling]
        step = self._cut(now)
        if step is None and ruling is not None:
            watch.finishes[0] = Finish(0, "tool_calls" if now.told.has_called else "length")
        return step

    def elsewhere(self, now: Situation, watch: LegWatch, query: Query) -> Continuation | str:
        """A worker was lost in the midst of it: from where to go on, or why that cannot be."""
        if self.moves >= MAX_MOVES:
            return f"it has gone on elsewhere {MAX_MOVES} times already"
        if query.choices > 1:
            return "it has several choices in one stream"
        if now.told.has_called:
            return "a tool call had begun"
        if isinstance(query.body.get("seed"), int) and query.body.get("temperature") != 0:
            return "it has a seed, which another run cannot take up in the middle"
        if watch.is_thinking and "".join(now.told.said).strip():
            return "it was thinking again after words of its answer"
        step = to_elsewhere(now)
        if step is None:
            return "no token was left"
        if now.pool.path(now.worker, query.body, resuming=step.prefix.is_open) is None:
            return "its engine cannot go on from what was said"
        self.moves += 1
        return step

    def _cut(self, now: Situation, keep: int | None = None) -> Continuation | None:
        if self.cuts >= MAX_CUTS or now.told.has_called or not now.can_hold:
            return None
        step = to_answer(now, keep=keep)
        self.cuts += step is not None
        return step

    def _after_loop(
        self, now: Situation, watch: LegWatch, finding: Finding, *, keep: int
    ) -> Continuation | Afresh | None:
        """The ladder: cut the loop out and go on to the answer; if that leg loops in a thought of its own, once more
        without thinking, elsewhere; then end with what there is."""
        self.ended_by = EndedBy.LOOP
        step: Continuation | Afresh | None = None
        if finding.kind is not Kind.FIRST_TOKEN_FLOOD or now.has_other_worker:
            step = self._cut(now, keep) if not self._has_rescued else None
        if step is None and self._has_rescued and not self.afresh and not now.told.is_answered:
            step = to_answer_afresh(now)
            self.afresh += step is not None
        if step is None:
            watch.finishes[0] = Finish(0, "tool_calls" if now.told.has_called else "length")
        done = LoopDone.ENDED if step is None else LoopDone.AFRESH if isinstance(step, Afresh) else LoopDone.RESCUED
        self._note(now, finding, done)
        return step

    def _after_engine_loop(self, now: Situation, watch: LegWatch, *, is_inside: bool) -> Continuation | Afresh | None:
        """The engine has ended a loop by itself, mostly before a detector of ours would."""
        channel = Channel.REASONING if is_inside else Channel.ANSWER
        whole = "".join(now.told.thought if is_inside else now.told.said)
        finding = engine_found(channel, whole)
        if is_inside and self.loops.action is LoopAction.RESCUE and now.plan.how is not How.NONE:
            return self._after_loop(now, watch, finding, keep=finding.keep)
        if self.loops.action is not LoopAction.OFF:
            done = LoopDone.ENDED if self.loops.action is LoopAction.RESCUE else LoopDone.OBSERVED
            self._note(now, finding, done)
        watch.finishes[0] = Finish(0, "length" if is_inside else self.loops.finish)
        return None

    def _note_others(self, now: Situation, watch: LegWatch) -> None:
        """Loops that ended their choice, or were only observed."""
        for found in watch.found:
            ended = self.loops.action is LoopAction.RESCUE
            self._note(now, found.finding, LoopDone.ENDED if ended else LoopDone.OBSERVED)

    def note_flood(self, now: Situation, watch: LegWatch) -> None:
        """A leg is taken back."""
        self.floods += 1
        self._note(now, watch.found[-1].finding, LoopDone.ELSEWHERE)

    def _note(self, now: Situation, finding: Finding, done: LoopDone) -> None:
        cap = now.plan.cap
        saved = max(0, cap - now.reasoning) if cap is not None and done is LoopDone.RESCUED else 0
        self.notes.append(LoopNote(finding, done, now.worker.name, saved))

    @property
    def _has_rescued(self) -> bool:
        return any(note.done is LoopDone.RESCUED for note in self.notes)
