"""Lexical features: their shape, their range, and that cues are found where they stand."""

import numpy as np
import pytest

from router import Ask
from router.clip import HEAD_CHARS, TAIL_CHARS, clip_ids, clip_text
from router.lexical import FEATURES, features
from router.lexicon import CUES


def value(name: str, text: str, earlier: str = "") -> float:
    return float(features(Ask(text, earlier))[FEATURES.index(name)])


def test_names_and_vector_agree() -> None:
    assert len(set(FEATURES)) == len(FEATURES) == len(features(Ask("")))
    assert not features(Ask("")).any()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prove", "Prove that it holds."),
        ("prove", "证明这个数列收敛"),
        ("prove", "Show that the sum is even"),
        ("compute", "Сколько таких чисел?"),
        ("compute", "それは全部でいくつですか"),
        ("transform", "Rewrite: prove the theorem"),
        ("recall", "что такое интеграл"),
        ("code marks", "x[0] = {}"),
        ("options", "Which?\nA) one\nB) two"),
        ("non-latin share", "как дела"),
        ("ends in a question", "真的吗？"),
    ],
)
def test_finds(name: str, text: str) -> None:
    assert value(name, text) > 0


def test_phrases_begin_where_words_begin() -> None:
    assert value("debug", "vscode cell") == 0.0
    assert value("recall", "somewhat issues") == 0.0


def test_edges() -> None:
    text = "Prove it. " + "The cat sat on the mat. " * 10 + "Translate all of it."
    assert value("prove at the head", text) == 1.0
    assert value("prove at the tail", text) == 0.0
    assert value("transform at the tail", text) == 1.0


def test_earlier_turn_counts() -> None:
    assert value("earlier hard cues", "and now?", "Prove the theorem.") > 0
    assert value("short follow-up", "and now?", "Prove the theorem.") == 1.0


def test_no_cue_stands_twice_in_one_kind() -> None:
    for cues in CUES.values():
        listed = cues.split("|")
        assert "" not in listed
        assert len(set(listed)) == len(listed)
        assert all(cue == cue.lower() for cue in listed)


def test_clipping_keeps_both_ends() -> None:
    text = "a" * 5000 + "b" * 5000
    clipped = clip_text(text)
    assert clipped.startswith("a" * HEAD_CHARS)
    assert clipped.endswith("b" * TAIL_CHARS)
    assert clip_text(clipped) == clipped
    assert clip_ids(range(200), 10) == [0, 1, 2, 3, 4, 195, 196, 197, 198, 199]
    assert clip_ids(range(3), 10) == [0, 1, 2]


def test_features_stay_small() -> None:
    wild = "∑ {}[] 99999999999999999999 WHY? prove, " * 500
    vector = features(Ask(wild, wild))
    assert np.isfinite(vector).all()
    assert vector.max() < 8.0
