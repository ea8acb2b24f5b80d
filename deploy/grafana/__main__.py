"""`python -m deploy.grafana` writes the boards as JSON beside this file."""

from __future__ import annotations

from pathlib import Path

from deploy.grafana.boards import render

if __name__ == "__main__":
    for name, text in render().items():
        (Path(__file__).parent / name).write_text(text, encoding="utf-8")
