"""Fills the slots of a template: numbers, names, places, days. Seeded by the caller; one drawing a prompt."""

import random
import re

_SLOT = re.compile(r"\{(name|city|country|lang|noun|day|pct|odd|n|m|k|b|h|p)(\d?)\}")
"""Other braces stay: they belong to code and to LaTeX."""


def _words(text: str) -> list[str]:
    return text.split("|")


_NAMES = _words(
    "Ana|Ben|Carla|Dev|Emre|Fatima|Greg|Hana|Ivo|Julia|Kofi|Lena|Marta|Noor|Oskar|Priya|Rosa|Sam|Tara|Vera|Yusuf|Zoe"
)
_CITIES = _words("Lyon|Leeds|Osaka|Porto|Denver|Accra|Lima|Graz|Turku|Pune|Kyiv|Izmir|Hanoi|Nairobi|Busan")
_COUNTRIES = _words("Peru|Kenya|Norway|Japan|Chad|Canada|Vietnam|Poland|Brazil|Egypt|Nepal|Cuba")
_LANGUAGES = _words("German|French|Spanish|Hindi|Turkish|Polish|Japanese|Swahili|Portuguese|Arabic|Dutch|Korean")
_NOUNS = _words("mouse|crisis|knife|theorem|matrix|octopus|child|proof|bus|criterion|analysis")
_DAYS = _words("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
_PRIMES = (2, 3, 5, 6, 7, 10, 11, 13, 15)


def fill(template: str, rng: random.Random, known: dict[str, str], dress: dict[str, list[str]]) -> str:
    """The template with its slots filled; `known` keeps what content and ask share, and is added to."""

    def value(match: re.Match[str]) -> str:
        name = match.group(0)
        if name not in known:
            known[name] = _draw(match.group(1), match.group(2), rng, known, dress)
        return known[name]

    return _SLOT.sub(value, template)


def _draw(kind: str, digit: str, rng: random.Random, known: dict[str, str], dress: dict[str, list[str]]) -> str:
    taken = set(known.values())
    if kind in ("name", "city"):
        pool = (dress.get("names") if kind == "name" else dress.get("cities")) or (
            _NAMES if kind == "name" else _CITIES
        )
        return rng.choice([value for value in pool if value not in taken] or pool)
    words = {"country": _COUNTRIES, "lang": _LANGUAGES, "noun": _NOUNS, "day": _DAYS}
    if kind in words:
        return rng.choice(words[kind])
    if kind == "m" and digit == "4":
        return f"{rng.randrange(0, 60):02d}"
    spans = {"n": (2, 10), "m": (11, 99), "k": (101, 990), "b": (1200, 98000), "h": (5, 22), "pct": (2, 45)}
    if kind in spans:
        return str(rng.randrange(*spans[kind]))
    if kind == "odd":
        return str(rng.randrange(91, 9999, 2))
    return str(rng.choice(_PRIMES))
