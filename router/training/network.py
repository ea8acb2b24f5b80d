"""What is trained: a sentence-transformers encoder, two pools, a small hidden layer and two outputs.

Rows go in as the very token ids that serving makes, clipped by the same function. The head's arithmetic is that of
`router.head`, in torch: `folded` gives its weights back in the layout that numpy serves.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from router.encoder import SENTENCE, TAIL_TOKENS
from router.head import Head

UNITS = 64
EMBEDDING_GAIN = 4.0
LEXICAL_GAIN = 0.3
"""Brings the columns of the inputs to like sizes; folded into the weights afterwards."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Batch:
    texts: list[list[int]]
    earlier: list[list[int]]
    """Empty where there is no earlier turn."""
    lexical: Floats
    """Scaled features, one row each."""


class Network(torch.nn.Module):
    def __init__(self, folder: Path, lexical: int) -> None:
        super().__init__()
        self.encoder = SentenceTransformer(str(folder), device="cpu")
        self.drop_lexical = torch.nn.Dropout(0.3)
        self.hidden = torch.nn.Linear(3 * SENTENCE + lexical, UNITS)
        self.drop = torch.nn.Dropout(0.2)
        self.output = torch.nn.Linear(UNITS, 2)
        """The logit of reasoning, and the residual difficulty within its class."""

    def forward(self, batch: Batch) -> torch.Tensor:
        width = SENTENCE
        mean, tail = self._pools(batch.texts)
        earlier = torch.zeros((len(batch.texts), width))
        present = [index for index, ids in enumerate(batch.earlier) if ids]
        if present:
            found, _ = self._pools([batch.earlier[index] for index in present])
            earlier = earlier.index_copy(0, torch.tensor(present), found)
        lexical = self.drop_lexical(torch.from_numpy(batch.lexical)) * LEXICAL_GAIN
        inputs = torch.cat((torch.cat((mean, tail, earlier), dim=1) * EMBEDDING_GAIN, lexical), dim=1)
        return self.output(self.drop(torch.relu(self.hidden(inputs))))

    def _pools(self, rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Unit means over all tokens, and over the last `TAIL_TOKENS`."""
        width = max(map(len, rows))
        ids = torch.ones((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), width))
        tail = torch.zeros((len(rows), width))
        for position, row in enumerate(rows):
            ids[position, : len(row)] = torch.tensor(row)
            mask[position, : len(row)] = 1 / len(row)
            tail[position, max(0, len(row) - TAIL_TOKENS) : len(row)] = 1 / min(len(row), TAIL_TOKENS)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = self.encoder({"input_ids": ids, "attention_mask": (mask > 0).long()})
        states = found["token_embeddings"].float()
        pooled = (torch.einsum("rt,rtw->rw", weight, states) for weight in (mask, tail))
        mean, last = (torch.nn.functional.normalize(vector, dim=1) for vector in pooled)
        return mean, last

    def take(self, head: Head) -> None:
        """Begin from a served head: the inverse of `folded`. Of its residual only the part over the units is taken."""
        with torch.no_grad():
            self.hidden.weight.copy_(torch.from_numpy(head.hidden).T / self._gain())
            self.hidden.bias.copy_(torch.from_numpy(head.hidden_bias))
            rows = np.stack((head.output, head.residual[self.hidden.in_features :]))
            self.output.weight.copy_(torch.from_numpy(rows[:, :-1]))
            self.output.bias.copy_(torch.from_numpy(rows[:, -1]))

    def _gain(self) -> torch.Tensor:
        gain = torch.full((self.hidden.in_features,), EMBEDDING_GAIN)
        gain[3 * SENTENCE :] = LEXICAL_GAIN
        return gain

    def folded(self) -> dict[str, Floats]:
        """hidden, hidden_bias, output and residual, as `router.head` multiplies them."""
        gain = self._gain()
        with torch.no_grad():
            rows = torch.cat((self.output.weight, self.output.bias[:, None]), dim=1).numpy().copy()
            return {
                "hidden": (self.hidden.weight * gain).T.numpy().copy(),
                "hidden_bias": self.hidden.bias.numpy().copy(),
                "output": rows[0],
                "residual": np.concatenate((np.zeros(self.hidden.in_features, dtype=np.float32), rows[1])),
            }
