"""A BERT's weights as a fused int8 ONNX file, written node by node. No exporter, no optimiser, no guessing.

Attention, skip connection with layer norm, and bias with GELU are one operator each (onnxruntime's own). Weights are
int8 a column, activations are quantised while running. One row at a time and no mask: a server classifies one prompt.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from router.clip import MAX_TOKENS

Floats = NDArray[np.float32]
CONTRIB = "com.microsoft"
OPSET = 17
EPSILON = 1e-12
BLOCK = 128
BLOCKED = (0, 4, 5)
"""Layers whose second dense layer is quantised by blocks; in the others one scale does."""


def write_onnx(weights: Mapping[str, Floats], layers: int, heads: int, out: Path) -> None:
    """`weights` by transformers' names. The graph takes `input_ids` (1, n) and gives `states` (1, n, width)."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "float.onnx"
        onnx.save(_Writer(weights).model(layers, heads), str(plain))
        quantize_dynamic(
            str(plain),
            str(out),
            per_channel=True,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul", "Attention"],
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )


class _Writer:
    """Collects nodes and constants; each step returns the name of what it computes."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._stored: list[onnx.TensorProto] = []

    def model(self, layers: int, heads: int) -> onnx.ModelProto:
        state = self._embed()
        for layer in range(layers):
            state = self._layer(layer, state, heads)
        self._node("Identity", [state], "states")
        width = self._weights["embeddings.word_embeddings.weight"].shape[1]
        graph = helper.make_graph(
            self._nodes,
            "router-encoder",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])],
            [helper.make_tensor_value_info("states", TensorProto.FLOAT, [1, "tokens", width])],
            self._stored,
        )
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9, producer_name="thinkgate")

    def _embed(self) -> str:
        table = "embeddings.{}_embeddings.weight"
        places = self._weights[table.format("position")] + self._weights[table.format("token_type")][0]
        words = self._weights[table.format("word")]
        steps = np.maximum(np.abs(words).max(axis=1, keepdims=True), 1e-6) / 127
        # By hand: the quantiser knows one scale for a whole table, and rare words are ten times the common ones.
        self._constant("words", np.round(words / steps).astype(np.int8))
        self._constant("word_steps", steps.astype(np.float32))
        self._constant("places", places[:MAX_TOKENS])
        self._constant("zero", np.array([0], dtype=np.int64))
        self._node("Gather", ["words", "input_ids"], "word_rows")
        self._node("Cast", ["word_rows"], "word_floats", to=TensorProto.FLOAT)
        self._node("Gather", ["word_steps", "input_ids"], "row_steps")
        self._node("Mul", ["word_floats", "row_steps"], "embedded")
        self._node("Shape", ["input_ids"], "length", start=1, end=2)
        self._node("Slice", ["places", "zero", "length", "zero"], "place_rows")
        self._node("Unsqueeze", ["place_rows", "zero"], "placed")
        self._node("Add", ["embedded", "placed"], "summed")
        norm = self._norm("embeddings.LayerNorm")
        return self._node("LayerNormalization", ["summed", *norm], "start", axis=-1, epsilon=EPSILON)

    def _layer(self, layer: int, state: str, heads: int) -> str:
        stem = f"encoder.layer.{layer}"
        self_, three = f"{stem}.attention.self", ("query", "key", "value")
        matrices = [self._weights[f"{self_}.{name}.weight"].T for name in three]
        biases = [self._weights[f"{self_}.{name}.bias"] for name in three]
        qkv = self._constant(f"{stem}.qkv", np.concatenate(matrices, axis=1))
        bias = self._constant(f"{stem}.qkv_bias", np.concatenate(biases))
        attended = self._node("Attention", [state, qkv, bias], f"{stem}.heads", domain=CONTRIB, num_heads=heads)
        output = f"{stem}.attention.output"
        state = self._norm_with(output, self._product(output, attended), state)
        inner = self._constant(f"{stem}.inner", self._weights[f"{stem}.intermediate.dense.weight"].T)
        inner_bias = self._constant(f"{stem}.inner_bias", self._weights[f"{stem}.intermediate.dense.bias"])
        widened = self._node("MatMul", [state, inner], f"{stem}.widened")
        active = self._node("BiasGelu", [widened, inner_bias], f"{stem}.active", domain=CONTRIB)
        output = f"{stem}.output"
        if layer in BLOCKED:
            return self._norm_with(output, self._blocked(output, active), state)
        return self._norm_with(output, self._product(output, active), state)

    def _product(self, prefix: str, source: str) -> str:
        matrix = self._constant(f"{prefix}.matrix", self._weights[f"{prefix}.dense.weight"].T)
        return self._node("MatMul", [source, matrix], f"{prefix}.product")

    def _blocked(self, prefix: str, source: str) -> str:
        """A dense layer whose weights and inputs are int8 by blocks of a few columns, each with a scale of its own.

        What comes out of a GELU has single columns a hundred times the rest. With one scale for all, this one product
        made nine tenths of the whole file's error: cosine .976 to the float32 model, and .998 where all six are
        blocked, at 0.15 ms a layer for a short prompt.
        """
        matrix = self._weights[f"{prefix}.dense.weight"]
        rows, columns = matrix.shape
        blocks = matrix.reshape(rows, columns // BLOCK, BLOCK)
        steps = np.maximum(np.abs(blocks).max(axis=2, keepdims=True), 1e-8) / 127
        stored = (np.round(blocks / steps) + 128).astype(np.uint8)
        inputs = [
            source,
            self._constant(f"{prefix}.blocks", stored),
            self._constant(f"{prefix}.steps", steps.reshape(rows, -1).astype(np.float32)),
        ]
        sizes = {"K": columns, "N": rows, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        return self._node("MatMulNBits", inputs, f"{prefix}.product", domain=CONTRIB, **sizes)

    def _norm_with(self, prefix: str, product: str, residual: str) -> str:
        """Bias, residual and layer norm over a dense layer's product."""
        bias = self._constant(f"{prefix}.bias", self._weights[f"{prefix}.dense.bias"])
        inputs = [product, residual, *self._norm(f"{prefix}.LayerNorm"), bias]
        return self._node("SkipLayerNormalization", inputs, f"{prefix}.state", domain=CONTRIB, epsilon=EPSILON)

    def _norm(self, prefix: str) -> list[str]:
        return [
            self._constant(f"{prefix}.gamma", self._weights[f"{prefix}.weight"]),
            self._constant(f"{prefix}.beta", self._weights[f"{prefix}.bias"]),
        ]

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [output], f"{output}.node", **attributes))
        return output

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self._stored.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name
