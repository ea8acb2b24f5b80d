"""Fine-tuning, epoch by epoch, with a checkpoint after each: a run that was stopped goes on where it was.

Two stages: a trunk on the first mix of rows, then rounds over the wide mix, each of a few branches with a draw of rows
of their own. The mean of the last ones is served: it is better than either, and costs what one does.

One thread, seeded; bfloat16 products (half the time where the processor has them). Word embeddings and the lowest
layers stay as they are: most words are seen too rarely to be moved well.
"""

import ctypes
import math
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from router.clip import MAX_TOKENS
from router.encoder import TextIds
from router.lexical import FEATURES, features
from router.training.data import BRANCHES, LAST, ROUNDS, SEED, Corpus, Row
from router.training.network import Batch, Network

TRUNK = LAST + 1
"""Epochs of the first stage; the last is short and leans on the handwritten rows: `data.Corpus.epoch`."""
WIDE_RATES = (0.7, 0.5)
"""Share of the full rate at which each round begins."""
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


class Trainer:
    def __init__(self, base: Path, work: Path, corpus: Corpus) -> None:
        _keep_memory()
        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        self._work = work
        self._corpus = corpus
        self.ids = TextIds(base / "tokenizer.json")
        first = corpus.epoch(0)
        raw = np.stack([features(row.ask) for row in first])
        self.centre, self.spread = raw.mean(axis=0), raw.std(axis=0) + np.float32(1e-3)
        self.network = Network(base, len(FEATURES))
        self._grades = _grades(corpus)

    def run(self) -> None:
        """Train what no checkpoint has, and leave the last round's mean in the network."""
        self._stage("epoch", range(TRUNK), _rate)
        for number in range(ROUNDS):
            for branch in range(BRANCHES):
                self.run_branch(number, branch)
            self._gather(number)

    def run_branch(self, number: int, branch: int) -> None:
        """One run of a round, from the mean of the round before; of the first round, from the trunk's end."""
        if number:
            self._gather(number - 1)
        else:
            self.network.load_state_dict(self._stored("epoch", LAST)["network"])
        epoch = _wide(number, branch)
        self._stage("wide", range(epoch, epoch + 1), lambda steps: _falling(sum(steps), WIDE_RATES[number]))

    def _gather(self, number: int) -> None:
        """Load the mean of a round's branches."""
        ends = [self._stored("wide", _wide(number, branch))["network"] for branch in range(BRANCHES)]
        self.network.load_state_dict({name: _mean([end[name] for end in ends]) for name in ends[0]})

    def _stage(self, name: str, epochs: Sequence[int], rate: Callable[[list[int]], Callable[[int], float]]) -> None:
        steps = [len(_batches(self._lengths(self._corpus.epoch(n)), random.Random(n))) for n in epochs]
        optimiser = torch.optim.AdamW(self._groups(), weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate(steps))
        done = [number for number in epochs if (self._work / f"{name}-{number}.pt").exists()]
        if done:
            stored = self._stored(name, done[-1])
            self.network.load_state_dict(stored["network"])
            optimiser.load_state_dict(stored["optimiser"])
            schedule.load_state_dict(stored["schedule"])
        for number in epochs[len(done) :]:
            self._epoch(number, optimiser, schedule)
            state = {"network": self.network, "optimiser": optimiser, "schedule": schedule}
            torch.save({key: part.state_dict() for key, part in state.items()}, self._work / f"{name}-{number}.pt")

    def _stored(self, name: str, number: int) -> dict[str, Any]:
        return torch.load(self._work / f"{name}-{number}.pt", weights_only=True)

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
            for picked in _batches(self._lengths(rows), random.Random(0)):
                found[picked] = self.network(self.batch([rows[index] for index in picked])).numpy()
        return found

    def _epoch(
        self, number: int, optimiser: torch.optim.Optimizer, schedule: torch.optim.lr_scheduler.LambdaLR
    ) -> None:
        torch.manual_seed(SEED + number)
        rows = self._corpus.epoch(number)
        batches = _batches(self._lengths(rows), random.Random(number))
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
        clean = ("handwritten", "crossed", "aug")
        weights = torch.tensor([1.0 if row.source.startswith(clean) else NOISY_WEIGHT for row in rows])
        verdicts = torch.nn.functional.binary_cross_entropy_with_logits(found[:, 0], labels, weights)
        grades = torch.tensor([self._grade(row) for row in rows])
        known = ~torch.isnan(grades)
        if not bool(known.any()):
            return verdicts
        return verdicts + RESIDUAL_WEIGHT * torch.nn.functional.mse_loss(found[known, 1], grades[known])

    def _grade(self, row: Row) -> float:
        """Complexity in standard deviations within its source and label; NaN where the source has one grade."""
        mean, spread = self._grades.get((row.source, row.label), (0.0, 0.0))
        return (row.complexity - mean) / spread if spread > 0.01 else math.nan

    def _lengths(self, rows: Sequence[Row]) -> list[int]:
        return [min(len(row.ask.text), 720) for row in rows]

    def _groups(self) -> list[dict[str, object]]:
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


def _rate(steps: list[int]) -> Callable[[int], float]:
    """The trunk's share of the full rate at a step: a short rise, down to a third over the full epochs, to rest."""
    falling, resting = sum(steps[:-1]), steps[-1]

    def share(step: int) -> float:
        if step < falling:
            return min(1.0, (step + 1) / (0.09 * falling)) * (1 - step / (1.5 * falling))
        return max(0.01, (1 - (step - falling) / resting) / 3)

    return share


def _falling(steps: int, begin: float) -> Callable[[int], float]:
    """A branch's: a short rise to `begin`, then evenly down to rest."""
    return lambda step: begin * min((step + 1) / (0.05 * steps), max(0.01, 1 - step / steps))


def _wide(number: int, branch: int) -> int:
    """Number of the epoch of one branch of one round: each draws rows of its own."""
    return TRUNK + number * BRANCHES + branch


def _mean(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([tensor.double() for tensor in tensors]).mean(0).to(tensors[0].dtype)


def _grades(corpus: Corpus) -> dict[tuple[str, int], tuple[float, float]]:
    """Mean and standard deviation of the complexity of each source and label."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in (*corpus.handwritten, *corpus.plain, *corpus.augmented, *corpus.epoch(0)):
        found.setdefault((row.source, row.label), []).append(row.complexity)
    return {key: (float(np.mean(values)), float(np.std(values))) for key, values in found.items()}


def _batches(lengths: Sequence[int], rng: random.Random) -> list[list[int]]:
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
