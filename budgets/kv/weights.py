"""Bytes of a model's weights: what is left of a GPU's memory after them is its KV cache.

Counted from the sizes in a model's published `config.json`; the test compares the sums with the parameter counts that
the models' cards tell. Nothing here knows a model by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Precision(Enum):
    """How the weights of linear layers are stored; the value is their bits, scales included.

    Embeddings, the output head, norms and biases stay at 16 bits in all of them, as in the published checkpoints.
    `FP8_BLOCK` is DeepSeek's own (a 32-bit scale for each 128 x 128 block), `FP8` one scale a tensor or channel (vLLM's
    `--quantization fp8`), `INT4` AWQ or GPTQ in groups of 128 (a 16-bit scale and a 4-bit zero each), `MXFP4` an 8-bit
    scale for each 32.
    """

    BF16 = 16.0
    FP8_BLOCK = 8 + 32 / (128 * 128)
    FP8 = 8.0
    INT4 = 4 + (16 + 4) / 128
    MXFP4 = 4 + 8 / 32


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameters that quantisation touches (`linear`), and those that it leaves at 16 bits (`other`)."""

    linear: int
    other: int

    @property
    def parameters(self) -> int:
        return self.linear + self.other

    def size(self, precision: Precision) -> int:
        """Bytes of all weights, on however many GPUs."""
        return round(self.linear * precision.value / 8) + 2 * self.other


@dataclass(frozen=True, slots=True)
class Sizes:
    """A decoder of the Llama family in the words of its `config.json`, and how it departs from Llama's.

    `experts`: of a mixture, each of `intermediate` width, behind a router; 1 for a dense model. `tied`: the output head
    is the embedding. `qkv_bias`: Qwen2 has it. `qk_norm`: Qwen3 has it.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    head_dim: int = 128
    experts: int = 1
    tied: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False

    def weights(self) -> Weights:
        query, key_value = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden * (2 * query + 2 * key_value)
        experts = 3 * self.hidden * self.intermediate * self.experts
        router = self.hidden * self.experts if self.experts > 1 else 0
        bias = query + 2 * key_value if self.qkv_bias else 0
        norms = 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return Weights(
            linear=self.layers * (attention + experts),
            other=self.layers * (router + bias + norms) + self.hidden + embeddings,
        )
