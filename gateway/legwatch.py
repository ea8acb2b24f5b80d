"""What a flight must know of a leg while it streams: how much it has thought and said, how it ended, what it cost.

One a leg. It passes deltas on or holds them back, and says when a thought must end; it starts and ends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from budgets import Governor, Meter, Ruling, is_inside_call, split_usage
from budgets.loops import Channel, Finding, Kind
from gateway.config import LoopAction
from gateway.deltas import Begin, Delta, Extras, Finish, Opaque, Text, ToolCalls, Usage
from gateway.loopwatch import Found, LoopOrders, LoopWatch, Opening
from gateway.stops import StopMatcher
from parsers import Field

_REASONING: Final = Field.REASONING
"""Looked up for every token."""


@dataclass(slots=True)
class Transcript:
    """What a flight has told so far, over all legs, of choice 0 where there are several legs. `thought` is the engine's
    copy of it: after a cut it is what the next leg was given, which may be less than what the client has seen."""

    begun: set[int] = field(default_factory=set[int])
    thought: list[str] = field(default_factory=list[str])
    thought_ids: list[list[int] | None] = field(default_factory=list[list[int] | None])
    """The token ids of each piece of thought, None where the engine did not tell them."""
    said: list[str] = field(default_factory=list[str])
    said_ids: list[list[int] | None] = field(default_factory=list[list[int] | None])
    leg_thought: int = 0
    leg_said: int = 0
    """Pieces that were there before the leg that runs."""
    matchers: dict[int, StopMatcher] = field(default_factory=dict[int, StopMatcher])
    """By choice, where the gateway matches stop strings: an answer may go on over several legs."""
    stopped: set[int] = field(default_factory=set[int])
    """Choices that a stop string has ended."""
    is_answered: bool = False
    """Has anything but blanks been said, or a tool been called?"""
    has_called: bool = False
    """Has a tool been called? Such an answer cannot be continued, only ended."""

    def begin_leg(self) -> None:
        """What comes from now on is another leg's."""
        self.leg_thought, self.leg_said = len(self.thought), len(self.said)

    def go_on_from(self, thought: str, said: list[str]) -> None:
        """The next leg is given this thought, and `said` in addition to what was said."""
        self.thought[:], self.thought_ids[:] = [thought], [None]
        self.said += said
        self.said_ids += [None] * len(said)


@dataclass(frozen=True, slots=True)
class Orders:
    """What one leg is held to. `cap` is in tokens, None for none; `native` grants the engine's own enforcement a slack;
    `least` are the tokens of thought before which it is not to end; `stops` are matched on the answer; `calls` are the
    markers that open a tool call, `call_patience` the tokens past the cap that an open one may take; `loops` says what
    is done about them; `can_go_on`: a thought that must end can be followed by an answer; `can_start_anew`: nothing was
    told yet, and another worker may be asked."""

    cap: int | None = None
    native: bool = False
    least: int = 0
    stops: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    call_patience: int = 0
    loops: LoopOrders = field(default_factory=LoopOrders)
    can_go_on: bool = False
    can_start_anew: bool = False


class LegWatch:
    """`choices` is the request's `n`."""

    __slots__ = ("_choices", "_governors", "_loops", "_opening", "_orders", "_transcript", "finishes", "is_thinking",
                 "thought_before", "usage")  # fmt: skip

    def __init__(self, transcript: Transcript, orders: Orders, *, choices: int) -> None:
        self._transcript = transcript
        self._orders = orders
        self._choices = choices
        self._governors: dict[int, Governor] = {}
        self.finishes: dict[int, Finish] = {}
        self.usage: Usage | None = None
        self.is_thinking = False
        """Was the last that came a thought?"""
        self.thought_before = sum(map(len, transcript.thought))
        """Characters of thought that were told before this leg."""
        self._loops = LoopWatch(orders.loops) if orders.loops.action is not LoopAction.OFF else None
        self._opening = Opening(orders.loops) if self._loops is not None and orders.can_start_anew else None

    def take(self, deltas: list[Delta]) -> tuple[list[Delta], Ruling | None]:
        """The deltas of one read that the client gets, and whether the last of them was the last one allowed."""
        passed: list[Delta] = []
        stopped, least, stops = self._transcript.stopped, self._orders.least, self._orders.stops
        if self._opening is not None and not self._opening.is_over:
            deltas = self._opened(deltas, self._opening)
        for delta in deltas:
            if stopped and isinstance(delta, Text | ToolCalls | Finish) and delta.index in stopped:
                continue
            if least and self.is_short and self._ends_thought(delta):
                return passed, Ruling.SHORT
            if stops and not self._let_through(delta, passed):
                continue
            if type(delta) is Text:
                passed.append(delta)
                if (ruling := self._note_text(delta)) is not None:
                    return passed, ruling
            elif self._is_passed(delta):
                passed.append(delta)
        return passed, Ruling.SICK if self._opening is not None and self._opening.finding is not None else None

    def _opened(self, deltas: list[Delta], opening: Opening) -> list[Delta]:
        """The deltas without those that are held back; with all that were, once something else has come."""
        told: list[Delta] = []
        for delta in deltas:
            if isinstance(delta, Text) and opening.holds(delta):
                continue
            if isinstance(delta, Text | ToolCalls | Finish):
                told += opening.release()
            told.append(delta)
        return told

    @property
    def has_flooded(self) -> bool:
        """Was the leg one character from its first token on, as a sick worker's is? Not an answer: that may have been
        asked for."""
        if self._opening is not None and self._opening.finding is not None:
            return True
        governor = self._governors.get(0)
        if governor is None or governor.answer.events:
            return False
        kinds = {found.finding.kind for found in self.found if found.finding.channel is Channel.REASONING}
        return Kind.FIRST_TOKEN_FLOOD in kinds

    @property
    def held_tokens(self) -> int:
        """Tokens that were held back and never told."""
        return 0 if self._opening is None else self._opening.tokens

    @property
    def is_in_call(self) -> bool:
        """Is the thought in the midst of a tool call?"""
        return bool(self._orders.calls) and is_inside_call("".join(self._transcript.thought), self._orders.calls)

    @property
    def found(self) -> list[Found]:
        """The loops of this leg."""
        if self._opening is not None and (finding := self._opening.finding) is not None:
            return [Found(0, finding)]
        return [] if self._loops is None else self._loops.found

    def _note_text(self, delta: Text) -> Ruling | None:
        """Take in a piece that the client gets; a ruling if it was the last one allowed."""
        ruling = None if self._loops is None else self._note_loop(delta, self._loops)
        if delta.field is not _REASONING:
            self._note_answer(delta)
            self._governor(delta.index).watch_answer(delta.text, delta.tokens)
            return None
        is_at_cap = self._note_thought(delta)
        return ruling or (Ruling.CAP if is_at_cap else None)

    def _note_loop(self, delta: Text, loops: LoopWatch) -> Ruling | None:
        """A loop in a thought that can be followed by an answer is the flight's business; any other one ends its choice
        here."""
        finding = loops.feed(delta)
        if finding is None or self._orders.loops.action is not LoopAction.RESCUE:
            return None
        if finding.channel is Channel.REASONING and self._orders.can_go_on:
            return Ruling.LOOP
        self._end_choice(delta.index, finding)
        return None

    def _end_choice(self, index: int, finding: Finding) -> None:
        self._transcript.stopped.add(index)
        reason = self._orders.loops.finish if finding.channel is Channel.ANSWER else "length"
        self.finishes[index] = Finish(index, reason)

    def _note_thought(self, delta: Text) -> bool:
        """Take in a piece of thought; True if it was the last one allowed."""
        told = self._transcript
        told.thought.append(delta.text)
        told.thought_ids.append(delta.ids)
        self.is_thinking = True
        governor = self._governor(delta.index)
        if governor.watch_reasoning(delta.text, delta.tokens) is None:
            return False
        patient = governor.over < self._orders.call_patience and self._orders.calls
        return not (patient and is_inside_call("".join(told.thought), self._orders.calls))

    @property
    def is_short(self) -> bool:
        """Has it thought less than it is to?"""
        return self._governor(0).reasoning.tokens < self._orders.least

    def _ends_thought(self, delta: Delta) -> bool:
        if isinstance(delta, Text):
            return delta.field is Field.CONTENT and (self.is_thinking or not delta.text.isspace())
        return isinstance(delta, ToolCalls)

    def _is_passed(self, delta: Delta) -> bool:
        """Note what is no text; True if the client gets it now."""
        told = self._transcript
        if isinstance(delta, Finish):
            self.finishes[delta.index] = delta
            return False
        if isinstance(delta, Usage):
            self.usage = self._merged(delta)
            return False
        if isinstance(delta, Begin):
            is_new = delta.index not in told.begun
            told.begun.add(delta.index)
            return is_new
        if isinstance(delta, ToolCalls):
            told.is_answered = told.has_called = True
            self.is_thinking = False
        return True

    @property
    def is_stopped(self) -> bool:
        """Has a stop string ended every choice? Then nothing the engine still says is wanted."""
        return len(self._transcript.stopped) == self._choices

    def _let_through(self, delta: Delta, passed: list[Delta]) -> bool:
        """Match the stop strings; True if the delta goes on as it is. What a stop holds back is told with what follows,
        at the latest before the end."""
        if isinstance(delta, Begin | Usage | Opaque):
            return True
        told, index = self._transcript, delta.index
        if index in told.stopped:
            return False
        matcher = told.matchers.setdefault(index, StopMatcher(self._orders.stops))
        if not isinstance(delta, Text) or delta.field is Field.REASONING:
            if held := matcher.flush():
                self._tell(Text(index, Field.CONTENT, held), passed)
            return True
        shown, stop = matcher.feed(delta.text)
        if stop is None and shown == delta.text:
            return True
        self._governor(index).watch_answer(delta.text, delta.tokens)
        if shown:
            self._tell(Text(index, Field.CONTENT, shown, extras=delta.extras), passed)
        if stop is not None:
            told.stopped.add(index)
            self.finishes[index] = Finish(index, "stop", Extras(stop_reason=msgspec.Raw(msgspec.json.encode(stop))))
        return False

    def _tell(self, text: Text, passed: list[Delta]) -> None:
        passed.append(text)
        if self._loops is not None:
            self._note_loop(text, self._loops)
        self._note_answer(text)

    def _note_answer(self, text: Text) -> None:
        told = self._transcript
        self.is_thinking = False
        told.said.append(text.text)
        told.said_ids.append(text.ids)
        told.is_answered = told.is_answered or not text.text.isspace()

    def count(self) -> tuple[int, int]:
        """(completion, reasoning) tokens of this leg, as far as it came."""
        governors = self._governors.values()
        thought = sum((governor.reasoning for governor in governors), Meter())
        answer = sum((governor.answer for governor in governors), Meter())
        told = None if self.usage is None else self.usage.completion
        return split_usage(told, thought, answer, has_called=self._transcript.has_called)

    def _governor(self, index: int) -> Governor:
        governor = self._governors.get(index)
        if governor is None:
            governor = self._governors[index] = Governor(self._orders.cap, native=self._orders.native)
        return governor

    def _merged(self, usage: Usage) -> Usage:
        """llama-server reports each choice by itself, the others once for all; a running total is only replaced."""
        known = self.usage
        if known is None or self._choices == 1 or known.is_running or usage.is_running:
            return usage
        return Usage(usage.prompt, known.completion + usage.completion, usage.cached)
