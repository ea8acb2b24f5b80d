"""What a worker's KV cache is made of, in the words of each engine: two workers that hand it over have the same."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.engines.capabilities import Ask, fields_of
from gateway.engines.load import labels_of


@dataclass(frozen=True, slots=True)
class KvCache:
    """None where the engine does not say."""

    block: int | None = None
    """Tokens in a block (vLLM) or a page (SGLang)."""
    dtype: str | None = None


async def kv_of_metrics(ask: Ask, info: str) -> KvCache:
    """vLLM tells it in the labels of a gauge."""
    status, text = await ask("GET", "/metrics", None)
    labels = labels_of(text, info) if status == 200 else {}
    block = labels.get("block_size", "")
    return KvCache(int(block) if block.isdigit() else None, labels.get("cache_dtype"))


async def kv_of_server_info(ask: Ask) -> KvCache:
    """SGLang tells its arguments."""
    told = fields_of(*await ask("GET", "/server_info", None))
    block, dtype = told.get("page_size"), told.get("kv_cache_dtype")
    return KvCache(block if isinstance(block, int) else None, dtype if isinstance(dtype, str) else None)
