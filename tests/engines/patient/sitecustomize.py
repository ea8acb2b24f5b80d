"""On a NIXL worker's path (`PYTHONPATH`): its progress thread pauses between two looks.

NIXL's Python wrapper fixes the pause at nothing, so each worker keeps one core busy even when there is nothing to
move; on two cores a pair is then ten times slower than its work. Only the pause is changed, nothing that is sent.
"""

from __future__ import annotations

import os
from typing import Any

PAUSE = 1000
"""Microseconds."""

if os.environ.get("VLLM_NIXL_SIDE_CHANNEL_PORT"):
    try:
        from nixl_cu12 import _bindings  # pyright: ignore[reportMissingImports]
    except ImportError:
        _bindings = None
    if _bindings is not None:

        class PatientConfig(_bindings.nixlAgentConfig):
            """Takes whatever the wrapper sets, but for the pause."""

            def __setattr__(self, name: str, value: Any) -> None:
                super().__setattr__(name, PAUSE if name == "pthrDelay" else value)

        _bindings.nixlAgentConfig = PatientConfig
