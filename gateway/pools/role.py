"""What a worker is there for."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    UNIFIED = "unified"
    """Prefills and decodes."""
    DECODE = "decode"
    """Goes on from a cache that another one has filled."""
    PREFILL = "prefill"
    ENCODE = "encode"
    """Turns pictures and sound into embeddings."""
