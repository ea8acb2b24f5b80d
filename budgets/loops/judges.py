"""Judging what is counted letter by letter: floods and exact copies against their limits.

What must not come in: counting, and text that only looks alike (`stagnation`).
"""

from __future__ import annotations

from typing import Final

from budgets.loops import limits
from budgets.loops.copies import CopyTracker
from budgets.loops.finding import Kind
from budgets.loops.floods import FloodCounter
from budgets.loops.rope import DECORATIVE, is_decorative, is_packed, unit_rope
from budgets.loops.soft import LEASH, leash
from budgets.loops.verdict import CLEAR, Judgement, Verdict

_FIRST: Final = 8
"""Characters, all of them blank, that may stand before a flood of the very first token."""


def judge_blanks(floods: FloodCounter, copies: CopyTracker, rope: float) -> Judgement:
    """Blanks and line ends in a row."""
    share = max(floods.blanks / limits.BLANKS, floods.line_ends / limits.LINE_ENDS) / rope
    if share < 1:
        return Judgement(share)
    onset = copies.seen - floods.blanks
    reason = f"{floods.blanks} blanks in a row, {floods.line_ends} of them line ends"
    return Judgement(share, Verdict(Kind.WHITESPACE_FLOOD, onset, onset + 1, 1, floods.blanks, 0.99, reason, " "))


def judge_flood(floods: FloodCounter, copies: CopyTracker, rope: float) -> Judgement:
    """One character in a row."""
    if floods.run < limits.FIRST_FLOOD * rope / 2:
        return CLEAR
    onset = copies.seen - floods.run
    ornament = is_decorative(floods.character)
    first = not ornament and _is_first(copies, onset)
    limit = limits.FIRST_FLOOD if first else limits.FLOOD * (DECORATIVE if ornament else 1.0)
    share = floods.run / (limit * rope)
    if share < 1:
        return Judgement(share)
    kind = Kind.FIRST_TOKEN_FLOOD if first else Kind.CHARACTER_FLOOD
    reason = f"one character {floods.run} times in a row" + (", from the first token on" if first else "")
    return Judgement(share, Verdict(kind, onset, onset + 1, 1, floods.run, 0.99, reason, floods.character))


def judge_copies(copies: CopyTracker, rope: float, *, fenced: bool) -> Judgement:
    """The same text again and again. `fenced`: it stands in an open code fence."""
    period, run = copies.period, copies.run
    if run < limits.FIRST_FLOOD * rope:
        return CLEAR
    unit, onset = copies.unit(), copies.seen - run - period
    first = len(unit.strip()) == 1 and not is_decorative(unit) and _is_first(copies, onset)
    need = limits.FIRST_FLOOD * rope
    if not first:
        need = limits.exact_run(period, packed=is_packed(unit)) * rope * unit_rope(unit, fenced=fenced)
    if need > run >= need * LEASH:
        need *= leash(copies.text)
    if run < need:
        return Judgement(run / need)
    number = run / period + 1
    kind = Kind.FIRST_TOKEN_FLOOD if first else Kind.EXACT
    reason = f"{number:.1f} exact copies of {period} characters"
    confidence = round(1 - 0.5**number, 3)
    return Judgement(run / need, Verdict(kind, onset, onset + period, period, number, confidence, reason, unit))


def _is_first(copies: CopyTracker, onset: int) -> bool:
    return onset <= _FIRST and not copies.text[:onset].strip()
