"""How much thinking: what a client asked for, what will be enforced, and the watch over it. No HTTP, no I/O."""

from budgets.governor import Governor, Meter, Ruling, native_limit, split_usage
from budgets.intent import BUDGET_HEADER, Intent, IntentError, Mode, read_intent, without_thinking_fields
from budgets.open_call import is_inside_call
from budgets.plan import ClassCaps, Deadlines, How, Plan, Policy, make_plan
from budgets.tail import one_copy
from budgets.trim import trim_thought

__all__ = [
    "BUDGET_HEADER",
    "ClassCaps",
    "Deadlines",
    "Governor",
    "How",
    "Intent",
    "IntentError",
    "Meter",
    "Mode",
    "Plan",
    "Policy",
    "Ruling",
    "is_inside_call",
    "make_plan",
    "native_limit",
    "one_copy",
    "read_intent",
    "split_usage",
    "trim_thought",
    "without_thinking_fields",
]
