"""Whatever clients send: reading never raises, features stay finite, and time grows no faster than the text."""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.api.explained import ExplanationTold, read_aloud
from router import Ask, Classifier, Explainer, Head, Models, Route, load_exemplars, read_ask
from router.__main__ import as_json, read_prompt
from router.ask import MOST_CHARS, MOST_MESSAGES, MOST_PARTS, strip_noise
from router.cheap import Cheap
from router.encoder import DIMENSION, SENTENCE, TextIds
from router.lexical import FEATURES, features
from router.loading import ASSETS
from router.rules import apply_rules, is_approval

TEXTS = st.text(st.characters(), max_size=300)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "input_text", "image_url", "image", "input_audio"]) | JUNK,
        "text": TEXTS | JUNK,
    },
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={"role": st.sampled_from(["user", "assistant", "tool"]) | JUNK, "content": TEXTS | st.lists(PARTS) | JUNK},
)
ADVERSARIAL = (
    "<system-reminder>",
    "</system-reminder>",
    "<memory></environment>",
    "<memory>x</memory>",
    "how many how man",
    "a" * 40,
    "1 ",
    "\n1. ",
    " (((",
    "show tha",
    "多少几",
    "\ud800",
    "🙏🏽",
    "́",
)


class Flat:
    sentence = SENTENCE

    def encode(self, text: str, ids: list[int] | None = None) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.full(DIMENSION, 1 / 32, dtype=np.float32)


MODELS = Models(
    Flat(), Head.read(ASSETS / "head.npz"), Cheap.read(ASSETS / "cheap.npz"), TextIds(ASSETS / "tokenizer.json")
)
CLASSIFIER = Classifier(MODELS, cache_size=64)
EXPLAINER = Explainer(CLASSIFIER, load_exemplars()[:5])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["role", "content", "text"]), inner),
    max_leaves=12,
)
JSON_LINES = st.dictionaries(st.sampled_from(["text", "messages", "history", "tools"]), JSON_VALUES).map(
    lambda fields: json.dumps(fields).encode()
)


@settings(deadline=None)
@given(st.lists(MESSAGES | JUNK, max_size=5), st.booleans())
def test_reading_never_raises(messages: Any, tools: bool) -> None:
    ask = read_ask(messages, has_tools=tools)
    assert ask.has_tools is tools
    assert ask.turns >= 1
    assert read_ask(messages, has_tools=tools) == ask


@settings(deadline=None)
@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_every_ask_gets_a_verdict_and_keeps_it(text: str, earlier: str, before: str, system: str) -> None:
    ask = Ask(text, earlier, before, system)
    assert np.isfinite(features(ask)).all()
    decision = CLASSIFIER.decide(ask)
    assert CLASSIFIER.decide(ask) == decision == CLASSIFIER.glance(ask).decision
    for found in (decision, Classifier(MODELS, cache_size=0).glance(ask).decision):
        assert 0.0 <= found.complexity <= 1.0
        assert found.confidence == (found.p_reasoning if found.route is Route.REASONING else 1 - found.p_reasoning)


@settings(max_examples=50, deadline=None)
@given(st.lists(MESSAGES | JUNK, max_size=5))
def test_odd_messages_get_a_verdict_in_every_way(messages: Any) -> None:
    """Judged, skimmed and explained; what is told is JSON of the documented shape."""
    ask = read_ask(messages)
    for decision in (CLASSIFIER.skim(ask), CLASSIFIER.glance(ask).decision, CLASSIFIER.decide(ask)):
        assert 0.0 <= decision.p_reasoning <= 1.0
        assert 0.0 <= decision.complexity <= 1.0
        assert json.loads(json.dumps(as_json(decision)))["route"] in ("reasoning", "simple")
    explained = EXPLAINER.explain(ask, sentences=True)
    told = ExplanationTold.of(explained)
    assert told.route == CLASSIFIER.decide(ask).route
    assert json.loads(told.model_dump_json())["margin"] == round(explained.margin, 4)
    assert read_aloud(told)


@settings(deadline=None)
@given(st.binary(max_size=200) | JSON_LINES)
def test_every_line_is_some_prompt(line: bytes) -> None:
    ask = read_prompt(line.decode("utf-8", "replace"))
    assert CLASSIFIER.decide(ask) == CLASSIFIER.decide(ask)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(ADVERSARIAL), st.integers(1, 200_000), st.integers(1, 2_000), st.booleans())
def test_what_is_read_is_bounded(unit: str, size: int, parts: int, in_parts: bool) -> None:
    """Whatever the size: the ask's text is bounded, and both ends of the turn are in it."""
    text = f"HEAD {(unit * size)[:size]} TAIL"
    content: Any = [{"type": "text", "text": text}] * parts if in_parts else text
    found = read_ask([{"role": "user", "content": content}] * 3, noise=())
    assert len(found.text) <= MOST_CHARS + MOST_PARTS * 2
    assert found.text.startswith("HEAD")
    assert found.text.endswith("TAIL")


def test_the_ends_of_a_long_conversation_are_read() -> None:
    middle = [{"role": "assistant", "content": "hm"}] * (3 * MOST_MESSAGES)
    turns = [{"role": "user", "content": "first"}, *middle, {"role": "user", "content": "last"}]
    found = read_ask([{"role": "system", "content": "You tutor."}, *turns])
    assert (found.text, found.earlier, found.system) == ("last", "first", "You tutor.")


def test_hundreds_of_turns_of_noise_are_given_up_on() -> None:
    """A turn beyond what is read in all is not found; one within it is."""
    noise = {"role": "user", "content": "<memory>x</memory>" * (MOST_CHARS // 18)}
    few, many = [noise] * 2, [noise] * 500
    assert read_ask([{"role": "user", "content": "far"}, *few]).text == "far"
    assert read_ask([{"role": "user", "content": "far"}, *many]).text == ""


def test_a_block_as_long_as_a_book_is_dropped_whole() -> None:
    """Only its ends are read, and what lies between the tag at the one and the tag at the other still goes."""
    dump = "<environment_details>" + "total 48 -rw-r--r-- " * 50_000 + "</environment_details>\nfix the typo in README"
    assert read_ask([{"role": "user", "content": dump}]).text == "fix the typo in README"


@settings(deadline=None)
@given(st.text(st.sampled_from("qxz☃"), min_size=4, max_size=40))
def test_reasons_quote_nobody(text: str) -> None:
    assert text not in " ".join(CLASSIFIER.decide(Ask(text, text)).reasons)


def _seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_reading_is_linear(unit: str) -> None:
    short, long = unit * 4_000, unit * 32_000
    assert _seconds(lambda: strip_noise(long)) <= 8 * 4 * _seconds(lambda: strip_noise(short)) + 0.01


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_features_and_rules_do_not_grow(unit: str) -> None:
    ask = Ask(unit * 20_000, unit * 20_000)
    assert len(features(ask)) == len(FEATURES)
    assert _seconds(lambda: features(ask)) < 0.02
    assert _seconds(lambda: (apply_rules(ask), is_approval(ask))) < 0.02


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(ADVERSARIAL), min_size=1, max_size=6), st.integers(500, 3000))
def test_mixed_adversaries_stay_cheap(units: list[str], times: int) -> None:
    text = "".join(units) * times
    assert _seconds(lambda: CLASSIFIER.glance(Ask(strip_noise(text), text))) < 0.25
