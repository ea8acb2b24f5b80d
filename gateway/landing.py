"""The good end of a flight: finish reasons that SDKs know, one usage, and the extension object `thinkgate`.

Made of what the other rooms know; nothing is decided here about what was flown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from budgets import Plan
from gateway.account import Account
from gateway.deltas import Finish
from gateway.edge.errors import engine_broke_off
from gateway.ledger import Entry, LoopDone, Outcome
from gateway.legwatch import LegWatch, Transcript
from gateway.pools import Pool
from router import Decision

_PUBLIC_REASONS = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})
"""What a client may be told. Anything else becomes `length`: not complete, in a word that SDKs know."""


@dataclass(frozen=True, slots=True)
class Landing:
    """Finish reasons by choice, usage, and the extension object."""

    finishes: list[Finish]
    account: Account
    report: dict[str, Any]


def finishes_of(told: Transcript, watch: LegWatch) -> list[Finish]:
    """One for each choice that has begun. Raises ApiError (502) where an engine gave none."""
    finishes: list[Finish] = []
    for index in sorted(told.begun):
        finish = watch.finishes.get(index)
        if finish is None or finish.reason == "abort":
            raise engine_broke_off("The engine aborted the answer.")
        reason = finish.reason if finish.reason in _PUBLIC_REASONS else "length"
        finishes.append(Finish(index, reason, finish.extras))
    return finishes


def outcome_of(entry: Entry, finishes: list[Finish], *, was_cut: bool) -> Outcome:
    """How it ended. A loop that was ended is no answer, whatever its finish reason says."""
    done = {note.done for note in entry.loops}
    if LoopDone.ENDED in done:
        return Outcome.LOOP
    if finishes[0].reason == "length":
        return Outcome.LENGTH
    if done & {LoopDone.RESCUED, LoopDone.AFRESH}:
        return Outcome.LOOP_RESCUED
    if "migrated" in entry.kinds:
        return Outcome.MIGRATED
    return Outcome.CUT_ANSWERED if was_cut else Outcome.ANSWERED


def report_of(entry: Entry, decision: Decision, pool: Pool, plan: Plan, account: Account) -> dict[str, Any]:
    """The extension object `thinkgate`."""
    report: dict[str, Any] = {
        "route": decision.route,
        "pool": pool.name,
        "complexity": round(decision.complexity, 3),
        "legs": entry.legs,
        "thinking": {
            "how": plan.how,
            "cap": plan.cap,
            "source": plan.source,
            "tokens": account.reasoning - account.phrases,
            "injected_tokens": account.injected,
            "ended_by": entry.ended_by,
        },
    }
    if entry.loops:
        report["loops"] = [note.shown() for note in entry.loops]
    return report
