"""A network and one epoch of fitting it. What is fitted on, in which order, and the rates over time come from callers.

One thread, seeded; bfloat16 products (half the time where the processor has them). Word embeddings and the lowest
layers stay as they are: most words are seen too rarely to be moved well.
"""

import ctypes
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from router.clip import MAX_TOKENS
from router.encoder import TextIds
from router.lexical import FEATURES, features
from router.training.data import SEED, Row
from router.training.network import Batch, Network

RATE = 1.2e-4
HEAD_RATE = 1e-3
LAYER_DECAY = 0.85
"""Each layer learns this much slower than the one above it."""
FROZEN = 2
"""Lowest layers that stay as they are, like the word embeddings: they read words, and the asks differ further up."""
BATCH_TOKENS = 2600
BATCH_ROWS = 48
RESIDUAL_WEIGHT = 0.25
NOISY_WEIGHT = 0.6
"""Weight of rows whose label is that of their source."""

Floats = NDArray[np.float32]


class Tuner:
    """A network and one epoch of fitting it; what is fitted on, and in which order, comes from the caller."""

    def __init__(self, base: Path, centre: Floats, spread: Floats) -> None:
        """`base`: a sentence-transformers folder. `centre` and `spread` scale the lexical features."""
        _keep_memory()
        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        self.ids = TextIds(base / "tokenizer.json")
        self.centre, self.spread = centre, spread
        self.network = Network(base, len(FEATURES))
        self.grades: Mapping[tuple[str, int], tuple[float, float]] = {}
        """Mean and standard deviation of the complexity of each source and label; of a source not in it, no grade is
        learnt."""

    def batch(self, rows: Sequence[Row]) -> Batch:
        raw = np.stack([features(row.ask) for row in rows])
        lexical = np.clip((raw - self.centre) / self.spread, -4, 4).astype(np.float32)
        earlier = [self.ids(row.ask.earlier) if row.ask.earlier else [] for row in rows]
        return Batch([self.ids(row.ask.text) for row in rows], earlier, lexical)

    def logits(self, rows: Sequence[Row]) -> Floats:
        """(rows, 2), in order."""
        self.network.eval()
        found = np.zeros((len(rows), 2), dtype=np.float32)
        with torch.inference_mode():
            for picked in self.batches(0, rows):
                found[picked] = self.network(self.batch([rows[index] for index in picked])).numpy()
        return found

    def fit(
        self,
        number: int,
        rows: Sequence[Row],
        optimiser: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LambdaLR,
    ) -> None:
        """One epoch over the rows. `number` seeds it."""
        torch.manual_seed(SEED + number)
        batches = self.batches(number, rows)
        self.network.train()
        for module in self.network.encoder.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.05
        began, running = time.process_time(), 0.7
        for position, picked in enumerate(batches):
            chosen = [rows[index] for index in picked]
            loss = self._loss(self.network(self.batch(chosen)), chosen)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
            running = 0.98 * running + 0.02 * float(loss.detach())
            if position % 50 == 0:
                spent = time.process_time() - began
                print(f"epoch {number} {position}/{len(batches)} loss {running:.3f} {spent:.0f} s", flush=True)

    def _loss(self, found: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
        labels = torch.tensor([0.97 if row.label else 0.03 for row in rows])
        clean = ("handwritten", "crossed", "aug", "steps", "own")
        weights = torch.tensor([1.0 if row.source.startswith(clean) else NOISY_WEIGHT for row in rows])
        verdicts = torch.nn.functional.binary_cross_entropy_with_logits(found[:, 0], labels, weights)
        grades = torch.tensor([self._grade(row) for row in rows])
        known = ~torch.isnan(grades)
        if not bool(known.any()):
            return verdicts
        return verdicts + RESIDUAL_WEIGHT * torch.nn.functional.mse_loss(found[known, 1], grades[known])

    def _grade(self, row: Row) -> float:
        """Complexity in standard deviations within its source and label; NaN where the source has one grade."""
        mean, spread = self.grades.get((row.source, row.label), (0.0, 0.0))
        return (row.complexity - mean) / spread if spread > 0.01 else math.nan

    def batches(self, number: int, rows: Sequence[Row]) -> list[list[int]]:
        """The rows' indices as epoch `number` takes them."""
        return _like_length([min(len(row.ask.text), 720) for row in rows], random.Random(number))

    def groups(self) -> list[dict[str, object]]:
        network = self.network
        bert = network.encoder[0].auto_model
        layers = list(bert.encoder.layer)
        for part in (bert.embeddings, *layers[:FROZEN]):
            for parameter in part.parameters():
                parameter.requires_grad = False
        groups: list[dict[str, object]] = [
            {"params": list(layer.parameters()), "lr": RATE * LAYER_DECAY ** (len(layers) - 1 - depth)}
            for depth, layer in enumerate(layers)
            if depth >= FROZEN
        ]
        groups.append({"params": [*network.hidden.parameters(), *network.output.parameters()], "lr": HEAD_RATE})
        return groups


def falling(steps: int, begin: float) -> Callable[[int], float]:
    """Share of the full rate at a step: a short rise to `begin`, then evenly down to rest."""
    return lambda step: begin * min((step + 1) / (0.05 * steps), max(0.01, 1 - step / steps))


def _like_length(lengths: Sequence[int], rng: random.Random) -> list[list[int]]:
    """Indices in batches of like length, in a drawn order: little padding, and no batch over the memory of a core."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches: list[list[int]] = []
    for start in range(0, len(order), 960):
        chunk = sorted(order[start : start + 960], key=lambda index: lengths[index])
        batch: list[int] = []
        for index in chunk:
            longest = min(lengths[index] // 3 + 4, MAX_TOKENS)
            if batch and (len(batch) == BATCH_ROWS or longest * (len(batch) + 1) > BATCH_TOKENS):
                batches.append(batch)
                batch = []
            batch.append(index)
        batches.append(batch)
    rng.shuffle(batches)
    return batches


def _keep_memory() -> None:
    """Tell glibc to keep freed blocks: returning them to the kernel after each layer costs half of the time."""
    libc = ctypes.CDLL(None)
    for option, value in ((-3, 1 << 30), (-1, 1 << 31), (-2, 1 << 27)):  # mmap and trim thresholds, top pad
        libc.mallopt(option, min(value, 2**31 - 1))
