"""Bytes of KV cache by the shape of a model's attention. Nothing here knows a model by name or a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

BLOCK = 16
"""Tokens in a block of the cache: vLLM's default on CUDA. A sequence occupies whole blocks."""


class Dtype(Enum):
    """What an element of the cache is stored as; the value is its bytes.

    `BF16` stands for fp16 too. `FP8` is vLLM's `--kv-cache-dtype fp8` and SGLang's `fp8_e4m3` and `fp8_e5m2`, whose
    scales are one a layer or one a head, and are not counted.
    """

    BF16 = 2
    FP8 = 1


class Attention(Protocol):
    """Layers of one kind. A token's bytes are those on one GPU of `tp` that share each layer."""

    @property
    def window(self) -> int | None:
        """Tokens that a layer looks back to; None for all of them."""
        ...

    def token_bytes(self, dtype: Dtype, tp: int) -> int: ...


@dataclass(frozen=True, slots=True)
class GroupedQuery:
    """Keys and values of `kv_heads` heads (MHA, GQA and MQA differ only in how many): 2 * layers * heads * head_dim.

    Over `tp` GPUs the heads are shared out. Where there are fewer heads than GPUs, engines give each GPU a copy of one,
    so no GPU holds less than one head.
    """

    layers: int
    kv_heads: int
    head_dim: int
    window: int | None = None

    def token_bytes(self, dtype: Dtype, tp: int) -> int:
        heads = -(-self.kv_heads // tp)
        return 2 * self.layers * heads * self.head_dim * dtype.value


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, V3, R1): one compressed vector of `rank` and `rope` rotary elements a
    layer, shared by all heads. There is nothing to share out, so each GPU of a tensor-parallel group holds all of it.
    """

    layers: int
    rank: int
    rope: int
    window: int | None = None

    def token_bytes(self, dtype: Dtype, tp: int) -> int:
        return self.layers * (self.rank + self.rope) * dtype.value


@dataclass(frozen=True, slots=True)
class Shape:
    """All layers of a model that cache anything, by kind: one part for most models, two where layers with a sliding
    window alternate with full ones. Raises ValueError for a number of tokens or GPUs below what makes sense."""

    parts: tuple[Attention, ...]

    def token_bytes(self, dtype: Dtype, tp: int = 1) -> int:
        """Bytes on one GPU for a token while every layer still sees it: what a short sequence costs."""
        return sum(part.token_bytes(dtype, _gpus(tp)) for part in self.parts)

    def growth_bytes(self, dtype: Dtype, tp: int = 1) -> int:
        """Bytes on one GPU for one more token of a sequence that is longer than every window."""
        return sum(part.token_bytes(dtype, _gpus(tp)) for part in self.parts if part.window is None)

    def sequence_bytes(self, tokens: int, dtype: Dtype, tp: int = 1, block: int = BLOCK) -> int:
        """Bytes on one GPU for a sequence of this many tokens, in whole blocks.

        A layer with a window keeps the blocks that the window touches; that is one more than it fills, since it seldom
        begins at a block's edge.
        """
        if tokens < 0 or block < 1:
            raise ValueError(f"a sequence has 0 tokens or more, in blocks of 1 or more; not {tokens} in {block}")
        return sum(_kept(tokens, part.window, block) * part.token_bytes(dtype, _gpus(tp)) for part in self.parts)


def _kept(tokens: int, window: int | None, block: int) -> int:
    """Tokens' worth of memory in one layer."""
    whole = _in_blocks(tokens, block)
    return whole if window is None else min(whole, _in_blocks(window, block) + block)


def _in_blocks(tokens: int, block: int) -> int:
    return -(-tokens // block) * block


def _gpus(tp: int) -> int:
    if tp < 1:
        raise ValueError(f"a model is on 1 GPU or more, not on {tp}")
    return tp
