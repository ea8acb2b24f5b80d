"""How much repetition is too much: every threshold of the detector, with where it comes from.

Lengths are in characters of the text. A limit is multiplied by the rope of the unit (`rope`), of the channel, of the
request, and of what else speaks for or against a loop. What must not come in: measuring.
"""

from __future__ import annotations

from typing import Final

ANSWER_ROPE: Final = 2.0
"""Answers: people ask for lists, tables and refrains there."""

ASKED_ROPE: Final = 2.0
"""A prompt that asks for repetition or ASCII art."""

FLOOD: Final = 300
"""Times one character may stand in a row: 40 emoji and 100 dots are legitimate (ollama #18374), `!` x 300 never was."""

FIRST_FLOOD: Final = 120
"""The same from the very first token on: nobody begins a thought like that, and the worker is sick."""

BLANKS: Final = 600
"""Blanks of any sort in a row: padded tables have 300."""

LINE_ENDS: Final = 80
"""Line ends among blanks in a row: each may be a token, and no layout has so many."""

PACKED: Final = 0.5
"""Chinese, Japanese and Korean: so many characters say as much."""

SHORTEST_RUN: Final = 320
_TINY_PERIOD: Final = 16
_TINY_RUN: Final = 400
_MOST_COPIES: Final = 7
_LONG_PERIOD: Final = 560


def exact_run(period: int, *, packed: bool) -> float:
    """Characters of exact repetition, beyond the first copy, that make a loop of this period.

    Seven copies more of a phrase, 560 characters more after the second copy of a paragraph, a third copy of anything
    longer: two copies are a model that verifies its work. `packed`: a script that says in one character what takes
    Latin two and more.
    """
    scale = PACKED if packed else 1.0
    if period <= _TINY_PERIOD:
        return _TINY_RUN * scale
    return max(SHORTEST_RUN * scale, min(_MOST_COPIES * period, max(period + _LONG_PERIOD * scale, 2 * period)))


# --- text that says nothing new -------------------------------------------------------------------------------------
# Compressed shares are zlib's at level 1. Measured on the benchmark's tuning half, on 800 ordinary and 236 degenerate
# outputs of 228 models, and on 17 million tokens of code and documentation. English prose is at 0.36 and above,
# calculations and records at 0.10 and above, counters with a text below 0.06, a handful of sentences at 0.13.

DENSE_CHECKS: Final = 2
"""Stretches of 1,024 characters in a row that must be dense."""

FRESH_ENOUGH: Final = 0.2
"""Share of new words in the last 4 KiB from which nothing is compressed at all: the text gets on."""

SMALL_ANY: Final = 0.065
"""Compressed share of 4 KiB that calculations, tables and traces stay above."""

SMALL_PLAIN: Final = 0.10
"""The same for plain words without digits."""

SMALL_ECHOED: Final = 0.16
"""The same where moreover most sentences have been said before, or where there are no words."""

SMALL_SALAD: Final = 0.26
"""The same where 4 KiB are made of `SALAD_WORDS` different words, or are a list of `LIST_WORDS`."""

SMALL_STALE: Final = 0.30
"""The same where moreover no word is new and 16 KiB are below `LARGE_ECHOED`: slow cycles."""

LARGE_ECHOED: Final = 0.22
"""Compressed share of 16 KiB; the least of 800 ordinary outputs is 0.30."""

DIGITS: Final = 0.02
"""Share of digits from which a text calculates: only `SMALL_ANY` counts, unless it is a handful of sentences."""

LETTERS: Final = 0.5
"""Share of letters below which a text draws or tabulates: as with digits."""

SALAD_WORDS: Final = 14
LIST_WORDS: Final = 24
WORD_LENGTH: Final = 4
"""Characters a word and its blank must have on average: shorter ones are codes (coin flips, bases), not words."""

STALE: Final = 0.04
"""Share of new words in the last 4 KiB below which none to speak of are new."""

ECHO: Final = 0.6
"""Share of the last 4 KiB in sentences that were said before."""

# --- near copies ----------------------------------------------------------------------------------------------------
# Shares of grams, as `alignment` has them. Where one word in eight is changed at random, two thirds of all grams are
# copied: 0.47 from the last copy, 0.15 from the one before, 0.05 from the one before that. Licence texts, boilerplate
# and API references reach the first two, not the third.

COPIED_STRETCH: Final = 0.33
"""Share copied from which a stretch counts as copied; the loop must have gone on so for two periods at least."""

COPIED: Final = 0.5
"""Share copied of the last 4 KiB."""

LEAST_WORDS: Final = 450
"""Words that must be mostly copied, however short the period."""

NEAR_ONCE: Final = 0.3
NEAR_HELD: Final = 0.52
NEAR_TWICE: Final = 0.06
NEAR_THRICE: Final = 0.01

NEAR_CORE: Final = 0.42
"""Most of the passage that may have stayed the same in all of the last copies: more of it is a template."""

NEW_IN_A_ROW: Final = 24
"""Most words in a row that may be new: changed words are scattered, a next step is not."""

UNCHANGED: Final = 0.8
NOTHING_NEW: Final = 0.003
"""So much copied, and so few new words: three copies more are enough, whatever changed."""

NUMBERS: Final = 0.12
"""Share of digits from which nothing is taken for a near copy: each number may be a step."""

PROSE_DIGITS: Final = 0.05

PROSE_LETTERS: Final = 0.6
PROSE_SLACK: Final = 0.8
"""Where so few are digits and so many letters, so much of `NEAR_ONCE` and `NEAR_HELD` will do:
prose repeats short things only."""

NEAR_CHECKS: Final = 1
"""Stretches in a row."""
