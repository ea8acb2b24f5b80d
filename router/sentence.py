"""The other backend: any sentence-transformers model as the encoder, torch and all.

For a model of the operator's own, or to hold the shipped int8 file against the float32 weights it came from. Needs the
extra `train`; nothing else in the service imports it. A head fits one encoder: `thinkgate router refit` makes one.
"""

from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from router.cache import LRU
from router.clip import MAX_TOKENS, clip_text
from router.encoder import Vector, pool


class _Model(Protocol):
    """The little of a SentenceTransformer that is used here."""

    max_seq_length: int

    def encode(self, sentences: list[str], **options: Any) -> list[Any]: ...


class SentenceEncoder:
    """Token states of any model, pooled as the shipped encoder's are. Single-threaded, on the CPU."""

    def __init__(self, folder: Path, *, cache_size: int = 2048) -> None:
        """Raises ImportError without the extra `train`, OSError when `folder` holds no model. Nothing is downloaded."""
        if not (folder / "modules.json").is_file():
            raise FileNotFoundError(f"{folder} holds no sentence-transformers model")
        import sentence_transformers  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
        import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

        cast("Any", torch).set_num_threads(1)
        self._model = cast("_Model", cast("Any", sentence_transformers).SentenceTransformer(str(folder), device="cpu"))
        self._model.max_seq_length = MAX_TOKENS
        self._cache: LRU[Vector] = LRU(cache_size)
        self.sentence = len(self.encode("How wide are you?")) // 2

    def encode(self, text: str, ids: list[int] | None = None) -> Vector:
        """The encoding of a text. The model's own tokeniser cuts a clipped text at its end, not in its middle; the
        shipped one's `ids` mean nothing to it."""
        text = clip_text(text)
        key = self._cache.key(text)
        known = self._cache.get(key)
        if known is None:
            states = self._model.encode([text], output_value="token_embeddings", show_progress_bar=False)[0]
            known = pool(np.asarray(states.numpy(), dtype=np.float32))
            known.setflags(write=False)
            self._cache.put(key, known)
        return known
