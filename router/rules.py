"""Asks that need no classifier: empty ones, greetings, thanks, pictures without words, a bare go-ahead.

A rule fires on the whole turn or not at all; a greeting with a question after it is a question. Everything here takes
microseconds. Rules that read a client's controls (efforts, model names) belong to the gateway.
"""

from typing import Final
from unicodedata import category

from router.ask import Ask
from router.decision import Decision, Route, Tier
from router.phrases import APPROVALS, GREETINGS, THANKS

_LONGEST: Final = 48
"""Characters beyond which a turn is no greeting and no go-ahead."""

_P_RULE: Final = 0.02
"""What a rule leaves to doubt."""


_THUMBS: Final = ("👍", "👌", "✅", "🆗")


def is_approval(ask: Ask) -> bool:
    """The turn only says yes to the turn before it, whose verdict then holds."""
    if not ask.earlier:
        return False
    normal = _normal(ask.text)
    return normal in APPROVALS or (normal == "" and ask.text.strip().startswith(_THUMBS))


def apply_rules(ask: Ask) -> Decision | None:
    """The verdict of the first rule that fires, in the order written here; None leaves the ask to the classifier."""
    normal = _normal(ask.text)
    if normal is None:
        return None
    if not normal and not ask.text.strip():
        return _standard("an image without a question" if ask.has_images else "an empty turn")
    if normal in GREETINGS:
        return _standard("short greeting")
    if normal in THANKS:
        return _standard("thanks or small talk")
    if ask.earlier:
        return None
    if normal in APPROVALS:
        return _standard("a go-ahead with nothing before it")
    return None if normal else _standard("no words in the turn")


def _standard(why: str) -> Decision:
    return Decision(Route.STANDARD, 0.02, 1.0 - _P_RULE, _P_RULE, Tier.RULE, (why,))


def _normal(text: str) -> str | None:
    """The turn in lower case without punctuation and emoji; None when it is too long for any rule."""
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    letters = (letter if _is_letter(letter) else " " for letter in text.lower().replace("'", ""))
    return " ".join("".join(letters).split())


def _is_letter(letter: str) -> bool:
    """Letters, digits and the vowel signs some scripts write as marks; not the marks that colour an emoji."""
    return letter.isalnum() or (category(letter)[0] == "M" and not "\ufe00" <= letter <= "\ufe0f")
