"""What the next leg is held to: its share of the cap, the least thought, the patience with an open call, loops.

Worked out anew for each leg from the plan and from what was flown so far. Nothing is watched here, and nothing started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from budgets import How, Plan
from budgets.open_call import PATIENCE
from gateway.account import Account
from gateway.config import LoopAction
from gateway.leg import Leg
from gateway.legwatch import Orders
from gateway.loopwatch import LoopOrders
from gateway.pools import Pool, Worker
from gateway.query import Query
from gateway.steps import MAX_MORE, Steps

SECOND_THOUGHT = 4
"""A model that reopens its thought in the answer leg gets this fraction of the cap for it."""

PHRASE_ROOM = 64
"""Tokens that a phrase to think on may take."""


@dataclass(frozen=True, slots=True)
class Flown:
    """A flight as it stands before its next leg."""

    query: Query
    plan: Plan
    pool: Pool
    account: Account
    steps: Steps

    def orders(self, leg: Leg) -> Orders:
        """For the leg that begins: the whole cap for a first thought, what is left of it for one that goes on, a part
        of it for one that is taken up again."""
        plan, pool, record, steps = self.plan, self.pool, self.pool.profile.format, self.steps
        is_held = self.is_held(leg.worker)
        cap = plan.cap if is_held else None
        if cap is not None and steps.cuts:
            cap = max(1, cap // SECOND_THOUGHT)
        elif cap is not None:
            cap = max(1, cap - self._thought_so_far)
        least = 0
        can_resume = is_held and pool.path(leg.worker, self.query.body, resuming=True) is not None
        if plan.least and not steps.cuts and steps.more < MAX_MORE and can_resume and self._has_room_for_more:
            least = max(0, plan.least - self._thought_so_far)
        openers = tuple(dict.fromkeys((*record.interrupts, *(begin for begin, _ in record.spans), "<tool_call>")))
        others = any(worker.is_ready and worker is not leg.worker for worker in pool.workers)
        return Orders(
            cap=cap,
            native=plan.how is How.NATIVE and steps.is_first,
            least=least,
            stops=leg.call.stops,
            calls=openers if self.query.body.get("tools") else (),
            call_patience=self._call_patience(cap),
            loops=steps.loops,
            can_go_on=self.can_follow(leg.worker),
            can_start_anew=steps.is_first and not steps.floods and others and self.query.choices == 1,
        )

    def is_held(self, worker: Worker) -> bool:
        """Does the gateway itself hold the thought to its cap? Behind an engine that was told it, only where an answer
        can follow: a cut without one would be worse than a long thought."""
        if self.query.choices > 1 or self.plan.how not in {How.CUT, How.NATIVE}:
            return False
        return self.plan.how is How.CUT or self.pool.path(worker, self.query.body) is not None

    def can_follow(self, worker: Worker) -> bool:
        """Can a thought that must end be followed by an answer there?"""
        return self.query.choices == 1 and self.pool.path(worker, self.query.body) is not None

    def _call_patience(self, cap: int | None) -> int:
        """Tokens past the cap that an open call may take: the answer keeps its reserve."""
        limit = self.plan.limit
        if limit is None:
            return PATIENCE
        return max(0, min(PATIENCE, limit - self.account.completion - (cap or 0) - self.plan.reserve))

    @property
    def _thought_so_far(self) -> int:
        """Tokens that the model has thought itself."""
        return self.account.reasoning - self.account.phrases

    @property
    def _has_room_for_more(self) -> bool:
        """Would a thought of the least length still leave the answer its reserve?"""
        limit, plan = self.plan.limit, self.plan
        return limit is None or limit - self.account.completion - plan.least > plan.reserve + PHRASE_ROOM


def loop_orders(query: Query, pool: Pool) -> LoopOrders:
    """As the operator has it: by pool, and for one request by an administrator's word."""
    told = pool.config.loops
    action = query.loops or told.action
    prompt = "" if action is LoopAction.OFF else _last_words(query)
    return LoopOrders(action, told.patience, prompt, told.answer_finish)


def _last_words(query: Query) -> str:
    """What the user said last; pictures say nothing."""
    last = next((message for message in reversed(query.messages) if message.get("role") == "user"), None)
    content: object = None if last is None else last.get("content")
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = (cast("dict[str, object]", part) for part in cast("list[object]", content) if isinstance(part, dict))
    return "\n".join(text for part in parts if isinstance(text := part.get("text"), str))
