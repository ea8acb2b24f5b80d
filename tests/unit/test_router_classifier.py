"""The classifier over a made-up encoder: order of tiers, memory, inheritance, threads, words for people."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from router import Ask, Classifier, Head, Route, Tier
from router.cache import LRU
from router.encoder import DIMENSION
from router.loading import ASSETS

SECRET = "xylophone zebra quartz"


class Counting:
    """An encoder that counts its calls and answers from the text's length alone."""

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, text: str) -> NDArray[np.float32]:
        self.calls += 1
        vector = np.zeros(DIMENSION, dtype=np.float32)
        vector[len(text) % DIMENSION] = 1.0
        return vector


@pytest.fixture(scope="module")
def head() -> Head:
    return Head.read(ASSETS / "head.npz")


@pytest.fixture
def encoder() -> Counting:
    return Counting()


@pytest.fixture
def classifier(encoder: Counting, head: Head) -> Classifier:
    return Classifier(encoder, head)


def test_rules_come_first(classifier: Classifier, encoder: Counting) -> None:
    assert classifier.decide(Ask("hello")).tier is Tier.RULE
    assert classifier.peek(Ask("hello")) == classifier.decide(Ask("hello")) == classifier.lexical(Ask("hello"))
    assert encoder.calls == 0


def test_hit_equals_miss_and_runs_nothing(classifier: Classifier, encoder: Counting) -> None:
    ask = Ask("Is 3599 the product of two primes?", "Let us do some number theory.")
    assert classifier.peek(ask) is None
    first = classifier.decide(ask)
    assert encoder.calls == 2
    assert classifier.decide(ask) == first == classifier.peek(ask)
    assert encoder.calls == 2
    assert first.tier is Tier.ENCODER


def test_equal_asks_get_equal_verdicts(head: Head) -> None:
    ask = Ask("Prove that there are infinitely many primes.")
    cold = [Classifier(Counting(), head, cache_size=0).decide(ask) for _ in range(3)]
    assert cold[0] == cold[1] == cold[2]


def test_memory_tells_asks_apart(classifier: Classifier) -> None:
    classifier.decide(Ask("and the second one?", "a"))
    assert classifier.peek(Ask("and the second one?", "b")) is None
    assert classifier.peek(Ask("and the second one?")) is None
    assert classifier.peek(Ask("and the second one?" + " " * 2000, "a")) is None


def test_a_go_ahead_inherits(classifier: Classifier) -> None:
    hard = Ask("Prove that the sum of two odd numbers is even.")
    go = Ask("继续", hard.text, turns=2)
    assert classifier.peek(go) is None
    before, after = classifier.decide(hard), classifier.decide(go)
    assert (after.route, after.p_reasoning, after.complexity) == (before.route, before.p_reasoning, before.complexity)
    assert after.reasons == ("a go-ahead, judged by the turn before it", *before.reasons)
    assert classifier.peek(go) == after
    assert classifier.lexical(go).reasons[0] == after.reasons[0]


def test_lexical_never_encodes(classifier: Classifier, encoder: Counting) -> None:
    decision = classifier.lexical(Ask("Prove by induction that the sum of the first n odd numbers is n^2."))
    assert (decision.tier, decision.route, encoder.calls) == (Tier.LEXICAL, Route.REASONING, 0)
    assert "asks for a proof or derivation (lexical)" in decision.reasons


@pytest.mark.parametrize(("threshold", "route"), [(0.0, Route.REASONING), (1.0, Route.STANDARD)])
def test_threshold_moves_the_route_not_the_probability(head: Head, threshold: float, route: Route) -> None:
    ask = Ask("Which of the two loans is cheaper after ten years?")
    moved = Classifier(Counting(), head, threshold=threshold).decide(ask)
    plain = Classifier(Counting(), head).decide(ask)
    assert moved.route is route
    assert moved.p_reasoning == plain.p_reasoning
    assert moved.confidence == pytest.approx(plain.p_reasoning if route is Route.REASONING else 1 - plain.p_reasoning)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_threshold_is_a_probability(head: Head, threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        Classifier(Counting(), head, threshold=threshold)


def test_reasons_hold_no_text_of_the_user(classifier: Classifier) -> None:
    ask = Ask(f"Prove {SECRET} and rewrite {SECRET}: 1 + 1 = 2?", f"earlier {SECRET}")
    for decision in (classifier.decide(ask), classifier.lexical(ask)):
        spoken = " ".join(decision.reasons)
        assert not any(word in spoken for word in SECRET.split())
        assert 1 <= len(decision.reasons) <= 4


def test_two_threads_share_it(classifier: Classifier) -> None:
    asks = [Ask(f"Is {number} a product of two primes?") for number in range(40)]
    with ThreadPoolExecutor(2) as pool:
        worked = pool.map(classifier.decide, asks * 5)
        peeked = [classifier.peek(ask) for _ in range(20) for ask in asks]
        verdicts = list(worked)
    assert verdicts[:40] * 5 == verdicts
    assert all(found in (None, verdicts[index % 40]) for index, found in enumerate(peeked))


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


def test_head_file_is_small_and_carries_its_card(head: Head) -> None:
    assert Path(ASSETS / "head.npz").stat().st_size < 200_000
    assert set(head.card) >= {"encoder", "figures", "data_sha256", "rows", "seed"}
    assert head.card["figures"]["full"]["hard_open"]["accuracy"] > 0.85


def test_head_survives_writing(head: Head, tmp_path: Path) -> None:
    head.write(tmp_path / "head.npz")
    again = Head.read(tmp_path / "head.npz")
    assert again.card == head.card
    assert np.array_equal(again.hidden, head.hidden)
