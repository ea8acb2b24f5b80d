"""Rules: they fire on whole turns only, and a go-ahead is no verdict of its own."""

import pytest

from router import Ask, Route, Tier
from router.rules import apply_rules, is_approval


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (Ask(""), "an empty turn"),
        (Ask(" \n"), "an empty turn"),
        (Ask("", has_images=True), "an image without a question"),
        (Ask("?!"), "no words in the turn"),
        (Ask("Hello, how are you?"), "short greeting"),
        (Ask("你好！"), "short greeting"),
        (Ask("Thanks!! 🙏", "Prove it."), "thanks or small talk"),
        (Ask("धन्यवाद"), "thanks or small talk"),
        (Ask("Go on."), "a go-ahead with nothing before it"),
    ],
)
def test_fires(ask: Ask, why: str) -> None:
    decision = apply_rules(ask)
    assert decision is not None
    assert (decision.route, decision.tier, decision.reasons) == (Route.STANDARD, Tier.RULE, (why,))


@pytest.mark.parametrize("text", ["hi, is 3599 prime?", "2+2", "thanks, now prove it", "hello " * 30, "证明"])
def test_leaves_asks_alone(text: str) -> None:
    assert apply_rules(Ask(text)) is None


@pytest.mark.parametrize("text", ["yes", "Go on.", "继续", "好的，继续", "👍", "👍🏽", "да", "OK, go ahead!"])
def test_approvals(text: str) -> None:
    assert is_approval(Ask(text, "Plan the migration."))
    assert not is_approval(Ask(text))


@pytest.mark.parametrize("text", ["yes, but why does it fail?", "no", "stop", "thanks"])
def test_no_approvals(text: str) -> None:
    assert not is_approval(Ask(text, "Plan the migration."))
