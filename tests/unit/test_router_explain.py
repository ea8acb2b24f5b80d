"""The explanation of a verdict: everything that went into it, and that it fits the verdict."""

import json

import pytest

from router import Ask, Explainer, Tier, load, load_exemplars
from router.explaining import Effect
from router.policy import RELEASE


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer(load(threshold=0.4), load_exemplars()[:40])


def test_says_everything(explainer: Explainer) -> None:
    ask = Ask("Good morning. Prove that n^3 - n is divisible by 6 for every n.", "We did induction yesterday.")
    found = explainer.explain(ask, sentences=True)
    shown = found.as_json()
    assert json.loads(json.dumps(shown)) == shown
    assert (shown["route"] == "reasoning") is (shown["margin"] >= 0)
    assert shown["threshold"] == 0.4
    assert found.margin == pytest.approx(found.decision.p_reasoning - 0.4)
    similar = [one["similarity"] for one in shown["exemplars"]]
    assert similar == sorted(similar, reverse=True)
    assert len(similar) == 5
    assert {one["text"] for one in shown["sentences"]} == {
        "Good morning.",
        "Prove that n^3 - n is divisible by 6 for every n.",
    }
    assert shown["features"][0]["adds"] != 0
    assert not found.is_clipped


def test_history_is_told_apart(explainer: Explainer) -> None:
    alone = explainer.explain(Ask("and for three?"))
    after = explainer.explain(Ask("and for three?", "Prove that two odd numbers have an even sum."))
    assert alone.history.p_without == pytest.approx(after.history.p_without) == pytest.approx(alone.p_calibrated)
    assert (alone.history.effect, alone.history.p_before) == (Effect.NONE, None)
    assert after.history.p_before == pytest.approx(
        explainer.explain(Ask("Prove that two odd numbers have an even sum.")).decision.p_reasoning
    )


def test_a_hard_turn_holds_a_short_follow_up_up(explainer: Explainer) -> None:
    hard = "Prove by induction that the sum of the first n odd numbers is n^2, for every positive n."
    found = [explainer.explain(Ask(text, hard)) for text in ("and in general?", "why so?", "and for cubes?", "is it?")]
    assert {one.history.effect for one in found} <= {Effect.READ, Effect.HELD_UP}
    for one in found:
        held = one.history.effect is Effect.HELD_UP
        assert held is ("a follow-up to a turn that needed reasoning" in one.decision.reasons)
        if held:
            assert one.history.p_before is not None
            assert one.decision.p_reasoning == pytest.approx(one.history.p_before * RELEASE)


def test_a_go_ahead_is_explained_by_what_it_approves(explainer: Explainer) -> None:
    hard = "Prove by induction that the sum of the first n odd numbers is n^2, for every positive n."
    go, itself = explainer.explain(Ask("yes", hard)), explainer.explain(Ask(hard))
    assert (go.history.effect, go.history.p_before) == (Effect.GO_AHEAD, itself.decision.p_reasoning)
    assert (go.p_raw, go.p_calibrated, go.exemplars) == (itself.p_raw, itself.p_calibrated, itself.exemplars)


def test_thanks_after_a_hard_turn_owe_history_nothing(explainer: Explainer) -> None:
    found = explainer.explain(Ask("thanks!", "Prove that two odd numbers have an even sum."))
    assert (found.decision.tier, found.history.effect) == (Tier.RULE, Effect.NONE)


@pytest.mark.parametrize("text", ["", "x" * 50_000, "\x00\x01", "👍"])
def test_explains_odd_input(explainer: Explainer, text: str) -> None:
    found = explainer.explain(Ask(text), sentences=True)
    assert found.is_clipped is (len(text) > 720)
