"""The generator of crossed prompts: seeded, of both labels, in many languages, with whole templates held out."""

from collections import Counter
from pathlib import Path

import pytest

from router.training.crossed import generate, pairs, problems, read_templates
from router.training.crossed.generate import is_held
from router.training.crossed.steps import graded

TEMPLATES = read_templates()


def test_the_same_seed_gives_the_same_prompts() -> None:
    assert generate(TEMPLATES, 50, 3) == generate(TEMPLATES, 50, 3)
    assert generate(TEMPLATES, 50, 3) != generate(TEMPLATES, 50, 4)


def test_labels_are_even_and_languages_many() -> None:
    made = generate(TEMPLATES, 2000, 1)
    assert Counter(one.label for one in made) == {0: 1000, 1: 1000}
    assert len({one.lang for one in made}) >= 30
    assert all((one.complexity > 0.4) is (one.label == 1) for one in made)


def test_no_slot_is_left_open() -> None:
    for one in generate(TEMPLATES, 3000, 2):
        assert not any(slot in one.text for slot in ("{n}", "{m}", "{k}", "{name}", "{pct}", "{odd}", "{lang}"))


def test_length_does_not_tell_the_label() -> None:
    """What a reader of lengths alone would get right must stay near chance, or the data teaches length."""
    made = generate(TEMPLATES, 4000, 5)
    best = max(
        max(share, 1 - share)
        for cut in range(10, 400, 10)
        for share in [sum((len(one.text) > cut) == (one.label == 1) for one in made) / len(made)]
    )
    assert best < 0.62


def test_templates_are_held_out_whole() -> None:
    asks = [ask.text for language in TEMPLATES.values() for scene in language.scenes for ask in scene.asks]
    held = sum(map(is_held, asks)) / len(asks)
    assert 0.05 < held < 0.2
    assert {is_held(text) for text in asks * 2} == {True, False}


def test_groups_are_even_in_each_language_and_held_out_whole() -> None:
    fitted, held = pairs(TEMPLATES, 4), pairs(TEMPLATES, 4, held=True)
    labels = Counter((one.lang, one.label) for one in fitted)
    assert len({one.lang for one in fitted}) >= 20
    assert all(labels[lang, 0] == labels[lang, 1] for lang, _ in labels)
    assert all(one.is_held for one in held)
    assert not any(one.is_held for one in fitted)
    assert len(held) == sum(
        len(group.asks) for language in TEMPLATES.values() for group in language.groups if group.is_held
    )
    assert {len(one.history) for one in fitted} == {0, 1}
    left_open = ("{n}", "{m}", "{k}", "{b}", "{h}", "{name}", "{city}", "{lang}", "{pct}", "{odd}")
    assert not any(mark in one.text for one in (*fitted, *held) for mark in left_open)


def test_a_share_of_the_groups_is_drawn_anew_for_each_seed() -> None:
    whole, some, others = pairs(TEMPLATES, 4), pairs(TEMPLATES, 4, share=0.5), pairs(TEMPLATES, 5, share=0.5)
    assert 0.4 < len(some) / len(whole) < 0.6
    assert len({one.text for one in some} & {one.text for one in others}) < 0.7 * len(some)
    assert len(pairs(TEMPLATES, 4, held=True, share=0.5)) == len(pairs(TEMPLATES, 4, held=True))


def test_a_group_asks_both_labels_of_one_content() -> None:
    """A content whose asks were all of one label would teach the content."""
    for language in TEMPLATES.values():
        for group in language.groups:
            assert {ask.label for ask in group.asks} == {0, 1}, (language.code, group.content, group.asks[0].text)


def test_length_does_not_tell_the_label_of_a_group_either() -> None:
    made = pairs(TEMPLATES, 2)
    best = max(
        max(share, 1 - share)
        for cut in range(5, 400, 10)
        for share in [sum((len(one.text) > cut) == (one.label == 1) for one in made) / len(made)]
    )
    assert best < 0.62


def test_problems_have_counted_steps_and_are_held_out_by_text() -> None:
    fitted, held = problems(3), problems(3, held=True)
    assert 0.1 < len(held) / (len(fitted) + len(held)) < 0.25
    assert not {one.text for one in fitted} & {one.text for one in held}
    assert {one.label for one in (*fitted, *held)} == {1}
    assert len({one.complexity for one in fitted}) >= 7
    assert not any("{" in one.text for one in (*fitted, *held))
    assert problems(3) == fitted


def test_more_steps_are_more_complex_and_bounded() -> None:
    grades = [graded(steps) for steps in range(1, 14)]
    assert grades == sorted(grades)
    assert grades[0] > 0.3
    assert grades[-1] <= 0.7


@pytest.mark.parametrize("line", ["a problem without a count", "3", "three How many?"])
def test_a_line_without_count_or_problem_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "xx.txt"
    path.write_text(f"2 Two and two?\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"xx\.txt:2"):
        problems(1, path=path)
