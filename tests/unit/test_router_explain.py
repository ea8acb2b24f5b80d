"""The explanation of a verdict: everything that went into it, and that it fits the verdict."""

import json

import pytest

from router import Ask, Explainer, load, load_exemplars


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
    assert alone.p_without_history == pytest.approx(after.p_without_history)
    assert alone.p_calibrated == pytest.approx(alone.p_without_history)


@pytest.mark.parametrize("text", ["", "x" * 50_000, "\x00\x01", "👍"])
def test_explains_odd_input(explainer: Explainer, text: str) -> None:
    found = explainer.explain(Ask(text), sentences=True)
    assert found.is_clipped is (len(text) > 720)
