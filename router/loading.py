"""Finds and verifies the files the classifier needs, all of them on this machine. Nothing is downloaded."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

from router.cheap import Cheap
from router.classifier import Classifier, Models
from router.decision import Mode
from router.encoder import Encoder, OnnxEncoder, TextIds
from router.head import Head
from router.lexical import FEATURES
from router.sentence import SentenceEncoder
from router.userroutes import UserRoute, UserRoutes

ASSETS = Path(__file__).parent / "assets"
_REMEDY = "pip install --force-reinstall --no-deps thinkgate"


class RouterUnavailable(RuntimeError):
    """The classifier cannot be loaded; the message is one line that says what to type."""


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A prompt of our own with its label (1 reasoning, 0 simple). CC0."""

    text: str
    label: int


def load(
    *,
    threshold: float = 0.5,
    max_missed: float | None = None,
    target_share: float | None = None,
    mode: Mode = Mode.BALANCED,
    cache_size: int = 8192,
    routes: Sequence[UserRoute] = (),
    head: Path | None = None,
    encoder: Path | None = None,
    folder: Path | None = None,
    models: Models | None = None,
) -> Classifier:
    """The classifier. Raises RouterUnavailable when a file is absent or is not the one it was trained with.

    `max_missed`: share of reasoning asks that may be missed, instead of `threshold`; `target_share`: share of asks to
    go to reasoning, instead of both; each 0..1. `head`: a retrained head. `encoder`: a sentence-transformers folder,
    for which `head` must have been fitted. `folder`: a fine-tuned router's files instead of the shipped ones. `models`:
    loaded before, to be used in place of these three. Raises ValueError on user routes that cannot match.
    """
    models = models or load_models(head=head, encoder=encoder, folder=folder)
    if max_missed is not None:
        threshold = models.head.threshold_for_missed(max_missed)
    if target_share is not None:
        threshold = models.head.threshold_for_target(target_share)
    fitted = UserRoutes(routes, models.encoder, [one.text for one in load_exemplars()]) if routes else None
    return Classifier(models, mode=mode, threshold=threshold, cache_size=cache_size, routes=fitted)


def load_models(
    *, head: Path | None = None, encoder: Path | None = None, folder: Path | None = None, any_head: bool = False
) -> Models:
    """Encoder, head, cheap tier and tokeniser, each checked against the sums that the card beside them names.

    `any_head`: for a refit, which makes the head that fits a new encoder.
    """
    files = folder or ASSETS
    card = read_head(files / "head.npz").card
    sums = card["sha256"]
    for name in ("encoder.onnx", "tokenizer.json", "cheap.npz"):
        _verify(files / name, sums[name])
    ids = TextIds(files / "tokenizer.json")
    chosen = read_head(head or files / "head.npz")
    if chosen.card.get("features") != list(FEATURES):
        raise RouterUnavailable("the router's head fits other features: thinkgate router refit")
    made: Encoder = OnnxEncoder(files / "encoder.onnx", ids) if encoder is None else _own_encoder(encoder)
    inputs = 3 * made.sentence + len(FEATURES)
    if chosen.hidden.shape[0] != inputs and not any_head:
        raise RouterUnavailable("the router's head fits another encoder: thinkgate router refit --encoder DIR")
    return Models(made, chosen, Cheap.read(files / "cheap.npz"), ids)


def load_exemplars() -> list[Exemplar]:
    """The prompts shipped for explanations and as background of user routes."""
    with (ASSETS / "exemplars.jsonl").open(encoding="utf-8") as lines:
        return [Exemplar(row["text"], row["label"]) for row in map(json.loads, lines)]


def read_head(path: Path) -> Head:
    """Raises RouterUnavailable when the file is none."""
    try:
        return Head.read(path)
    except (OSError, EOFError, KeyError, ValueError, BadZipFile) as error:
        raise RouterUnavailable(f"the router's head is unreadable ({type(error).__name__}): {_REMEDY}") from error


def _own_encoder(folder: Path) -> SentenceEncoder:
    try:
        return SentenceEncoder(folder)
    except ImportError as error:
        raise RouterUnavailable(
            "an encoder of your own needs sentence-transformers: pip install 'thinkgate[train]'"
        ) from error
    except OSError as error:
        raise RouterUnavailable(f"the router's encoder cannot be read: {error}") from error


def _verify(path: Path, sha256: str) -> None:
    if not path.is_file():
        raise RouterUnavailable(f"the router's {path.name} is missing: {_REMEDY}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise RouterUnavailable(f"the router's {path.name} is not the expected file: {_REMEDY}")
