"""What serving sees of rows: the head's inputs and outputs, the cheap tier's lessons. Nothing is fitted here."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.classifier import Classifier, Models
from router.encoder import OnnxEncoder
from router.head import Head, sigmoid
from router.training import cheapfit
from router.training.data import Row

NO_CHEAP: Any = None
"""For models whose cheap tier is still to be made."""

Floats = NDArray[np.float64]


def inputs_of(head: Head, encoder: OnnxEncoder, rows: Sequence[Row]) -> Floats:
    """What the head sees of each row."""
    classifier = Classifier(Models(encoder, head, NO_CHEAP, encoder.ids), cache_size=0)
    return np.stack([classifier.inputs(row.ask, classifier.work(row.ask)) for row in rows]).astype(np.float64)


def outputs(head: Head, encoder: OnnxEncoder, rows: Sequence[Row]) -> Floats:
    """(rows, 2): raw logit and residual."""
    inputs = inputs_of(head, encoder, rows)
    units = head.units(inputs.astype(np.float32)).astype(np.float64)
    logits = units @ head.output[:-1] + head.output[-1]
    residuals = np.concatenate((inputs, units), axis=1) @ head.residual[:-1] + head.residual[-1]
    return np.stack((logits, residuals), axis=1)


def lessons_of(models: Models, rows: Sequence[Row], taught: Floats) -> list[cheapfit.Lesson]:
    """`taught`: raw logit and residual of each row, as `outputs` gives them."""
    classifier = Classifier(models, cache_size=0)
    slope, offset = models.head.platt.tolist()
    return [
        cheapfit.Lesson(
            models.ids(row.ask.text),
            models.ids(row.ask.earlier) if row.ask.earlier else [],
            classifier.work(row.ask).scaled,
            float(row.label),
            sigmoid(slope * logit + offset),
            float(np.clip(residual, -2.5, 2.5)),
        )
        for row, (logit, residual) in zip(rows, taught.tolist(), strict=True)
    ]
