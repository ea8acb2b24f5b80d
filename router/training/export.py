"""A BERT's weights as a fused int8 ONNX file, written node by node. No exporter, no optimiser, no guessing.

Attention, skip connection with layer norm, and bias with GELU are one operator each (onnxruntime's own). Weights are
int8 a column, activations are quantised while running. One row at a time and no mask: a server classifies one prompt.
"""

import tempfile
from collections.abc import Mapping, Sequence
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


def write_onnx(
    weights: Mapping[str, Floats], layers: int, heads: int, out: Path, apart: Sequence[Sequence[int]] = ()
) -> None:
    """`weights` by transformers' names. The graph takes `input_ids` (1, n) and gives `states` (1, n, width).

    `apart`: for each layer the columns of its inner states that stay float32, as `outliers` finds them.
    """
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "float.onnx"
        onnx.save(_Writer(weights, apart or [()] * layers).model(layers, heads), str(plain))
        quantize_dynamic(
            str(plain),
            str(out),
            per_channel=True,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul", "Attention"],
            nodes_to_exclude=[f"{_stem(layer)}.{part}.node" for layer in range(layers) for part in _FLOAT],
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )


_FLOAT = ("large", "large_product")


def _stem(layer: int) -> str:
    return f"encoder.layer.{layer}"


class _Writer:
    """Collects nodes and constants; each step returns the name of what it computes."""

    def __init__(self, weights: Mapping[str, Floats], apart: Sequence[Sequence[int]]) -> None:
        self._weights = weights
        self._apart = apart
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
        stem = _stem(layer)
        self_, three = f"{stem}.attention.self", ("query", "key", "value")
        matrices = [self._weights[f"{self_}.{name}.weight"].T for name in three]
        biases = [self._weights[f"{self_}.{name}.bias"] for name in three]
        qkv = self._constant(f"{stem}.qkv", np.concatenate(matrices, axis=1))
        bias = self._constant(f"{stem}.qkv_bias", np.concatenate(biases))
        attended = self._node("Attention", [state, qkv, bias], f"{stem}.heads", domain=CONTRIB, num_heads=heads)
        output = f"{stem}.attention.output"
        state = self._norm_with(output, self._product(output, attended), state)
        inner = self._weights[f"{stem}.intermediate.dense.weight"].T
        inner_bias = self._weights[f"{stem}.intermediate.dense.bias"]
        outer = self._weights[f"{stem}.output.dense.weight"].T
        large = list(self._apart[layer])
        small = [column for column in range(len(inner_bias)) if column not in set(large)]
        found = self._dense(f"{stem}.small", state, inner[:, small], inner_bias[small], outer[small])
        if large:
            beside = self._dense(f"{stem}.large", state, inner[:, large], inner_bias[large], outer[large])
            found = self._node("Add", [found, beside], f"{stem}.both")
        return self._norm_with(f"{stem}.output", found, state)

    def _product(self, prefix: str, source: str) -> str:
        matrix = self._constant(f"{prefix}.matrix", self._weights[f"{prefix}.dense.weight"].T)
        return self._node("MatMul", [source, matrix], f"{prefix}.product")

    def _dense(self, prefix: str, source: str, inner: Floats, bias: Floats, outer: Floats) -> str:
        """Both dense layers of a block over some columns of its inner states; columns alike in size go together."""
        widened = self._node("MatMul", [source, self._constant(f"{prefix}_inner", inner)], prefix)
        biased = [widened, self._constant(f"{prefix}_bias", bias)]
        active = self._node("BiasGelu", biased, f"{prefix}_active", domain=CONTRIB)
        return self._node("MatMul", [active, self._constant(f"{prefix}_outer", outer)], f"{prefix}_product")

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
