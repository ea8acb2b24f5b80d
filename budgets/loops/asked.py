"""Whether a prompt asks for repetition or for drawing with characters: then a detector waits longer.

A hint, not a verdict: a wrong yes makes a loop cost twice the tokens, a wrong no leaves the ordinary limits. What must
not come in: anything that changes what is asked of a model.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 20_000
"""Characters of a prompt that are read, half from each end: the ask stands at one of them."""

_STEMS: Final = (
    *("repeat", "repetiti", "over and over", "again and again", "forever", "for ever", "endless", "infinite"),
    *("nonstop", "non-stop", "never stop", " times", "keep saying", "keep writing", "keep printing", "ascii"),
    *(
        "emoji art",
        "text art",
        "braille",
        "draw",
        "hopscotch",
        "sheet music",
        "abc notation",
        "mantra",
        "chant",
        "refrain",
        "blank ",
        "dna",
    ),
    *("placeholder", "fill in", "fill-in", "count"),
    *("wiederhol", "endlos", "immer wieder", "hintereinander", "zeichne", "répèt", "répét", "répêt", "repèt", "repét"),
    *("repêt", "rèpèt", "rèpet", "répet", "sans fin", "sans arr", "dessine", "repit", "repet", "sin fin", "sin parar"),
    *("dibuja", "desenh", "ripet", "disegna", "herhaal", "powtorz", "powtórz", "tekrar", "lặp lại"),
    *("повтор", "бесконечно", "нарису", "كرر", "दोहरा"),
    *("重复", "重複", "反复", "反復", "繰り返", "くりかえ", "无限", "無限", "반복", "계속", "字符画", "アスキーアート"),
)
"""One of these stands in every ask. They are found a hundred times as fast as the pattern, which judges the place."""

_ASKS: Final = re.compile(
    r"""
      \brepeat(?:s|ed|ing|edly)?\b (?!\s+(?:customer|purchase|buyer|business|offender)) | \brepetiti(?:on|ve)\b
    | \bover\ and\ over\b | \bagain\ and\ again\b | \bfor\s?ever\b | \bendless(?:ly)?\b | \binfinite(?:ly)?\b
    | \bnon-?stop\b | \bnever\ stop\b | \b(?:\d{2,}|hundred|thousand|fifty|twenty)\s+times\b
    | \bkeep\ (?:saying|writing|printing)\b | \bascii\b | \bemoji\ art\b | \btext\ art\b | \bbraille\b | \bdraw\b
    | \bhopscotch\b | \bsheet\ music\b | \babc\ notation\b | \bmantra\b | \bchant(?:s|ing)?\b | \brefrain\b
    | \bblank\ (?:form|table|template)\b | \bdna\s+sequence\b | \bplaceholder\b
    | \bfill[ -]in\b | \bcount\s+(?:up\s+|down\s+)?(?:from\s+)?(?:to\s+)?\d+
    | \bwiederhol | \bendlos | \bimmer\ wieder\b | \bmal\s+hintereinander\b | \bzeichne
    | \br[eéè]p[èéê]t | \bsans\ (?:fin|arr[êe]t)\b | \bdessine
    | \brepit[ea] | \brepet(?:ir|e|i[çc][ãa]o|ici[óo]n) | \bsin\ (?:fin|parar)\b | \bdibuja | \bdesenh
    | \bripet | \bdisegna | \bherhaal | \bpowt[óo]rz | \btekrar | \blặp\ lại
    | повтор | бесконечно | нарису | كرر | दोहरा
    | 重复 | 重複 | 反复 | 反復 | 繰り返 | くりかえ | 无限 | 無限 | 반복 | 계속 | 字符画 | アスキーアート
    """,
    re.VERBOSE,
)

_BEFORE, _AFTER = 32, 64
"""Characters around a stem that the pattern is shown; no ask is longer."""

_MOST_PLACES: Final = 16
"""Places that are judged: a prompt that counts and draws all the time asks for nothing by it."""


def asks_for_repetition(prompt_text: str) -> bool:
    """Whether the words of a prompt ask for repetition, endlessness, ASCII art or the like, in some 15 languages."""
    if len(prompt_text) > LONGEST:
        prompt_text = prompt_text[: LONGEST // 2] + "\n" + prompt_text[-LONGEST // 2 :]
    text, judged = " ".join(prompt_text.lower().split()), 0
    for stem in _STEMS:
        place = text.find(stem)
        while place >= 0 and judged < _MOST_PLACES:
            if _ASKS.search(text, max(0, place - _BEFORE), place + _AFTER):
                return True
            judged += 1
            place = text.find(stem, place + len(stem))
    return False
