"""Decides what kind of query a request is and how hard it is: rules, a sentence embedding, a small trained head.

A library: synchronous, deterministic, no HTTP. `load()` gives a `Classifier`; `read_ask` gives it something to judge.
"""

from router.ask import Ask, read_ask
from router.classifier import Classifier
from router.decision import Decision, Route, Tier
from router.encoder import Encoder, OnnxEncoder
from router.head import Head
from router.loading import RouterUnavailable, load

__all__ = [
    "Ask",
    "Classifier",
    "Decision",
    "Encoder",
    "Head",
    "OnnxEncoder",
    "Route",
    "RouterUnavailable",
    "Tier",
    "load",
    "read_ask",
]
