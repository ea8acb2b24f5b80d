"""The shipped router's training, epoch by epoch, with a checkpoint after each: a stopped run goes on where it was.

Two stages: a trunk on the first mix of rows, then rounds over the wide mix, each of a few branches with a draw of rows
of their own. The mean of the last ones is served: it is better than either, and costs what one does.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from router.lexical import features
from router.training.data import BRANCHES, LAST, ROUNDS, Corpus
from router.training.tuner import Tuner, falling

TRUNK = LAST + 1
"""Epochs of the first stage; the last is short and leans on the handwritten rows: `data.Corpus.epoch`."""
WIDE_RATES = (0.7, 0.6, 0.4)
"""Share of the full rate at which each round begins."""


class Trainer(Tuner):
    """The shipped router's schedule over a corpus, with a checkpoint after each epoch."""

    def __init__(self, base: Path, work: Path, corpus: Corpus) -> None:
        raw = np.stack([features(row.ask) for row in corpus.epoch(0)])
        super().__init__(base, raw.mean(axis=0), raw.std(axis=0) + np.float32(1e-3))
        self._work = work
        self._corpus = corpus
        self.grades = _grades(corpus)

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
        self._stage("wide", range(epoch, epoch + 1), lambda steps: falling(sum(steps), WIDE_RATES[number]))

    def _gather(self, number: int) -> None:
        """Load the mean of a round's branches."""
        ends = [self._stored("wide", _wide(number, branch))["network"] for branch in range(BRANCHES)]
        self.network.load_state_dict({name: _mean([end[name] for end in ends]) for name in ends[0]})

    def _stage(self, name: str, epochs: Sequence[int], rate: Callable[[list[int]], Callable[[int], float]]) -> None:
        steps = [len(self.batches(n, self._corpus.epoch(n))) for n in epochs]
        optimiser = torch.optim.AdamW(self.groups(), weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate(steps))
        done = [number for number in epochs if (self._work / f"{name}-{number}.pt").exists()]
        if done:
            stored = self._stored(name, done[-1])
            self.network.load_state_dict(stored["network"])
            optimiser.load_state_dict(stored["optimiser"])
            schedule.load_state_dict(stored["schedule"])
        for number in epochs[len(done) :]:
            self.fit(number, self._corpus.epoch(number), optimiser, schedule)
            state = {"network": self.network, "optimiser": optimiser, "schedule": schedule}
            torch.save({key: part.state_dict() for key, part in state.items()}, self._work / f"{name}-{number}.pt")

    def _stored(self, name: str, number: int) -> dict[str, Any]:
        return torch.load(self._work / f"{name}-{number}.pt", weights_only=True)


def _rate(steps: list[int]) -> Callable[[int], float]:
    """The trunk's share of the full rate at a step: a short rise, down to a third over the full epochs, to rest."""
    falling, resting = sum(steps[:-1]), steps[-1]

    def share(step: int) -> float:
        if step < falling:
            return min(1.0, (step + 1) / (0.09 * falling)) * (1 - step / (1.5 * falling))
        return max(0.01, (1 - (step - falling) / resting) / 3)

    return share


def _wide(number: int, branch: int) -> int:
    """Number of the epoch of one branch of one round: each draws rows of its own."""
    return TRUNK + number * BRANCHES + branch


def _mean(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([tensor.double() for tensor in tensors]).mean(0).to(tensors[0].dtype)


def _grades(corpus: Corpus) -> dict[tuple[str, int], tuple[float, float]]:
    """Mean and standard deviation of the complexity of each source and label."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in (*corpus.graded, *corpus.plain, *corpus.augmented, *corpus.epoch(0)):
        found.setdefault((row.source, row.label), []).append(row.complexity)
    return {key: (float(np.mean(values)), float(np.std(values))) for key, values in found.items()}
