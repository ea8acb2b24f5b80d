"""Fitting the heads on finished features: a small network, two linear ones, and their calibration. Seeded."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from router.training.data import SEED

Floats = NDArray[np.float32]

UNITS = 64
EPOCHS = 14
BATCH = 128
RATE = 2e-3
HANDWRITTEN_WEIGHT = 2.0
EMBEDDING_GAIN = 4.0
"""Embeddings are unit vectors: this brings an entry near the size of a scaled lexical feature. Folded in afterwards."""
LEXICAL_GAIN = 0.5


@dataclass(frozen=True, slots=True)
class Network:
    """A hidden layer of rectified units and a logit, in serving's scale of inputs."""

    hidden: Floats
    hidden_bias: Floats
    output: Floats
    output_bias: float

    def units(self, inputs: Floats) -> Floats:
        return np.maximum(inputs @ self.hidden + self.hidden_bias, 0.0)

    def logits(self, inputs: Floats) -> Floats:
        return self.units(inputs) @ self.output + self.output_bias


def gains(embedded: int, lexical: int) -> Floats:
    """What brings the columns of the inputs to like sizes: `embedded` of them, then `lexical`."""
    return np.repeat(np.array([EMBEDDING_GAIN, LEXICAL_GAIN], dtype=np.float32), [embedded, lexical])


def fit_network(inputs: Floats, labels: NDArray[np.int64], weights: Floats, gain: Floats) -> Network:
    """`gain`: the factor of each column while fitting, folded into the weights afterwards."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    rows, wanted, weight = torch.from_numpy(inputs * gain), torch.from_numpy(labels).float(), torch.from_numpy(weights)
    first, last = torch.nn.Linear(inputs.shape[1], UNITS), torch.nn.Linear(UNITS, 1)
    network = torch.nn.Sequential(
        torch.nn.Dropout(0.1), first, torch.nn.ReLU(), torch.nn.Dropout(0.3), last, torch.nn.Flatten(0)
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-2)
    steps = EPOCHS * -(-len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(rows)).split(BATCH):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                network(rows[batch]), wanted[batch], weight[batch]
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return Network(
        hidden=first.weight.detach().numpy().T * gain[:, None],
        hidden_bias=first.bias.detach().numpy(),
        output=last.weight.detach().numpy()[0],
        output_bias=float(last.bias.detach()[0]),
    )


def fit_logistic(inputs: Floats, labels: NDArray[np.int64], weights: Floats) -> Floats:
    """Linear logit over the inputs, its constant last."""
    model = LogisticRegression(C=0.3, max_iter=500).fit(inputs, labels, weights)
    return np.append(model.coef_[0], model.intercept_[0]).astype(np.float32)


def fit_complexity(inputs: Floats, graded: Floats, weights: Floats, gain: Floats) -> Floats:
    """Logistic regression on the graded complexity, 0..1, as a soft label: a sigmoid gives back its expectation.

    The constant comes last. Least squares on log-odds was tried and sank to the middle: a grade is not a logit.
    """
    scaled = inputs * gain
    model = LogisticRegression(C=0.01, max_iter=500).fit(
        np.concatenate((scaled, scaled)),
        np.repeat([1, 0], len(graded)),
        np.concatenate((weights * graded, weights * (1 - graded))),
    )
    return np.append(model.coef_[0] * gain, model.intercept_[0]).astype(np.float32)


def fit_platt(logits: Floats, labels: NDArray[np.int64]) -> tuple[float, float]:
    """Slope and offset that make a logit a calibrated one."""
    model = LogisticRegression(C=10.0).fit(logits[:, None], labels)
    return float(model.coef_[0, 0]), float(model.intercept_[0])
