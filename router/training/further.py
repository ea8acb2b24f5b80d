"""Fine-tuning the shipped router on a log of one's own: from its own weights, for one epoch beside our crossed prompts.

Nothing else is needed than what ships: the int8 encoder is thawed, the crossed groups keep the new router from learning
the log's topics for its asks, and the groups held out calibrate it together with a fifth of the log.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from router.classifier import Models
from router.encoder import OnnxEncoder, TextIds
from router.head import Head
from router.loading import ASSETS, load_models
from router.retrain.fitting import fit_platt
from router.retrain.log import LogRow
from router.retrain.refit import tabulate
from router.training import cheapfit, fit
from router.training.base import write_folder
from router.training.crossed import generate, pairs, read_templates
from router.training.data import SEED, Row, of_log, of_made
from router.training.export import write_onnx
from router.training.outliers import LOOKED_AT, outliers
from router.training.served import NO_CHEAP, inputs_of, lessons_of, outputs
from router.training.thaw import thaw
from router.training.tuner import Tuner, falling

CROSSED, GROUPS = 2_000, 6_000
"""Rows of the epoch beside the log: from the templates, and from the groups."""
RATE = 0.4
"""Share of the full rate at which the epoch begins."""
KEPT_BACK = 5
"""One in so many rows of the log is not trained on, and calibrates."""
HELD_GROUPS = 1_500
"""Asks of the groups held out that calibrate beside them."""
CHEAP_EPOCHS, CHEAP_RATE = 2, 3e-4
"""Of the cheap tier, which goes on from the shipped one."""


def run(log: Sequence[LogRow], out: Path, work: Path, *, assets: Path = ASSETS) -> dict[str, Any]:
    """A router like the one in `assets`, trained further on the labelled rows of a log; its files in `out`, its card
    returned. Raises ValueError where a row has no label."""
    work.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    shipped = load_models(folder=assets)
    rows = [of_log(row) for row in log]
    templates = read_templates()
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(rows))
    kept_back = [rows[index] for index in order[::KEPT_BACK]]
    own = [rows[index] for place, index in enumerate(order) if place % KEPT_BACK]
    groups = [of_made(made) for made in pairs(templates, SEED)]
    beside = [
        *(groups[index] for index in rng.permutation(len(groups))[:GROUPS]),
        *(of_made(made) for made in generate(templates, CROSSED, SEED) if not made.is_held),
    ]
    epoch = [*own, *beside]
    tuner = _tuned(shipped, epoch, assets, work / "base")
    bert = tuner.network.encoder[0].auto_model
    weights = {name: tensor.float().numpy() for name, tensor in bert.state_dict().items()}
    apart = outliers(bert, [tuner.ids(row.ask.text) for row in epoch[:LOOKED_AT]])
    write_onnx(weights, bert.config.num_hidden_layers, bert.config.num_attention_heads, out / "encoder.onnx", apart)
    (out / "tokenizer.json").write_bytes((assets / "tokenizer.json").read_bytes())
    ids = TextIds(out / "tokenizer.json")
    encoder = OnnxEncoder(out / "encoder.onnx", ids, cache_size=1 << 15)
    held = [of_made(made) for made in pairs(templates, SEED, held=True)]
    chosen = [*kept_back, *(held[index] for index in rng.permutation(len(held))[:HELD_GROUPS])]
    head = _head(tuner, shipped, encoder, epoch, chosen)
    models = Models(encoder, head, NO_CHEAP, ids)
    lessons = lessons_of(models, epoch, outputs(head, encoder, epoch))
    network = cheapfit.resumed(shipped.cheap, len(head.centre))
    fitted = cheapfit.fit_cheap(network, lessons, epochs=CHEAP_EPOCHS, rate=CHEAP_RATE)
    cheap = cheapfit.served(fitted, head.classes, head.knots)
    cheapfit.calibrated(cheap, lessons_of(models, chosen, np.zeros((len(chosen), 2)))).write(out / "cheap.npz")
    made = ("encoder.onnx", "tokenizer.json", "cheap.npz")
    card = {
        **shipped.head.card,
        "tuned": {"rows": len(own), "beside": len(beside), "from": shipped.head.card["sha256"]},
        "sha256": {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in made},
    }
    replace(head, card=card).write(out / "head.npz")
    return card


def _tuned(shipped: Models, epoch: list[Row], assets: Path, folder: Path) -> Tuner:
    """The shipped network after one epoch over the rows."""
    tokenizer = Tokenizer.from_file(str(assets / "tokenizer.json"))
    write_folder(_bert(*thaw(assets / "encoder.onnx")), tokenizer, folder)
    tuner = Tuner(folder, shipped.head.centre, shipped.head.spread)
    tuner.network.take(shipped.head)
    optimiser = torch.optim.AdamW(tuner.groups(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, falling(len(tuner.batches(0, epoch)), RATE))
    tuner.fit(0, epoch, optimiser, schedule)
    tuner.network.eval()
    return tuner


def _bert(weights: dict[str, NDArray[np.float32]], heads: int) -> BertModel:
    words, width = weights["embeddings.word_embeddings.weight"].shape
    config = BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=sum(name.endswith("intermediate.dense.bias") for name in weights),
        num_attention_heads=heads,
        intermediate_size=len(weights["encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(weights["embeddings.position_embeddings.weight"]),
        pad_token_id=1,
    )
    model = BertModel(config, add_pooling_layer=False)
    model.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    return model


def _head(tuner: Tuner, shipped: Models, encoder: OnnxEncoder, epoch: list[Row], chosen: list[Row]) -> Head:
    """The tuned head, calibrated on `chosen`; its residual difficulty follows the shipped one, since a log has no
    grades."""
    folded = tuner.network.folded()
    head = replace(
        shipped.head,
        hidden=folded["hidden"].astype(np.float16).astype(np.float32),
        hidden_bias=folded["hidden_bias"],
        output=folded["output"],
    )
    inputs = inputs_of(head, encoder, epoch)
    features = np.concatenate((inputs, head.units(inputs.astype(np.float32))), axis=1)
    wanted = outputs(shipped.head, _encoder_of(shipped), epoch)[:, 1]
    head = replace(head, residual=fit.follow(features, wanted, head.residual))
    logits = outputs(head, encoder, chosen)[:, 0]
    labels = fit.labels_of(chosen)
    platt = np.array(fit_platt(logits, labels), dtype=np.float32)
    return tabulate(replace(head, platt=platt), logits, labels)


def _encoder_of(models: Models) -> OnnxEncoder:
    assert isinstance(models.encoder, OnnxEncoder)
    return models.encoder
