"""The shipped classifier on forty prompts of our own: simple in hard dress and the reverse, many tongues.

None of them stands in the training data. The floors are what the first head reaches, less a little.
"""

import time
from functools import cache

import pytest

from router import Ask, Classifier, Decision, Mode, Route, Tier, load

REASONING = (
    Ask("is 2021 prime"),
    Ask("My train leaves at 14:10, the bus takes 25 min and runs every 12 from 13:05. Which is the last I can catch?"),
    Ask("Prove that n^3 - n is divisible by 6 for every integer n."),
    Ask("show me why the square root of 5 can't be a fraction"),
    Ask("three friends split a 47.50 bill, one had no drinks (drinks were 14). who owes what?"),
    Ask("This test passes alone and fails in the suite, only on Fridays. What could cause it and how do I find out?"),
    Ask("Design a rate limiter shared by six gateways that must survive losing one of its two stores."),
    Ask("Plan seatings for 9 guests at 3 tables: Ana not with Ben, Cleo with Dan, Eve and Finn apart."),
    Ask("we pay 0.12 per kWh, panels cost 6400 and make 3100 kWh a year. when do they pay off?"),
    Ask("If all bloops are razzies and no razzie is a lazzie, can a bloop be a lazzie? Explain."),
    Ask("how many ways can 5 people sit in a row if two of them refuse to be neighbours"),
    Ask("Find the flaw: 1 = sqrt(1) = sqrt(-1 * -1) = sqrt(-1) * sqrt(-1) = -1"),
    Ask("quick one: a bat and a ball cost 1.10, the bat costs 1 more than the ball, what is the ball"),
    Ask("now prove it for n = 4 as well", "Prove that 2^n > n for n = 1, 2, 3."),
    Ask("Which of two loans is cheaper: 5.1 % with a 400 fee or 5.6 % without, 8000 over 3 years?"),
    Ask("Write a function that returns the longest increasing subsequence in O(n log n)."),
    Ask("证明：任意三个连续整数的乘积能被6整除"),
    Ask("¿Cuántos números de tres cifras tienen exactamente dos cifras iguales?"),
    Ask("Beweise, dass die Summe zweier ungerader Zahlen gerade ist."),
    Ask("Combien de façons de rendre 1 euro avec des pièces de 10, 20 et 50 centimes ?"),
)
STANDARD = (
    Ask("what do you call a number that is not prime"),
    Ask("Translate into French: Prove that n^3 - n is divisible by 6 for every integer n."),
    Ask("Show all your work: who wrote Hamlet?"),
    Ask("Think step by step and tell me the capital of Norway."),
    Ask("Fix the spelling: Teh integrl of a contnuous functon is diferentiable"),
    Ask("Put these in a bullet list: rate limiter, two stores, six gateways, failover, quorum"),
    Ask("write a limerick about a mathematician who cannot count"),
    Ask("What does the abbreviation NP stand for?"),
    Ask("Make this email friendlier: Your proof is wrong. Redo chapter 3 by Friday."),
    Ask("Rename the variable x to total:\n```python\nx = sum(a * b for a, b in zip(p, q))\n```"),
    Ask("who proved Fermat's last theorem and in what year"),
    Ask("How do I say 'good luck with your exam' in Italian?"),
    Ask("Summarise in one sentence: The committee met on 4 May, approved 3 of 7 motions and adjourned at 16:40."),
    Ask("when does the 2024 olympics closing ceremony take place"),
    Ask("suggest a name for my grey cat"),
    Ask("in German please", "Write me a haiku about rain."),
    Ask("什么是微积分"),
    Ask("¿Quién pintó Las Meninas?"),
    Ask("Was bedeutet das Wort Induktion?"),
    Ask("Écris un message d'anniversaire pour ma collègue."),
)
FLOOR = 0.9
LEXICAL_FLOOR = 0.8


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load()


def accuracy(verdicts: list[tuple[Decision, Route]]) -> float:
    return sum(decision.route is wanted for decision, wanted in verdicts) / len(verdicts)


@cache
def cases() -> list[tuple[Ask, Route]]:
    return [(ask, Route.REASONING) for ask in REASONING] + [(ask, Route.STANDARD) for ask in STANDARD]


def test_accuracy(classifier: Classifier) -> None:
    verdicts = [(classifier.decide(ask), wanted) for ask, wanted in cases()]
    missed = [
        ask.text for (ask, _), (decision, wanted) in zip(cases(), verdicts, strict=True) if decision.route != wanted
    ]
    assert accuracy(verdicts) >= FLOOR, missed


def test_words_alone_do_nearly_as_well() -> None:
    fast = load(mode=Mode.FAST)
    assert accuracy([(fast.decide(ask), wanted) for ask, wanted in cases()]) >= LEXICAL_FLOOR


def test_hard_asks_are_harder(classifier: Classifier) -> None:
    hard = [classifier.decide(ask).complexity for ask in REASONING]
    easy = [classifier.decide(ask).complexity for ask in STANDARD]
    assert sum(hard) / len(hard) > sum(easy) / len(easy) + 0.2


def test_verdicts_lie_in_range_and_speak(classifier: Classifier) -> None:
    for ask, _ in cases():
        decision = classifier.decide(ask)
        assert decision.tier in (Tier.CHEAP, Tier.ENCODER)
        assert 0.0 <= decision.complexity <= 1.0
        assert 0.5 <= decision.confidence <= 1.0
        assert 0.0 <= decision.p_reasoning <= 1.0
        assert decision.reasons[0].endswith(f"p={decision.p_reasoning:.2f}")


def test_a_long_paste_costs_no_more_than_its_ends(classifier: Classifier) -> None:
    paste = "The committee met and adjourned. " * 6000 + "\n\nFix the typos in the text above."
    started = time.process_time()
    classifier.decide(Ask(paste))
    assert time.process_time() - started < 0.5
