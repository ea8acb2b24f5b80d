"""The shipped int8 encoder as float32 weights again, by transformers' names: where fine-tuning on a log begins.

An int8 weight is its float32 one to a 250th of its column's largest, and fine-tuning moves them by more. Reads the
graph that `export` writes, and no other.
"""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Floats = NDArray[np.float32]


def thaw(path: Path) -> tuple[dict[str, Floats], int]:
    """Weights, and the number of attention heads. Raises KeyError where the graph is not one of `export`."""
    graph = onnx.load(str(path)).graph
    heads = {attribute.i for node in graph.node for attribute in node.attribute if attribute.name == "num_heads"}
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    gamma, beta = "embeddings.LayerNorm.gamma", "embeddings.LayerNorm.beta"
    weights: dict[str, Floats] = {
        "embeddings.word_embeddings.weight": stored["words"].astype(np.float32) * stored["word_steps"],
        "embeddings.position_embeddings.weight": stored["places"],
        "embeddings.token_type_embeddings.weight": np.zeros((2, stored["places"].shape[1]), dtype=np.float32),
        "embeddings.LayerNorm.weight": stored[gamma],
        "embeddings.LayerNorm.bias": stored[beta],
    }
    layers = 1 + max(int(name.split(".")[2]) for name in stored if name.startswith("encoder.layer."))
    for layer in range(layers):
        weights.update(_layer(stored, f"encoder.layer.{layer}"))
    return weights, heads.pop()


def _layer(stored: dict[str, NDArray[np.generic]], stem: str) -> dict[str, Floats]:
    def matrix(name: str) -> Floats:
        columns = stored[f"{stem}.{name}_quantized"].astype(np.float32)
        return columns * stored[f"{stem}.{name}_scale"].astype(np.float32)

    def plain(name: str) -> Floats:
        return stored[f"{stem}.{name}"].astype(np.float32)

    found: dict[str, Floats] = {}
    products, biases = np.split(matrix("qkv"), 3, axis=1), np.split(plain("qkv_bias"), 3)
    for name, product, bias in zip(("query", "key", "value"), products, biases, strict=True):
        found[f"attention.self.{name}.weight"], found[f"attention.self.{name}.bias"] = product.T, bias
    found["attention.output.dense.weight"] = matrix("attention.output.matrix").T
    # The order of a block's inner columns is of no account: those that were kept apart come last.
    found["intermediate.dense.weight"] = np.concatenate((matrix("small_inner"), plain("large_inner")), axis=1).T
    found["intermediate.dense.bias"] = np.concatenate((plain("small_bias"), plain("large_bias")))
    found["output.dense.weight"] = np.concatenate((matrix("small_outer"), plain("large_outer")), axis=0).T
    for part in ("attention.output", "output"):
        found[f"{part}.dense.bias"] = plain(f"{part}.bias")
        found[f"{part}.LayerNorm.weight"] = plain(f"{part}.LayerNorm.gamma")
        found[f"{part}.LayerNorm.bias"] = plain(f"{part}.LayerNorm.beta")
    return {f"{stem}.{name}": np.ascontiguousarray(array) for name, array in found.items()}
