"""The generator of crossed prompts: seeded, of both labels, in many languages, with whole templates held out."""

from collections import Counter

from router.training.crossed import generate, pairs, read_templates
from router.training.crossed.generate import is_held

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
    left_open = ("{n}", "{m}", "{k}", "{b}", "{h}", "{name}", "{city}", "{lang}", "{pct}", "{odd}", " >> ")
    assert not any(mark in one.text for one in (*fitted, *held) for mark in left_open)


def test_a_group_asks_both_labels_of_one_content() -> None:
    """A content whose asks were all of one label would teach the content."""
    for language in TEMPLATES.values():
        for group in language.groups:
            assert {ask.label for ask in group.asks} == {0, 1}, (language.code, group.content, group.asks[0].text)


def test_length_does_not_tell_the_label_of_a_group_either() -> None:
    made = [one for seed in range(3) for one in pairs(TEMPLATES, seed)]
    best = max(
        max(share, 1 - share)
        for cut in range(5, 400, 10)
        for share in [sum((len(one.text) > cut) == (one.label == 1) for one in made) / len(made)]
    )
    assert best < 0.62
