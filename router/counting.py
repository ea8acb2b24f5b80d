"""What a problem counts: quantities, rates, parts, comparisons, totals, spans of time, conditions.

They say how many steps an ask may take, where `lexicon` says what kind of ask it is: within GSM8K the number of
quantities orders the counted steps better (Spearman .52) than the length does (.40). Numbers and words of a clipped
text come in, counts go out; one look-up a word. No weights here.
"""

import math
import re
from collections.abc import Sequence
from typing import Final

_SPELLED: Final = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|eighteen|"
    "twenty|thirty|forty|fifty|sixty|hundred|thousand|dozen|couple|pair|single|once|zwei|drei|vier|fünf|sechs|"
    "sieben|acht|zehn|zwölf|deux|trois|quatre|cinq|sept|huit|dix|douze|dos|tres|cuatro|cinco|seis|siete|ocho|diez|"
    "dois|duas|três|quatro|sete|oito|dez|due|tre|quattro|cinque|sei|sette|otto|dieci|twee|drie|vijf|zes|zeven|tien|"
    "dwa|dwie|trzy|cztery|pięć|sześć|siedem|osiem|dziesięć|два|две|три|четыре|пять|шесть|семь|восемь|десять|iki|üç|"
    "dört|beş|altı|yedi|sekiz|on"
)
_PARTS: Final = (
    "half|halves|third|thirds|quarter|quarters|fourth|fourths|fifth|fifths|percent|twice|double|doubled|triple|"
    "fraction|hälfte|drittel|viertel|prozent|doppelt|moitié|tiers|quart|mitad|tercio|cuarto|doble|metade|terço|"
    "dobro|metà|terzo|doppio|helft|derde|połowa|половина|половину|треть|четверть|yarısı"
)
KINDS: Final = {
    "spelled numbers": _SPELLED,
    "rates": (
        "each|per|every|times|apiece|daily|weekly|monthly|yearly|hourly|rate|je|jede|jeder|pro|mal|chaque|cada|"
        "ogni|elke|każdy|каждый|каждая|раз|her"
    ),
    "parts": _PARTS,
    "comparisons": (
        "more|less|fewer|than|as|same|cheaper|older|younger|longer|shorter|taller|extra|additional|rest|another|"
        "also|both|other|mehr|weniger|als|plus|moins|que|más|menos|mais|più|meno|meer|minder|dan|więcej|mniej|niż|"
        "больше|меньше|чем|fazla"
    ),
    "totals": (
        "total|altogether|together|combined|left|remain|remains|remaining|all|sum|average|still|insgesamt|zusammen|"
        "übrig|ensemble|reste|quedan|juntos|restam|resta|totale|samen|razem|zostało|всего|вместе|осталось|toplam"
    ),
    "spans of time": (
        "minute|minutes|hour|hours|day|days|week|weeks|month|months|year|years|morning|afternoon|minuten|stunde|"
        "stunden|tag|tage|tagen|woche|wochen|jahre|heure|heures|jour|jours|semaine|ans|hora|horas|día|días|semana|"
        "años|dias|anos|ore|giorni|settimana|anni|uur|dagen|godzin|dni|lat|часов|часа|дней|лет|gün|saat"
    ),
    "conditions": (
        "if|when|then|after|before|but|until|while|first|second|next|finally|and|wenn|dann|nach|vor|und|si|quand|"
        "puis|après|et|cuando|después|y|quando|depois|e|dopo|als|na|en|jeśli|potem|i|если|потом|после|и|ve|sonra"
    ),
}
"""Words by what they count, parted by bars; a word may stand in several kinds."""

NAMES: Final = (
    "quantities",
    "numbers with spelled ones",
    "distinct numbers",
    "sentences",
    *KINDS,
    "fractions and decimals",
    "kinds of time",
    "distinct words",
)
"""Of the counts, in order."""

_SENTENCE: Final = re.compile(r"[.!?。！？]+(?:\s|$)")
_FRACTION: Final = re.compile(r"\d[./]\d")


def _kinds_of_word() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for index, words in enumerate(KINDS.values()):
        for word in words.split("|"):
            found[word] = (*found.get(word, ()), index)
    return found


_KINDS_OF: Final = _kinds_of_word()
_NUMBERS_AT, _PARTS_AT, _TIMES_AT = (list(KINDS).index(name) for name in ("spelled numbers", "parts", "spans of time"))


def counts(text: str, words: Sequence[str], numbers: Sequence[str]) -> list[float]:
    """Logarithms of the counts, in the order of `NAMES`, 0 or more. `words` in lower case, `numbers` runs of digits."""
    kinds = [0] * len(KINDS)
    times: set[str] = set()
    for word in words:
        for index in _KINDS_OF.get(word, ()):
            kinds[index] += 1
            if index == _TIMES_AT:
                times.add(word)
    written = len(numbers) + kinds[_NUMBERS_AT]
    found = (
        written + kinds[_PARTS_AT],
        written,
        len(set(numbers)),
        len(_SENTENCE.findall(text)),
        *kinds,
        len(_FRACTION.findall(text)),
        len(times),
        len(set(words)),
    )
    return [math.log1p(count) for count in found]
