"""How many tokens of KV cache an engine will have, from the memory of its GPUs.

An estimate for sizing, beforehand: an engine measures its own overhead at the start and prints what it has left
(`GPU KV cache size: … tokens` in vLLM's log, `max_total_num_tokens` in SGLang's). Nothing here asks one.
"""

from __future__ import annotations

from dataclasses import dataclass

from budgets.kv.attention import BLOCK, Dtype
from budgets.kv.models import Model
from budgets.kv.weights import Precision

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of one engine, which share each layer (tensor parallel).

    `memory`: GiB of one, as `torch.cuda.get_device_properties().total_memory` tells it, which is below the number in
    its name. `utilisation`: the part the engine may use, above 0 and at most 1. `overhead`: GiB of that part on one GPU
    which are neither weights nor cache: activations, CUDA graphs, communication. vLLM's `--gpu-memory-utilization`
    covers it; SGLang's `--mem-fraction-static` covers only weights and cache, so there it is 0.
    """

    count: int
    memory: float
    utilisation: float
    overhead: float = 0.0

    def __post_init__(self) -> None:
        if self.count < 1 or self.memory <= 0 or not 0 < self.utilisation <= 1 or self.overhead < 0:
            raise ValueError(f"no such GPUs: {self}")


@dataclass(frozen=True, slots=True)
class Capacity:
    """`tokens`: of all sequences together, a multiple of the block. `sequences`: of the asked length, at the same time.
    `cache_bytes`: of one GPU."""

    tokens: int
    sequences: int
    cache_bytes: int


class DoesNotFit(ValueError):
    """The weights leave no room for a single sequence of the asked length. The message says what is short of what."""


def capacity(model: Model, gpus: Gpus, *, precision: Precision, dtype: Dtype, sequence: int) -> Capacity:
    """What these GPUs hold, where sequences of prompt and output have `sequence` tokens (1 or more) each.

    The length matters only to models with windows, whose sequences get cheaper by the token as they grow. Weights are
    taken to be shared out evenly, experts included. Raises DoesNotFit, and ValueError for a length below 1.
    """
    if sequence < 1:
        raise ValueError(f"a sequence has 1 token or more, not {sequence}")
    usable = gpus.memory * gpus.utilisation - gpus.overhead
    weights = model.weights.size(precision) / gpus.count
    cache = int(usable * GIB - weights)
    one = model.shape.sequence_bytes(sequence, dtype, gpus.count)
    if cache < one:
        raise DoesNotFit(
            f"{usable:.1f} GiB of each GPU are to hold {weights / GIB:.1f} GiB of weights"
            f" and {one / GIB:.1f} GiB for a sequence of {sequence} tokens"
        )
    held = -(-sequence // BLOCK) * BLOCK
    return Capacity(tokens=cache * held // one // BLOCK * BLOCK, sequences=cache // one, cache_bytes=cache)
