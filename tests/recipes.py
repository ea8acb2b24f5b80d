"""What a launch recipe would start: the script is run, with an engine in its place that only tells its arguments."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TELLER: Final = '#!/bin/sh\nprintf "%s\\0" "$@"\n'
OUTSIDE: Final = {"POD_IP": "10.1.2.3", "RDMA_DEVICE": "mlx5_0", "MODEL": "/models/mine"}
"""What a machine has to say that the scripts cannot know."""


def arguments(script: Path, folder: Path, environment: dict[str, str] | None = None) -> list[str]:
    """Of `python3`: `-m`, the module, then the flags. Raises CalledProcessError where the script gives up."""
    teller = folder / "python3"
    teller.write_text(TELLER)
    teller.chmod(0o755)
    told = subprocess.run(
        ["bash", str(script)],
        capture_output=True,
        check=True,
        env={"PATH": f"{folder}:{os.environ['PATH']}", **(OUTSIDE if environment is None else environment)},
    )
    return told.stdout.decode().split("\0")[:-1]


def flags(given: list[str]) -> dict[str, str]:
    """`--name value` pairs after the module; a flag without a value is ''."""
    return dict(_pairs(given[2:]))


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(words):
        if word.startswith("--"):
            following = words[place + 1 : place + 2]
            yield word, following[0] if following and not following[0].startswith("--") else ""
