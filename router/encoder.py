"""From text to a sentence embedding by onnxruntime: the serving encoder, and the protocol any other keeps.

Six layers with int8 weights, one thread that sleeps when idle: a gateway runs one process a core, and a second
thread here would only spin against its neighbours. No download, no torch, no verdicts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from tokenizers import Tokenizer

from router.cache import LRU
from router.clip import clip_ids, clip_text

SENTENCE = 384
"""Length of one pooled embedding of the shipped encoder."""
DIMENSION = 2 * SENTENCE
"""Length of an encoding: the mean over all tokens (the sentence embedding proper), then the mean over the last ones."""
TAIL_TOKENS = 16
"""Tokens of the second pool: where a long turn tends to say what it wants. It costs nothing beside the first."""

Vector = NDArray[np.float32]


class Encoder(Protocol):
    """What the classifier needs of an encoder: one text in, two pooled unit vectors in a row out."""

    @property
    def sentence(self) -> int:
        """Length of one of the two vectors: the mean over all tokens, then the mean over the last ones."""
        ...

    def encode(self, text: str, ids: list[int] | None = None) -> Vector:
        """`ids`: what `TextIds` makes of the text, where the caller has it already."""
        ...


class _Session(Protocol):
    """The one call made on an onnxruntime session, which ships without usable types."""

    def run(self, output_names: None, input_feed: dict[str, NDArray[np.int64]]) -> Sequence[Vector]: ...


class TextIds:
    """Text to token ids, clipped at both ends: shared by serving and training, so that they cannot drift apart."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, text: str) -> list[int]:
        """At most `clip.MAX_TOKENS` ids, special ids included; never empty."""
        return clip_ids(self._tokenizer.encode(clip_text(text)).ids)


class OnnxEncoder:
    """The serving encoder. Keeps its last embeddings, so that the turn before costs nothing on the next request.

    Safe from several threads: tokeniser and session are re-entrant, and the memory locks itself.
    """

    sentence = SENTENCE

    def __init__(self, model: Path, ids: TextIds, *, cache_size: int = 2048) -> None:
        self.ids = ids
        self._session = _open_session(model)
        self._cache: LRU[Vector] = LRU(cache_size)

    def encode(self, text: str, ids: list[int] | None = None) -> Vector:
        """The encoding of a text; about 3 ms CPU for a short text, 9 ms for a long one."""
        text = clip_text(text)
        key = self._cache.key(text)
        known = self._cache.get(key)
        if known is not None:
            return known
        row = np.array([self.ids(text) if ids is None else ids], dtype=np.int64)
        vector = pool(self._session.run(None, {"input_ids": row})[0][0])
        vector.setflags(write=False)
        self._cache.put(key, vector)
        return vector


def pool(states: Vector) -> Vector:
    """Token states (tokens, width) to an encoding."""
    return np.concatenate((_unit(states.mean(axis=0)), _unit(states[-TAIL_TOKENS:].mean(axis=0))))


def _unit(vector: Vector) -> Vector:
    return vector / np.float32(max(float(np.linalg.norm(vector)), 1e-9))


def _open_session(model: Path) -> _Session:
    runtime = cast("Any", onnxruntime)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return cast("_Session", runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]))
