"""Prompts from templates, seeded: scenes with their own asks, asks on any content, terse ones, follow-ups.

A template is held out whole or not at all (by a digest of its text), so that held-out prompts test templates never
seen. Nothing is read here but templates and the contents that the caller lends.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from router.training.crossed.dress import dress, harness, join
from router.training.crossed.slots import fill
from router.training.crossed.templates import ANY, FOLLOWUP, SOLO, TERSE, Ask, Language, Scene, Templates

HELD_SHARE = 0.12
STORY_FIRST = (0.35, 0.08)
"""Share of a group's asks without content that come after a text of another group, by label: it evens the lengths."""
_REPLIES = ("Sure.", "Here is what I found.", "It depends.", "Let me think about that.", "Done.", "OK.", "…")


@dataclass(frozen=True, slots=True)
class Made:
    text: str
    label: int
    complexity: float
    lang: str
    kind: str
    is_held: bool
    """Made from a held-out template: for figures, never for fitting."""
    history: tuple[str, ...] = ()
    """Earlier user turns, oldest first."""


def is_held(template: str) -> bool:
    return hashlib.sha256(template.encode()).digest()[0] < 256 * HELD_SHARE


def generate(templates: Templates, count: int, seed: int, lent: Sequence[tuple[str, str]] = ()) -> list[Made]:
    """`count` prompts, half of each label. `lent`: (language, text) of problems to be edited, translated, quoted.

    A third is English, the rest even over the other languages that have scenes.
    """
    rng = random.Random(seed)
    templates = {code: language for code, language in templates.items() if language.scenes}
    codes = sorted(templates)
    made: list[Made] = []
    for number in range(count):
        code = "en" if rng.random() < 0.36 else rng.choice(codes)
        made.append(_one(templates[code], number % 2, rng, templates, lent))
    return made


def pairs(templates: Templates, seed: int, *, held: bool = False, share: float = 1.0) -> list[Made]:
    """Every ask of the groups once, its slots drawn anew, and as many of the rarer label again as make both equal.

    Even within each language; only the groups held out, or only the others, and of these a `share` drawn whole.
    """
    rng = random.Random(seed)
    made: list[Made] = []
    for code in sorted(templates):
        language = templates[code]
        groups = [group for group in language.groups if group.is_held is held and (held or rng.random() < share)]
        asks = [(group, ask) for group in groups for ask in group.asks]
        chosen = list(asks)
        if not held:
            few = sorted((0, 1), key=lambda label: sum(ask.label == label for _, ask in asks))[0]
            again = [item for item in asks if item[1].label == few]
            chosen += rng.sample(again, min(len(again), len(asks) - 2 * len(again)))
        made.extend(_grouped(language, group, ask, rng) for group, ask in chosen)
    return made


def _grouped(language: Language, group: Scene, ask: Ask, rng: random.Random) -> Made:
    known: dict[str, str] = {}
    content = fill(group.content, rng, known, language.dress)
    *before, last = (fill(turn, rng, known, language.dress) for turn in ask.text.split(" >> "))
    text = join(content, last, rng) if content else last
    stories = [scene.content for scene in language.groups if scene.content and scene.is_held is group.is_held]
    if not content and not before and stories and rng.random() < STORY_FIRST[ask.label]:
        text = f"{fill(rng.choice(stories), rng, {}, language.dress)}{rng.choice((' ', chr(10), chr(10) * 2))}{last}"
    if not group.is_held:
        text = dress(text, rng, language.dress.get("pre", []), language.dress.get("post", []))
    if rng.random() < 0.05:
        text = harness(text, rng)
    return Made(text, ask.label, ask.complexity, language.code, "group", group.is_held, tuple(before))


def _one(
    language: Language, label: int, rng: random.Random, templates: Templates, lent: Sequence[tuple[str, str]]
) -> Made:
    while True:
        draw = rng.random()
        if draw < 0.34:
            made = _scene(language, label, rng)
        elif draw < 0.48:
            made = _alone(language, TERSE, label, rng)
        elif draw < 0.72:
            made = _alone(language, SOLO, label, rng)
        elif draw < 0.84:
            made = _follow_up(language, label, rng)
        else:
            made = _any(language, label, rng, templates, lent)
        if made is not None:
            return made


def _finish(
    text: str, ask: Ask, language: Language, kind: str, rng: random.Random, *, history: tuple[str, ...] = ()
) -> Made:
    text = dress(text, rng, language.dress.get("pre", []), language.dress.get("post", []))
    if rng.random() < 0.07:
        text = harness(text, rng)
    return Made(text, ask.label, ask.complexity, language.code, kind, is_held(ask.text), history)


def _pick(asks: Sequence[Ask], label: int, rng: random.Random) -> Ask | None:
    fitting = [ask for ask in asks if ask.label == label]
    return rng.choice(fitting) if fitting else None


def _scene(language: Language, label: int, rng: random.Random) -> Made | None:
    scene = rng.choice(language.scenes)
    asks = scene.asks if label or rng.random() < 0.6 else [*scene.asks, *language.kinds.get(ANY, [])]
    ask = _pick(asks, label, rng)
    if ask is None:
        return None
    known: dict[str, str] = {}
    content = fill(scene.content, rng, known, language.dress)
    return _finish(join(content, fill(ask.text, rng, known, language.dress), rng), ask, language, "scene", rng)


def _alone(language: Language, kind: str, label: int, rng: random.Random) -> Made | None:
    ask = _pick(language.kinds.get(kind, []), label, rng)
    if ask is None:
        return None
    text = fill(ask.text, rng, {}, language.dress)
    history: tuple[str, ...] = ()
    if rng.random() < 0.12:  # a new topic after another: nothing may be inherited
        scene = rng.choice(language.scenes)
        history = (fill(scene.content + "\n" + rng.choice(scene.asks).text, rng, {}, language.dress),)
    elif rng.random() < 0.1:  # a story first, the ask at its end
        text = f"{fill(rng.choice(language.scenes).content, rng, {}, language.dress)}\n{text}"
    return _finish(text, ask, language, kind, rng, history=history)


def _follow_up(language: Language, label: int, rng: random.Random) -> Made | None:
    ask = _pick(language.kinds.get(FOLLOWUP, []), label, rng)
    if ask is None:
        return None
    scene = rng.choice(language.scenes)
    known: dict[str, str] = {}
    content = fill(scene.content, rng, known, language.dress)
    before = join(content, fill(rng.choice(scene.asks).text, rng, known, language.dress), rng)
    return _finish(fill(ask.text, rng, known, language.dress), ask, language, "followup", rng, history=(before,))


def _any(
    language: Language, label: int, rng: random.Random, templates: Templates, lent: Sequence[tuple[str, str]]
) -> Made | None:
    """An edit of any text (simple), or the same kind of text asked for real (reasoning)."""
    if label == 0:
        ask = _pick(language.kinds.get(ANY, []), 0, rng)
        if ask is None:
            return None
        if lent and rng.random() < 0.55:
            content = rng.choice(lent)[1]
        else:
            other = templates[rng.choice(sorted(templates))] if rng.random() < 0.3 else language
            scene = rng.choice(other.scenes)
            problem = fill(rng.choice(scene.asks).text, rng, known := {}, other.dress)
            content = f"{fill(scene.content, rng, known, other.dress)} {problem}"
        text = join(content[:1200], fill(ask.text, rng, {}, language.dress), rng)
        return _finish(text, ask, language, "any", rng)
    if not lent:
        return None
    code, content = rng.choice(lent)
    text = content if rng.random() < 0.6 else f'"{content}"'
    made = _finish(text[:1200], Ask(content, 0.6), language, "any", rng)
    return Made(made.text, 1, 0.6, code, "any", made.is_held)
