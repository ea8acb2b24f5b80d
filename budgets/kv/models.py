"""The models whose shape is known, by the name under which they are published.

Every number is that of the `config.json` of that name on Hugging Face (`num_hidden_layers`, `num_key_value_heads`,
`head_dim`, `sliding_window`, `kv_lora_rank`, `qk_rope_head_dim`, …). Of those that are no plain decoders of the Llama
family:

- DeepSeek-R1 and V3: 61 layers of latent attention, 512 + 64. 671 B parameters without the layer for multi-token
  prediction, of which the embedding and the output head are 129,280 x 7,168 each (README_WEIGHTS.md of the model).
- gpt-oss: every second layer has a window of 128. Parameters by the model card: 20.91 B of which 19.12 B are MXFP4
  experts, and 116.83 B of which 114.71 B are.

A model that is not here is no error of the engine's: write its `Sizes` down from its `config.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from budgets.kv.attention import GroupedQuery, Latent, Shape
from budgets.kv.weights import Sizes, Weights


@dataclass(frozen=True, slots=True)
class Model:
    """What sizing needs of a model."""

    shape: Shape
    weights: Weights


class UnknownModel(LookupError):
    """No shape is known for this name. The message has the nearest names."""


def find(name: str) -> Model:
    """The model of this published name, in any case. Raises UnknownModel."""
    found = _BY_FOLDED_NAME.get(name.casefold())
    if found is None:
        near = get_close_matches(name.casefold(), _BY_FOLDED_NAME, n=2, cutoff=0.5)
        hint = f" (nearest: {', '.join(_PUBLISHED[one] for one in near)})" if near else ""
        raise UnknownModel(f"the shape of {name!r} is not known{hint}")
    return found


def _plain(sizes: Sizes) -> Model:
    return Model(Shape((GroupedQuery(sizes.layers, sizes.kv_heads, sizes.head_dim),)), sizes.weights())


def _half_windowed(layers: int, weights: Weights) -> Model:
    """gpt-oss: 8 key-value heads of 64, full attention in every second layer."""
    full = GroupedQuery(layers // 2, 8, 64)
    windowed = GroupedQuery(layers // 2, 8, 64, window=128)
    return Model(Shape((full, windowed)), weights)


def _qwen2(
    hidden: int, intermediate: int, layers: int, *, heads: int, kv_heads: int, vocabulary: int = 152_064
) -> Sizes:
    return Sizes(hidden, intermediate, layers, heads, kv_heads, vocabulary, qkv_bias=True)


def _qwen3(
    hidden: int, intermediate: int, layers: int, heads: int, *, kv_heads: int = 8, experts: int = 1, tied: bool = False
) -> Sizes:
    return Sizes(hidden, intermediate, layers, heads, kv_heads, 151_936, experts=experts, tied=tied, qk_norm=True)


_DEEPSEEK_V3 = Model(
    Shape((Latent(61, 512, 64),)),
    Weights(linear=671_000_000_000 - 2 * 129_280 * 7_168, other=2 * 129_280 * 7_168),
)
_QWEN2_32B = _plain(_qwen2(5_120, 27_648, 64, heads=40, kv_heads=8))

MODELS: Mapping[str, Model] = {
    "deepseek-ai/DeepSeek-R1": _DEEPSEEK_V3,
    "deepseek-ai/DeepSeek-R1-0528": _DEEPSEEK_V3,
    "deepseek-ai/DeepSeek-V3": _DEEPSEEK_V3,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": _plain(
        _qwen2(1_536, 8_960, 28, heads=12, kv_heads=2, vocabulary=151_936)
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": _plain(_qwen2(3_584, 18_944, 28, heads=28, kv_heads=4)),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": _plain(_qwen2(5_120, 13_824, 48, heads=40, kv_heads=8)),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": _QWEN2_32B,
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": _plain(Sizes(4_096, 14_336, 32, 32, 8, 128_256)),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": _plain(Sizes(8_192, 28_672, 80, 64, 8, 128_256)),
    "Qwen/QwQ-32B": _QWEN2_32B,
    "Qwen/Qwen2.5-3B-Instruct": _plain(Sizes(2_048, 11_008, 36, 16, 2, 151_936, tied=True, qkv_bias=True)),
    "Qwen/Qwen3-0.6B": _plain(_qwen3(1_024, 3_072, 28, 16, tied=True)),
    "Qwen/Qwen3-1.7B": _plain(_qwen3(2_048, 6_144, 28, 16, tied=True)),
    "Qwen/Qwen3-4B": _plain(_qwen3(2_560, 9_728, 36, 32, tied=True)),
    "Qwen/Qwen3-8B": _plain(_qwen3(4_096, 12_288, 36, 32)),
    "Qwen/Qwen3-14B": _plain(_qwen3(5_120, 17_408, 40, 40)),
    "Qwen/Qwen3-32B": _plain(_qwen3(5_120, 25_600, 64, 64)),
    "Qwen/Qwen3-30B-A3B": _plain(_qwen3(2_048, 768, 48, 32, kv_heads=4, experts=128)),
    "Qwen/Qwen3-235B-A22B": _plain(_qwen3(4_096, 1_536, 94, 64, kv_heads=4, experts=128)),
    "openai/gpt-oss-20b": _half_windowed(24, Weights(linear=19_120_000_000, other=1_790_000_000)),
    "openai/gpt-oss-120b": _half_windowed(36, Weights(linear=114_710_000_000, other=2_120_000_000)),
}

_PUBLISHED = {name.casefold(): name for name in MODELS}
_BY_FOLDED_NAME = {name.casefold(): model for name, model in MODELS.items()}
