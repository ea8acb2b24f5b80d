"""Which columns of a layer's inner states are far larger than the rest: the exporter computes those apart, in float32.

What comes out of a GELU has single columns a hundred times the rest, the same ones for every text. With them in it, an
int8 product has one coarse scale for all.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.hooks import RemovableHandle
from transformers import BertModel

APART = 16
"""Columns a layer; their two small products cost a hundredth of a millisecond."""
LOOKED_AT = 400
"""Texts that are enough to find them."""


def outliers(bert: BertModel, rows: Sequence[list[int]]) -> list[list[int]]:
    """For each layer the `APART` columns with the largest inner states over the token ids of some texts, rising."""
    largest = [torch.zeros(bert.config.intermediate_size) for _ in bert.encoder.layer]

    def watch(layer: int) -> RemovableHandle:
        def note(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
            largest[layer] = torch.maximum(largest[layer], output.detach().float().abs().amax(dim=(0, 1)))

        return bert.encoder.layer[layer].intermediate.register_forward_hook(note)

    watching = [watch(layer) for layer in range(len(largest))]
    with torch.inference_mode():
        for row in rows:
            bert(input_ids=torch.tensor([row]))
    for hook in watching:
        hook.remove()
    return [sorted(np.argsort(-column.numpy(), kind="stable")[:APART].tolist()) for column in largest]
