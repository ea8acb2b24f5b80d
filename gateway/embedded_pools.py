"""The embedded engine as a worker: started with the app if a pool wants it, handed to its pools once it listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog

from gateway.config import EngineKind
from gateway.embedded import EmbeddedEngine, EmbeddedUnavailable
from gateway.pools import Pool
from gateway.service import Service

log = structlog.get_logger("thinkgate.embedded")

WORKER_NAME = "embedded"


@asynccontextmanager
async def run_embedded(service: Service) -> AsyncGenerator[None]:
    """Nothing, if no pool is embedded. Raises EmbeddedUnavailable when a piece is missing."""
    if not _embedded(service):
        yield
        return
    engine = EmbeddedEngine(service.config.embedded, progress=log.info)
    await engine.start()

    async def adopt() -> None:
        """Hand the engine's address to its pools, again whenever a restart has changed it, or a reload the pools."""
        try:
            while True:
                url = await engine.ready()
                for pool in _embedded(service):
                    if [worker.url for worker in pool.workers] != [url]:
                        pool.adopt(WORKER_NAME, url)
                await asyncio.sleep(1)
        except EmbeddedUnavailable as error:
            log.error("the embedded engine is not available", reason=str(error))
            for pool in _embedded(service):
                pool.problem = str(error)

    adopting = asyncio.create_task(adopt())
    try:
        yield
    finally:
        adopting.cancel()
        await asyncio.gather(adopting, return_exceptions=True)
        await engine.aclose()


def _embedded(service: Service) -> list[Pool]:
    return [pool for pool in service.registry.pools.values() if pool.config.engine is EngineKind.EMBEDDED]
