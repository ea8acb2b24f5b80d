"""Routes of the operator's own: by words, by expression, by utterances with a fitted threshold, and abstaining."""

import pytest

from router import Ask, Classifier, Route, Tier, UserRoute, load

REFUNDS = UserRoute(
    "refunds",
    Route.STANDARD,
    target="shop-pool",
    utterances=(
        "I want my money back",
        "how do I return this jacket",
        "the parcel arrived broken, refund please",
        "can I get a refund for my order",
        "return label for order 1234",
    ),
)
TICKET = UserRoute("tickets", Route.REASONING, target="ops", regex=r"\bINC-\d{4,}\b")
LEGAL = UserRoute("legal", Route.REASONING, keywords=("subpoena", "c++"))


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load(routes=[TICKET, LEGAL, REFUNDS], cache_size=64)


@pytest.mark.parametrize(
    ("text", "target", "route"),
    [
        ("what about inc-20331", "ops", Route.REASONING),
        ("we got a SUBPOENA today", None, Route.REASONING),
        ("say hello in C++", None, Route.REASONING),
    ],
)
def test_words_decide_before_the_classifier(
    classifier: Classifier, text: str, target: str | None, route: Route
) -> None:
    decision = classifier.decide(Ask(text))
    assert (decision.tier, decision.target, decision.route) == (Tier.RULE, target, route)
    assert classifier.glance(Ask(text)).decision == decision


def test_part_of_a_word_is_no_keyword(classifier: Classifier) -> None:
    assert classifier.routes is not None
    assert classifier.routes.by_words(Ask("subpoenaed")) is None


def test_utterances_decide_where_they_fit_and_abstain_elsewhere(classifier: Classifier) -> None:
    decision = classifier.decide(Ask("please refund my order, I want the money back"))
    assert (decision.target, decision.tier) == ("shop-pool", Tier.RULE)
    assert "'refunds'" in decision.reasons[0]
    for text in ("Prove that there are infinitely many primes.", "what is the capital of Peru", "谁写了红楼梦"):
        assert classifier.decide(Ask(text)).target is None


def test_sounding_alike_is_not_belonging() -> None:
    route = UserRoute(
        "refunds", Route.STANDARD, "shop-pool", utterances=REFUNDS.utterances, negatives=("please refund my order now",)
    )
    assert load(routes=[route]).decide(Ask("please refund my order now")).target is None


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (UserRoute("empty", Route.STANDARD), "no keywords"),
        (UserRoute("torn", Route.STANDARD, regex="("), "does not compile"),
    ],
)
def test_a_route_that_cannot_match_is_refused(route: UserRoute, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(routes=[route])
