"""Training's own parts with torch: what is exported is what was trained, what is thawed is what was exported, and a
router trained further on a small log loads and decides."""

# ruff: noqa: E402 - what is tested can only be imported where the extra is installed

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from router.classifier import Classifier
from router.encoder import OnnxEncoder, TextIds
from router.lexical import FEATURES
from router.loading import ASSETS, load_models
from router.retrain.log import read_log
from router.retrain.refit import evaluate, probabilities

for extra in ("torch", "onnx", "sentence_transformers"):
    pytest.importorskip(extra, reason="needs the extra `train`")

import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from router.training import cheapfit, fit, further
from router.training.base import write_folder
from router.training.export import write_onnx
from router.training.network import Network
from router.training.outliers import outliers
from router.training.thaw import thaw
from tests.bert import HEADS, small_bert

if TYPE_CHECKING:
    from numpy.typing import NDArray

GUARD = ASSETS / "guard.jsonl"
LARGE = [7, 100, 311]
TEXTS = ("Prove it.", "Сколько будет 17 умножить на 23?", "what time is it in Lyon", "把这句话翻译成英文：证明如下。")


@pytest.fixture(scope="module")
def ids() -> TextIds:
    return TextIds(ASSETS / "tokenizer.json")


@pytest.fixture
def bert() -> BertModel:
    """Two layers of random weights, with three inner columns of the second far larger than the rest, and of no weight:
    all that they can do is to spoil a common scale."""
    model = small_bert(Tokenizer.from_file(str(ASSETS / "tokenizer.json")).get_vocab_size())
    with torch.no_grad():
        layer = model.encoder.layer[1]
        layer.intermediate.dense.weight *= 4
        layer.output.dense.weight *= 10
        layer.intermediate.dense.bias[LARGE] = 400.0
        layer.output.dense.weight[:, LARGE] = 0.0
    return model


def weights_of(model: BertModel) -> dict[str, NDArray[np.float32]]:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def states(model: BertModel, row: list[int]) -> NDArray[np.float32]:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([row])).last_hidden_state[0].numpy()


def likeness(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    """The least cosine between the states of a token."""
    products = (left * right).sum(axis=1)
    return float((products / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)).min())


def test_the_largest_inner_columns_are_found(bert: BertModel, ids: TextIds) -> None:
    found = outliers(bert, [ids(text) for text in TEXTS])
    assert len(found) == 2
    assert set(LARGE) <= set(found[1])
    assert all(columns == sorted(set(columns)) for columns in found)


def test_columns_kept_apart_make_the_int8_file_exact(bert: BertModel, ids: TextIds, tmp_path: Path) -> None:
    rows = [ids(text) for text in TEXTS]

    def worst(apart: list[list[int]]) -> float:
        path = tmp_path / f"{bool(apart)}.onnx"
        write_onnx(weights_of(bert), 2, HEADS, path, apart)
        encoder: Any = OnnxEncoder(path, ids)
        served = [encoder._session.run(None, {"input_ids": np.array([row])})[0][0] for row in rows]
        return min(likeness(states(bert, row), found) for row, found in zip(rows, served, strict=True))

    assert worst(outliers(bert, rows)) > 0.998 > worst([])


def test_what_is_thawed_is_what_was_exported(bert: BertModel, ids: TextIds, tmp_path: Path) -> None:
    rows = [ids(text) for text in TEXTS]
    write_onnx(weights_of(bert), 2, HEADS, tmp_path / "encoder.onnx", outliers(bert, rows))
    weights, heads = thaw(tmp_path / "encoder.onnx")
    assert heads == HEADS
    config = BertConfig(**{**bert.config.to_dict(), "max_position_embeddings": 72})
    again = BertModel(config, add_pooling_layer=False).eval()
    again.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    assert min(likeness(states(bert, row), states(again, row)) for row in rows) > 0.999


def test_a_head_goes_into_the_network_and_comes_out_again(bert: BertModel, tmp_path: Path) -> None:
    head = load_models().head
    write_folder(bert, Tokenizer.from_file(str(ASSETS / "tokenizer.json")), tmp_path)
    network = Network(tmp_path, len(FEATURES))
    network.take(head)
    folded = network.folded()
    assert np.allclose(folded["hidden"], head.hidden, atol=1e-6)
    assert np.allclose(folded["hidden_bias"], head.hidden_bias)
    assert np.allclose(folded["output"], head.output)
    units = head.hidden.shape[1]
    assert np.allclose(folded["residual"][-units - 1 :], head.residual[-units - 1 :])


def test_the_cheap_tier_goes_on_where_it_was() -> None:
    cheap = load_models().cheap
    again = cheapfit.served(cheapfit.resumed(cheap, len(FEATURES)), cheap.classes, cheap.knots)
    scaled = np.linspace(-2, 2, len(FEATURES), dtype=np.float32)
    for row in ([0, 5, 900, 2], [0, *range(40, 90), 2]):
        assert again.forward(row, [0, 7, 2], scaled) == pytest.approx(cheap.forward(row, [0, 7, 2], scaled), abs=0.02)


def test_following_recovers_a_linear_map() -> None:
    rng = np.random.default_rng(5)
    features = rng.normal(size=(4000, 6)) * [1, 10, 0.1, 1, 1, 3]
    weights = np.array([0.5, -0.2, 4.0, 0.0, 1.0, 0.3])
    found = fit.follow(features, features @ weights + 2.0, np.zeros(7, dtype=np.float32))
    assert np.allclose(features @ found[:-1] + found[-1], features @ weights + 2.0, atol=0.3)


def test_a_router_trained_further_loads_and_decides_as_before_but_for_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, small in (("CROSSED", 60), ("GROUPS", 80), ("HELD_GROUPS", 100), ("CHEAP_EPOCHS", 1)):
        monkeypatch.setattr(further, name, small)
    rows = read_log(GUARD)
    log, others = rows[::4], rows[1::8]
    card = further.run(log, tmp_path / "made", tmp_path / "work")
    assert card["tuned"]["rows"] == len(log) - -(-len(log) // further.KEPT_BACK)
    made, shipped = load_models(folder=tmp_path / "made"), load_models()
    assert made.head.card["sha256"]["encoder.onnx"] != shipped.head.card["sha256"]["encoder.onnx"]
    before, after = (probabilities(models, others) for models in (shipped, made))
    assert 0 < np.abs(before - after).mean() < 0.15
    assert evaluate(made, log)["accuracy"] > 0.8
    cheap = [
        np.array([Classifier(models).cheap_score(row.ask, Classifier(models).work(row.ask)).p_reasoning for row in log])
        for models in (shipped, made)
    ]
    assert 0 < np.abs(cheap[0] - cheap[1]).mean() < 0.15
