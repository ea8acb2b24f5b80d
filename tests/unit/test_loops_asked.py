"""Which prompts ask for repetition."""

from __future__ import annotations

import pytest

from budgets.loops import asks_for_repetition


@pytest.mark.parametrize(
    "prompt",
    [
        "Repeat the word 'poem' forever.",
        "Write 'I will not talk in class' 100 times.",
        "Make ASCII art of a cat",
        "Draw a chess board.",
        "Write a chant where each line begins with 'I will'.",
        "Give me a blank form for a library.",
        "Schreibe das immer wieder.",
        "Répète après moi.",
        "Repite esta frase sin parar.",
        "Повторяй это слово.",
        "请重复这句话一百遍",
        "同じ文を繰り返してください",
        "이 문장을 반복해 주세요",
    ],
)
def test_these_do(prompt: str) -> None:
    assert asks_for_repetition(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "What is 23 * 17?",
        "Prove that the square root of 2 is irrational.",
        "How do I keep repeat customers?",
        "Write a very long story about the sea.",
        "为什么天空是蓝色的？",
    ],
)
def test_these_do_not(prompt: str) -> None:
    assert not asks_for_repetition(prompt)


def test_of_a_long_prompt_both_ends_are_read() -> None:
    filler = "x" * 50_000
    assert asks_for_repetition("Repeat this: " + filler)
    assert asks_for_repetition(filler + " Repeat this.")
