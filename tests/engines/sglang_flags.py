"""The flags that a release of SGLang knows, read from its source: it cannot be imported without a GPU's libraries.

`python -m tests.engines.sglang_flags` fetches the release (once, 40 MB) to beside vLLM; nothing of it is run.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.engines.install_vllm import Installation, say

SGLANG: Final = "0.5.23"
SOURCES: Final = ("sglang/srt/server_args.py", "sglang/srt/arg_groups/fields/")
"""Fields whose annotations become flags, and the flags that are added by hand."""


class NoSglang(Exception):
    """The release was not fetched."""


def known_flags() -> set[str]:
    """Raises NoSglang."""
    folder = _folder()
    files = sorted(folder.glob("sglang/srt/**/*.py"))
    if not files:
        raise NoSglang(f"SGLang {SGLANG} was not fetched: run `python -m tests.engines.sglang_flags`")
    return {flag for file in files for flag in _flags(ast.parse(file.read_text(encoding="utf-8")))}


def _flags(tree: ast.Module) -> Iterator[str]:
    """A field `tp_size` is the flag `--tp-size`; aliases and the flags added by hand are written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield f"--{field.target.id.replace('_', '-')}"
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "aliases" and isinstance(keyword.value, ast.List):
                    yield from _written(keyword.value.elts)
            if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                yield from _written(node.args)


def _written(words: Iterable[ast.expr]) -> Iterator[str]:
    for word in words:
        if isinstance(word, ast.Constant) and isinstance(word.value, str) and word.value.startswith("--"):
            yield word.value


def _folder() -> Path:
    return Installation().home / f"sglang-{SGLANG}"


def fetch() -> None:
    with TemporaryDirectory() as work:
        wheel = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, f"sglang=={SGLANG}"]
        subprocess.run(wheel, check=True)
        (file,) = Path(work).glob("*.whl")
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.startswith(SOURCES) and name.endswith(".py"):
                    archive.extract(name, _folder())
    say(f"the flags of SGLang {SGLANG} are in {_folder()}")


if __name__ == "__main__":
    if not _folder().is_dir():
        fetch()
