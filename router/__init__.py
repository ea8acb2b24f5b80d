"""Decides what kind of query a request is and how hard it is: rules, a cheap tier, a sentence encoder, trained heads.

A library: synchronous, deterministic, no HTTP. `load()` gives a `Classifier`; `read_ask` gives it something to judge.
"""

from router import telemetry as telemetry
from router.ask import NOISE_TAGS, Ask, read_ask
from router.classifier import Classifier, Glance, Models
from router.decision import Decision, Mode, Route, Tier
from router.encoder import Encoder, OnnxEncoder
from router.explaining import Explainer, Explanation
from router.head import Head
from router.loading import RouterUnavailable, load, load_exemplars
from router.sentence import SentenceEncoder
from router.userroutes import UserRoute, UserRoutes

__all__ = [
    "NOISE_TAGS",
    "Ask",
    "Classifier",
    "Decision",
    "Encoder",
    "Explainer",
    "Explanation",
    "Glance",
    "Head",
    "Mode",
    "Models",
    "OnnxEncoder",
    "Route",
    "RouterUnavailable",
    "SentenceEncoder",
    "Tier",
    "UserRoute",
    "UserRoutes",
    "load",
    "load_exemplars",
    "read_ask",
]
