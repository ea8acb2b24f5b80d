"""Installs other gateways from the package registry, each in a venv of its own, outside the repository.

    python -m benchmarks.peers.install [NAME …]

Versions are pinned, so that a comparison can be run again. A second call only looks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

PACKAGES = {
    "litellm": "litellm[proxy]==1.108.7",
    "vllm-router": "vllm-router==0.1.17",
    "smg": "smg==1.13.0",
}
DIRECTORY = "THINKGATE_PEERS"
"""The environment's word for another place to install to."""


def home() -> Path:
    if given := os.environ.get(DIRECTORY):
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "thinkgate" / "peers"


def programs(name: str) -> Path:
    """The folder of an installed peer's programs."""
    return home() / name / "bin"


def is_installed(name: str) -> bool:
    """The mark is written last, so an install that broke off is not taken for one."""
    mark = home() / name / "installed"
    return mark.is_file() and mark.read_text(encoding="utf-8") == PACKAGES[name]


def install(name: str) -> None:
    """Raises CalledProcessError where the registry does not give it."""
    if is_installed(name):
        return
    print(f"installing {PACKAGES[name]} in {home() / name} …", flush=True)
    venv.create(home() / name, clear=True, with_pip=True)
    pip = [str(programs(name) / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, PACKAGES[name]], check=True)
    (home() / name / "installed").write_text(PACKAGES[name], encoding="utf-8")


def main(names: Sequence[str]) -> int:
    unknown = set(names) - PACKAGES.keys()
    if unknown:
        sys.stderr.write(f"no such peer: {', '.join(sorted(unknown))} (there are {', '.join(PACKAGES)})\n")
        return 2
    failed = 0
    for name in names or PACKAGES:
        try:
            install(name)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"{name} could not be installed: pip ended with {error.returncode}\n")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
