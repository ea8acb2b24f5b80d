"""What a double says, and how it fails.

The text is a keyed sequence: token *i* of a thought follows from the request's key and *i*, and the answer follows from
the key *and the thought it was given*. Nothing but correct behaviour reproduces it: a lost, doubled, reordered or
leaked token shows, and so does a continuation that did not carry the thought.

A script is chosen by a control string in the last user message, `#double key=a1 think=40 die_after=12#`, over the
double's default script.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import Any, Final

from benchmarks.loops.shapes import shapes

CONTROL: Final = re.compile(r"#double ([^#\n]*)#")
_TOKEN: Final = re.compile(r"\s*\S{1,6}|\s+")
_CONSONANTS: Final = "bdfgklmnprstvz"
ANSWER_TOKENS: Final = 12
_VOWELS: Final = "aeiouöü"
_OPTIONAL_INTS: Final = frozenset(
    {"loop_after", "die_after", "eof_after", "error_after", "garbage_after", "stall_after", "drop_after"}
)


@dataclass(frozen=True, slots=True)
class Script:
    """One generation. Every `*_after` counts tokens of text, thought and answer together, sent before the fault."""

    key: str = ""
    asked: str = ""
    """The key that the prompt named, where a pair speaks with another's voice."""
    think: int = 24
    ans: int = ANSWER_TOKENS
    finish: str = "stop"
    format: str = "auto"
    """`split` (the engine separates), `raw` (`<think>` in the text), `raw_open` (the template opened it), `auto`."""
    first_ms: float = 0
    """From the request to the first token."""
    headers_ms: float = 0
    """From the request to the status line."""
    delay_ms: float = 0
    """Between two tokens."""
    per_event: int = 1
    """Tokens of one kind in one event, as with vLLM's `stream_interval`."""
    mixed: int = 0
    """1: the last thought and the first answer token share one delta (vLLM does this when it batches)."""
    burst: int = 1
    """Events in one write."""
    write_bytes: int = 0
    """Split each write into HTTP chunks of so many bytes, sent one by one; 0 does not split."""
    chunk_chars: int = 0
    """Raw formats only: cut the text every so many characters, through markers too."""
    tells: str = "honest"
    """The truth about usage: `honest`, `lying` (numbers that cannot be true) or `none` (never sent)."""
    loop_after: int | None = None
    """From this thought token on, the same `loop_period` words come again and again."""
    loop_period: int = 7
    calls: int = 0
    """1: after its answer the model calls a tool; parsed on a chat route with tools, text elsewhere."""
    recite: int = -1
    """Say the text of this loop shape (`benchmarks.loops.shapes`, by number) instead of the keyed thought."""
    recite_size: int = 8_000
    """Characters of its loop."""
    recite_in: str = "think"
    """`answer`: the keyed thought, and then the text as the answer."""
    floods: int = 0
    """1: nothing but this worker's `!`, whatever was asked."""
    quits: int = 0
    """1: stop in mid-thought, with the finish reason of a good end."""
    times: int = 0
    """Faults happen to the first so many requests of this key, on whichever double; 0: to all."""
    status: int = 0
    """Answer with this HTTP status instead of a stream."""
    retry_after: str = ""
    error_first: int = 0
    """An error event with this code as the first event of a 200 stream."""
    error_after: int | None = None
    error_code: int = 500
    die_after: int | None = None
    """Reset the connection."""
    eof_after: int | None = None
    """End the body properly, without finish_reason and without [DONE]."""
    drop_after: int | None = None
    """Close the connection in the middle of an HTTP chunk."""
    garbage_after: int | None = None
    """Send bytes that are no JSON, then stay open."""
    stall_after: int | None = None
    """Say nothing more until the test releases the exchange or the client goes."""
    drop_request: int = 0
    """1: close the connection without a byte of an answer."""

    @property
    def fault(self) -> tuple[str, int] | None:
        """The in-stream fault and the count of tokens at which it strikes."""
        for name in ("die_after", "eof_after", "drop_after", "error_after", "garbage_after", "stall_after"):
            if (at := getattr(self, name)) is not None:
                return name, at
        return None

    def without_faults(self) -> Script:
        clean = Script()
        names = [*_OPTIONAL_INTS - {"loop_after"}, "status", "error_first", "drop_request", "recite"]
        return replace(self, **{name: getattr(clean, name) for name in names})


def ask(key: str, text: str = "Please go on.", **controls: Any) -> str:
    """A user message that makes a double say `key`'s text under these controls."""
    said = " ".join([f"key={key}", *(f"{name}={value}" for name, value in controls.items())])
    return f"#double {said}# {text}"


def script_for(text: str, default: Script) -> Script:
    """The default with what the last control string in `text` says; a key is made from the text if none is given."""
    found = CONTROL.findall(text)
    changes = _controls(found[-1]) if found else {}
    script = replace(default, **changes)
    return script if script.key else replace(script, key=blake2b(text.encode(), digest_size=4).hexdigest())


def _controls(said: str) -> dict[str, Any]:
    kinds = {field.name: type(getattr(Script(), field.name)) for field in fields(Script)}
    changes: dict[str, Any] = {}
    for part in said.split():
        name, _, value = part.partition("=")
        if name not in kinds:
            raise ValueError(f"no such control: {part!r}")
        changes[name] = int(value) if name in _OPTIONAL_INTS else kinds[name](value)
    return changes


@lru_cache(maxsize=65_536)
def word(*seed: str | int) -> str:
    """Three letters that this seed gives, about as long as a real token; some vowels take two bytes."""
    bits = int.from_bytes(blake2b("/".join(map(str, seed)).encode(), digest_size=8).digest())
    bits, first = divmod(bits, len(_CONSONANTS))
    bits, vowel = divmod(bits, len(_VOWELS))
    return _CONSONANTS[first] + _VOWELS[vowel] + _CONSONANTS[bits % len(_CONSONANTS)]


@lru_cache(maxsize=256)
def recited(shape: int, size: int) -> tuple[str, ...]:
    """The text of a shape in pieces about as long as tokens."""
    make = list(shapes().values())[shape]
    return tuple(_TOKEN.findall(make(Random(shape), size).text))


def think_count(script: Script) -> int:
    if script.floods:
        return 2_000
    return (
        len(recited(script.recite, script.recite_size))
        if script.recite >= 0 and script.recite_in == "think"
        else script.think
    )


def answer_count(script: Script) -> int:
    return len(recited(script.recite, script.recite_size)) if script.recite_in == "answer" else script.ans


def think_token(script: Script, i: int) -> str:
    """Token `i` of the thought, numbered; a sentence ends every eighth token."""
    if script.floods:
        return "!!!!"
    if script.recite >= 0 and script.recite_in == "think":
        pieces = recited(script.recite, script.recite_size)
        return pieces[i] if i < len(pieces) else "\0"
    space = " " if i else ""
    if script.loop_after is not None and i >= script.loop_after:
        place = (i - script.loop_after) % script.loop_period
        return f"{space}{word(script.key, 'loop', place)}{'.' if place == script.loop_period - 1 else ''}"
    return f"{space}{word(script.key, 'think', i)}{i}{'.' if i % 8 == 7 else ''}"


def thought(key: str, count: int) -> str:
    """The first `count` tokens that `key` thinks."""
    script = Script(key=key)
    return "".join(think_token(script, i) for i in range(count))


def proof(key: str, thought_given: str) -> str:
    """What shows in an answer that its engine knew this thought; white space around it does not count."""
    return blake2b(f"{key}|{thought_given.strip()}".encode(), digest_size=4).hexdigest()


def answer_token(key: str, proven: str, i: int) -> str:
    if i == 0:
        return f"Answer({proven}):"
    return f" {word(key, 'answer', proven, i)}{i}{'.' if i % 8 == 7 else ''}"


def call_arguments(key: str, proven: str) -> str:
    """The JSON arguments of the tool call that `key` makes after a thought with this proof."""
    return f'{{"proof":"{proven}","of":"{key}"}}'


def expected_call(key: str, thought_given: str) -> str:
    return call_arguments(key, proof(key, thought_given))


def expected_answer(key: str, thought_given: str, count: int = ANSWER_TOKENS) -> str:
    """The answer of `count` tokens after exactly this thought (empty: without thinking)."""
    proven = proof(key, thought_given)
    return "".join(answer_token(key, proven, i) for i in range(count))
