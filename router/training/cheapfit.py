"""Fitting the cheap tier: a small convolution taught by the encoder's verdicts as much as by the labels.

The token table begins as the encoder's own word embeddings, turned to their strongest directions: they know words of
many languages that the training rows never show. Seeded, one thread, about two minutes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from router.cheap import EDGE, SPAN, Cheap
from router.retrain.fitting import fit_platt
from router.training.data import SEED

WIDTH = 48
FILTERS = 96
UNITS = 64
EPOCHS = 7
BATCH = 128
RATE = 2e-3
TEACHER_SHARE = 0.5

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Lesson:
    ids: list[int]
    earlier: list[int]
    scaled: Floats
    label: float
    taught: float
    """The encoder's probability."""
    residual: float
    """The encoder's residual."""


class CheapNetwork(torch.nn.Module):
    def __init__(self, table: Floats, features: int) -> None:
        super().__init__()
        self.table = torch.nn.Embedding.from_pretrained(torch.from_numpy(table), freeze=False)
        self.conv = torch.nn.Linear(SPAN * WIDTH, FILTERS)
        self.drop = torch.nn.Dropout(0.25)
        self.hidden = torch.nn.Linear(3 * FILTERS + 2 * WIDTH + features, UNITS)
        self.output = torch.nn.Linear(UNITS, 2)

    def forward(self, lessons: Sequence[Lesson]) -> torch.Tensor:
        ids, mask = _padded([lesson.ids for lesson in lessons])
        rows = self.table(ids) * mask[..., None]
        padded = torch.nn.functional.pad(rows, (0, 0, 1, 1))
        windows = torch.cat([padded[:, shift : shift + rows.shape[1]] for shift in range(SPAN)], dim=2)
        found = torch.relu(self.conv(windows)) * mask[..., None]
        place = torch.arange(ids.shape[1])[None]
        length = mask.sum(dim=1, keepdim=True)
        head = found * (place < EDGE)[..., None]
        tail = found * (place >= length - EDGE)[..., None]
        before, before_mask = _padded([lesson.earlier or [0] for lesson in lessons])
        present = torch.tensor([[float(bool(lesson.earlier))] for lesson in lessons])
        earlier = (self.table(before) * before_mask[..., None]).sum(1) / before_mask.sum(1, keepdim=True) * present
        scaled = torch.from_numpy(np.stack([lesson.scaled for lesson in lessons]))
        inputs = torch.cat((found.amax(1), head.amax(1), tail.amax(1), rows.sum(1) / length, earlier, scaled), dim=1)
        return self.output(torch.relu(self.hidden(self.drop(inputs))))


def begun(words: Floats, features: int) -> CheapNetwork:
    """A new network over the encoder's word embeddings."""
    torch.manual_seed(SEED)
    return CheapNetwork(_strongest(words), features)


def resumed(cheap: Cheap, features: int) -> CheapNetwork:
    """The network that a served tier was made from."""
    network = CheapNetwork(cheap.table * cheap.table_scale, features)
    layers = (
        (network.conv, cheap.filters, cheap.filter_bias),
        (network.hidden, cheap.hidden, cheap.hidden_bias),
        (network.output, cheap.output, cheap.output_bias),
    )
    with torch.no_grad():
        for layer, weight, bias in layers:
            layer.weight.copy_(torch.from_numpy(weight).T)
            layer.bias.copy_(torch.from_numpy(bias))
    return network


def fit_cheap(
    network: CheapNetwork, lessons: Sequence[Lesson], *, epochs: int = EPOCHS, rate: float = RATE
) -> CheapNetwork:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=0.02)
    steps = epochs * -(-len(lessons) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps + epochs)
    rng = random.Random(SEED)
    network.train()
    for epoch in range(epochs):
        order = list(range(len(lessons)))
        rng.shuffle(order)
        running = 0.7
        for start in range(0, len(order), BATCH):
            chosen = [lessons[index] for index in order[start : start + BATCH]]
            found = network(chosen)
            wanted = torch.tensor([TEACHER_SHARE * one.taught + (1 - TEACHER_SHARE) * one.label for one in chosen])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(found[:, 0], wanted)
            loss = loss + 0.1 * torch.nn.functional.mse_loss(found[:, 1], torch.tensor([o.residual for o in chosen]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            running = 0.98 * running + 0.02 * float(loss.detach())
        print(f"cheap tier, epoch {epoch}: loss {running:.3f}", flush=True)
    return network.eval()


def served(network: CheapNetwork, classes: Floats, knots: Floats) -> Cheap:
    """The network in the form that numpy serves, not calibrated yet."""
    table = network.table.weight.detach().numpy()
    scale = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-6) / 127

    def weights(layer: torch.nn.Linear) -> tuple[Floats, Floats]:
        return layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()

    (filters, filter_bias), (hidden, hidden_bias) = weights(network.conv), weights(network.hidden)
    output, output_bias = weights(network.output)
    return Cheap(
        table=np.round(table / scale).astype(np.int8),
        table_scale=scale.astype(np.float16).astype(np.float32),
        filters=filters.astype(np.float16).astype(np.float32),
        filter_bias=filter_bias,
        hidden=hidden.astype(np.float16).astype(np.float32),
        hidden_bias=hidden_bias,
        output=output,
        output_bias=output_bias,
        platt=np.array([1.0, 0.0], dtype=np.float32),
        classes=classes,
        knots=knots,
    )


def calibrated(cheap: Cheap, lessons: Sequence[Lesson]) -> Cheap:
    """The tier with Platt's two numbers from these lessons' labels."""
    logits = np.array([cheap.forward(one.ids, one.earlier, one.scaled)[0] for one in lessons], dtype=np.float64)
    platt = fit_platt(logits, np.array([one.label for one in lessons]))
    return replace(cheap, platt=np.array(platt, dtype=np.float32))


def _strongest(words: Floats) -> Floats:
    """The embeddings along their `WIDTH` strongest directions, to a like size."""
    centred = words - words.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    turned = centred @ vectors[:, ::-1][:, :WIDTH]
    return (turned / turned.std() * 0.5).astype(np.float32)


def _padded(rows: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros((len(rows), width))
    for position, row in enumerate(rows):
        ids[position, : len(row)] = torch.tensor(row)
        mask[position, : len(row)] = 1.0
    return ids, mask
