"""The generator of crossed prompts: seeded, of both labels, in many languages, with whole templates held out."""

from collections import Counter

from router.training.crossed import generate, read_templates
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
