"""All boards, and their JSON by file name."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana import cost, health, reasoning
from deploy.grafana.panels import Board, build

BOARDS: Final[tuple[Board, ...]] = (reasoning.BOARD, cost.BOARD, health.BOARD)


def render() -> dict[str, str]:
    return {
        f"{board.uid}.json": JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(build(board)) + "\n"
        for board in BOARDS
    }
