"""Linters that come as packages of other languages' programs: whoever asks for one skips where it has no build."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest


def linter(name: str) -> str:
    """Its path: what a wheel put beside this Python, else the system's."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: its package has no build for this platform")
    return found
