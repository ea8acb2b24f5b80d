"""Loading and encoding with the real files: what is verified, what is remembered, what is said when one is missing."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from router import Classifier, OnnxEncoder, RouterUnavailable, load, loading
from router.clip import MAX_TOKENS
from router.encoder import DIMENSION, SENTENCE, TextIds
from router.sentence import SentenceEncoder


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    ids = TextIds(loading.ASSETS / "tokenizer.json")
    return OnnxEncoder(loading.ASSETS / "encoder.onnx", ids, cache_size=4)


@pytest.fixture
def assets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the shipped files that a test may break."""
    for path in loading.ASSETS.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(loading, "ASSETS", tmp_path)
    return tmp_path


def replace_file(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("first", ["router", "router.encoder"])
def test_its_runtime_keeps_nothing_about_this_machine(tmp_path: Path, first: str) -> None:
    """ONNX Runtime would make an identifier below HOME on import, for what it sends; it spares machines that say CI."""
    env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    code = f"import {first}, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert told.stdout == "1\n"
    assert list(tmp_path.iterdir()) == []


def test_encodings_are_two_unit_vectors(encoder: OnnxEncoder) -> None:
    vector = encoder.encode("How many primes lie below one hundred?")
    assert vector.shape == (DIMENSION,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector[:SENTENCE]) == pytest.approx(1.0, abs=1e-5)
    assert np.linalg.norm(vector[SENTENCE:]) == pytest.approx(1.0, abs=1e-5)


def test_encodings_are_remembered_and_frozen(encoder: OnnxEncoder) -> None:
    first = encoder.encode("remember me")
    assert encoder.encode("remember me") is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0


def test_any_text_can_be_encoded(encoder: OnnxEncoder) -> None:
    for text in ("", "\x00", "\ud800 lone", "x" * 100_000, "证" * 5000):
        assert np.isfinite(encoder.encode(text)).all()


def test_token_ids_are_clipped() -> None:
    ids = TextIds(loading.ASSETS / "tokenizer.json")
    long = ids("q z " * 3000)
    assert len(long) == MAX_TOKENS
    assert ids("")[0] == long[0]
    assert ids("")[-1] == long[-1]


def test_load_gives_a_classifier() -> None:
    assert isinstance(load(threshold=0.4, cache_size=16), Classifier)


def test_a_knob_sets_the_threshold() -> None:
    careful, lax = load(max_missed=0.02), load(max_missed=0.3)
    assert careful.threshold < lax.threshold
    assert load(target_share=0.9).threshold < load(target_share=0.1).threshold


@pytest.mark.parametrize("name", ["encoder.onnx", "tokenizer.json", "cheap.npz"])
def test_another_file_is_refused(assets: Path, name: str) -> None:
    replace_file(assets / name, b"not the weights")
    with pytest.raises(RouterUnavailable, match="not the expected file") as caught:
        load()
    assert "\n" not in str(caught.value)
    (assets / name).unlink()
    with pytest.raises(RouterUnavailable, match="missing"):
        load()


@pytest.mark.parametrize("broken", [b"", b"PK", b"PK\x03\x04 cut short"])
def test_a_broken_head_is_refused(assets: Path, broken: bytes) -> None:
    replace_file(assets / "head.npz", broken)
    with pytest.raises(RouterUnavailable, match="head is unreadable"):
        load()


def test_a_head_for_other_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "FEATURES", ("something else",))
    with pytest.raises(RouterUnavailable, match="fits other features"):
        load()


def test_an_encoder_of_ones_own_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(RouterUnavailable, match="cannot be read"):
        load(encoder=tmp_path)


def test_both_backends_agree(tmp_path: Path) -> None:
    """A small model of random weights, written by the exporter: the int8 file against sentence-transformers."""
    pytest.importorskip("sentence_transformers", reason="needs the extra `train`")
    pytest.importorskip("torch", reason="needs the extra `train`")
    pytest.importorskip("onnx", reason="needs the extra `train`")
    from tokenizers import Tokenizer

    from router.training.base import write_folder
    from router.training.export import write_onnx
    from tests.bert import HEADS, small_bert

    path = loading.ASSETS / "tokenizer.json"
    ids, tokenizer = TextIds(path), Tokenizer.from_file(str(path))
    model = small_bert(tokenizer.get_vocab_size())
    write_folder(model, tokenizer, tmp_path)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    write_onnx(weights, 2, HEADS, tmp_path / "encoder.onnx")
    served, reference = OnnxEncoder(tmp_path / "encoder.onnx", ids), SentenceEncoder(tmp_path)
    assert reference.sentence == SENTENCE
    for text in ("Prove it.", "Сколько будет 17 умножить на 23?", "what time is it in Lyon"):
        assert float(served.encode(text)[:SENTENCE] @ reference.encode(text)[:SENTENCE]) > 0.99
