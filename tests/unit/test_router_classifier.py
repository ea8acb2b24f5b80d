"""The classifier over a made-up encoder: order of tiers, modes, memory, inheritance, threads, words for people."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from router import Ask, Classifier, Glance, Head, Mode, Models, Route, Tier
from router.cache import LRU
from router.cheap import Cheap
from router.encoder import DIMENSION, SENTENCE, TextIds
from router.loading import ASSETS

SECRET = "xylophone zebra quartz"


class Counting:
    """An encoder that counts its calls and answers from the text's length alone."""

    sentence = SENTENCE

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, text: str, ids: list[int] | None = None) -> NDArray[np.float32]:
        self.calls += 1
        vector = np.zeros(DIMENSION, dtype=np.float32)
        vector[len(text) % DIMENSION] = 1.0
        return vector


@pytest.fixture(scope="module")
def trained() -> tuple[Head, Cheap, TextIds]:
    return Head.read(ASSETS / "head.npz"), Cheap.read(ASSETS / "cheap.npz"), TextIds(ASSETS / "tokenizer.json")


@pytest.fixture
def encoder() -> Counting:
    return Counting()


@pytest.fixture
def models(encoder: Counting, trained: tuple[Head, Cheap, TextIds]) -> Models:
    return Models(encoder, *trained)


@pytest.fixture
def classifier(models: Models) -> Classifier:
    return Classifier(models, mode=Mode.ACCURATE)


def test_rules_come_first(classifier: Classifier, encoder: Counting) -> None:
    decision = classifier.decide(Ask("hello"))
    assert decision.tier is Tier.RULE
    assert classifier.glance(Ask("hello")) == Glance(decision, is_final=True)
    assert encoder.calls == 0


def test_hit_equals_miss_and_runs_nothing(classifier: Classifier, encoder: Counting) -> None:
    ask = Ask("Is 3599 the product of two primes, and if it is, of which ones? Say how you know.", "Let us do numbers.")
    assert not classifier.glance(ask).is_final
    first = classifier.decide(ask)
    assert encoder.calls == 2
    assert classifier.decide(ask) == first == classifier.glance(ask).decision
    assert encoder.calls == 2
    assert first.tier is Tier.ENCODER


def test_equal_asks_get_equal_verdicts(models: Models) -> None:
    ask = Ask("Prove that there are infinitely many primes.")
    cold = [Classifier(models, cache_size=0).decide(ask) for _ in range(3)]
    assert cold[0] == cold[1] == cold[2]


def test_memory_tells_asks_apart(classifier: Classifier) -> None:
    classifier.decide(Ask("and the second one?", "a"))
    assert not classifier.glance(Ask("and the second one?", "b")).is_final
    assert not classifier.glance(Ask("and the second one?")).is_final
    assert not classifier.glance(Ask("and the second one?" + " " * 2000, "a")).is_final
    assert not classifier.glance(Ask("and the second one?", "a", system="You are a maths tutor.")).is_final


def test_a_go_ahead_inherits(classifier: Classifier) -> None:
    hard = Ask("Prove that the sum of two odd numbers is even.")
    go = Ask("继续", hard.text, turns=2)
    assert not classifier.glance(go).is_final
    before, after = classifier.decide(hard), classifier.decide(go)
    assert (after.route, after.p_reasoning, after.complexity) == (before.route, before.p_reasoning, before.complexity)
    assert after.reasons == ("a go-ahead, judged by the turn before it", *before.reasons)
    assert classifier.glance(go) == Glance(after, is_final=True)


def test_a_go_ahead_inherits_words_too(classifier: Classifier) -> None:
    seen = classifier.glance(Ask("yes", "Prove that the sum of two odd numbers is even."))
    assert not seen.is_final
    assert seen.decision.reasons[0] == "a go-ahead, judged by the turn before it"


def test_a_glance_never_encodes(classifier: Classifier, encoder: Counting) -> None:
    decision = classifier.glance(Ask("Prove by induction that the sum of the first n odd numbers is n^2.")).decision
    assert (decision.tier, decision.route, encoder.calls) == (Tier.LEXICAL, Route.REASONING, 0)
    assert "asks for a proof or derivation (lexical)" in decision.reasons


def test_fast_mode_never_encodes(models: Models, encoder: Counting) -> None:
    fast = Classifier(models, mode=Mode.FAST)
    for text in ("Prove it by induction.", "what is a lemma", "and then?", "x"):
        assert fast.decide(Ask(text, "Some turn before.")).tier in (Tier.RULE, Tier.CHEAP)
    assert encoder.calls == 0


def test_balanced_mode_encodes_only_in_doubt(models: Models, encoder: Counting) -> None:
    balanced = Classifier(models, mode=Mode.BALANCED)
    sure = Ask("Prove by induction that the sum of the first n odd numbers is n^2, for every positive integer n.")
    assert balanced.decide(sure).tier is Tier.CHEAP
    assert encoder.calls == 0
    unsure = Classifier(replace(models, cheap=replace(models.cheap, platt=np.array([0.0, 0.0], dtype=np.float32))))
    assert not unsure.glance(sure).is_final
    assert unsure.decide(sure).tier is Tier.ENCODER


@pytest.mark.parametrize(("threshold", "route"), [(0.0, Route.REASONING), (1.0, Route.STANDARD)])
def test_threshold_moves_the_route_not_the_probability(models: Models, threshold: float, route: Route) -> None:
    ask = Ask("Which of the two loans is cheaper after ten years?")
    moved = Classifier(models, mode=Mode.ACCURATE, threshold=threshold).decide(ask)
    plain = Classifier(models, mode=Mode.ACCURATE).decide(ask)
    assert moved.route is route
    assert moved.p_reasoning == plain.p_reasoning
    assert moved.confidence == pytest.approx(plain.p_reasoning if route is Route.REASONING else 1 - plain.p_reasoning)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_threshold_is_a_probability(models: Models, threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        Classifier(models, threshold=threshold)


def test_reasons_hold_no_text_of_the_user(classifier: Classifier) -> None:
    ask = Ask(f"Prove {SECRET} and rewrite {SECRET}: 1 + 1 = 2?", f"earlier {SECRET}")
    for decision in (classifier.glance(ask).decision, classifier.decide(ask)):
        spoken = " ".join(decision.reasons)
        assert not any(word in spoken for word in SECRET.split())
        assert 1 <= len(decision.reasons) <= 5


def test_two_threads_share_it(classifier: Classifier) -> None:
    asks = [Ask(f"Is {number} a product of two primes?") for number in range(40)]
    with ThreadPoolExecutor(2) as pool:
        worked = pool.map(classifier.decide, asks * 5)
        seen = [classifier.glance(ask) for _ in range(20) for ask in asks]
        verdicts = list(worked)
    assert verdicts[:40] * 5 == verdicts
    assert all(not found.is_final or found.decision == verdicts[index % 40] for index, found in enumerate(seen))


def test_lru_forgets_the_oldest() -> None:
    lru: LRU[int] = LRU(2)
    keys = [lru.key(text) for text in "abc"]
    lru.put(keys[0], 0)
    lru.put(keys[1], 1)
    assert lru.get(keys[0]) == 0
    lru.put(keys[2], 2)
    assert [lru.get(key) for key in keys] == [0, None, 2]
    assert len(lru) == 2


def test_lru_keys_frame_their_texts() -> None:
    lru: LRU[int] = LRU(1)
    assert lru.key("ab", "c") != lru.key("a", "bc")
    assert lru.key("a") != LRU[int](1).key("a")
    assert len(lru.key("\ud800")) == 16


UNSURE = Ask("Is 3599 the product of two primes, and if it is, of which ones? Say how you know.", "Let us do numbers.")


@pytest.mark.parametrize("ask", [UNSURE, Ask("go on", UNSURE.text), Ask("and 3601?", UNSURE.text)])
def test_going_on_from_a_glance_reaches_the_same_verdict(models: Models, ask: Ask) -> None:
    fresh = Classifier(models, mode=Mode.ACCURATE, cache_size=0)
    seen = fresh.glance(ask)
    assert seen.working is not None
    assert fresh.decide(ask, seen) == fresh.decide(ask)


def test_a_turn_is_tokenised_once(models: Models, trained: tuple[Head, Cheap, TextIds]) -> None:
    class CountingIds(TextIds):
        seen: ClassVar[list[str]] = []

        def __call__(self, text: str) -> list[int]:
            self.seen.append(text)
            return super().__call__(text)

    ids = CountingIds(ASSETS / "tokenizer.json")
    counted = Classifier(replace(models, ids=ids), mode=Mode.ACCURATE, cache_size=0)
    counted.decide(UNSURE, counted.glance(UNSURE))
    assert ids.seen.count(UNSURE.text) == 1


def test_skimming_follows_rules_memory_and_the_threshold(models: Models, encoder: Counting) -> None:
    skimming = Classifier(models)
    assert skimming.skim(Ask("thanks!")).tier is Tier.RULE
    skimmed = skimming.skim(UNSURE)
    assert (skimmed.tier, encoder.calls) == (Tier.LEXICAL, 0)
    assert skimmed.confidence == max(skimmed.p_reasoning, 1 - skimmed.p_reasoning)
    go = skimming.skim(Ask("yes", UNSURE.text))
    assert go.reasons[0] == "a go-ahead, judged by the turn before it"
    strict = Classifier(models, threshold=min(skimmed.p_reasoning + 0.01, 1.0))
    assert strict.skim(UNSURE).route is Route.STANDARD
    decided = skimming.decide(UNSURE)
    assert skimming.skim(UNSURE) == decided, "what is remembered is better than what is skimmed"
    assert skimming.skim(Ask("Prove by induction that n^2 > n.")).route is Route.REASONING
