"""Who is asked again where the budget for repeats is spent: whoever lost a worker, once, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from gateway.attempts import Attempts
from gateway.config import EngineKind
from gateway.config import Pool as PoolConfig
from gateway.edge.errors import ApiError
from gateway.leg import LegFailed
from gateway.pools import Pool, Worker
from gateway.pools.retries import ALWAYS
from gateway.pools.verdict import Kind, Verdict
from tests.scripted import make_ready

FULL = Verdict(Kind.BACK_PRESSURE)
SEVERED = Verdict(Kind.FAILURE, is_severed=True)
REFUSED = Verdict(Kind.FAILURE, is_unreachable=True)
BROKEN = Verdict(Kind.FAILURE)


def pool(repeats: int) -> Pool:
    """Four workers; so many repeats are left of the budget."""
    urls = tuple(f"http://w{number}:8000" for number in range(4))
    made = Pool("p", PoolConfig(model="m", engine=EngineKind.VLLM, format="think", workers=urls))
    make_ready(made)
    for _ in range(ALWAYS - repeats):
        assert made.retries.take(made.clock())
    return made


async def asked(pool: Pool, verdicts: list[Verdict]) -> int:
    """How many workers are asked, if they say this one after the other, and all others are well."""
    left: Iterator[Verdict] = iter(verdicts)
    workers: list[Worker] = []

    async def ask(worker: Worker) -> str:
        workers.append(worker)
        verdict = next(left, None)
        if verdict is not None:
            raise LegFailed(ApiError(502, "it failed"), retryable=True, verdict=verdict)
        return "well"

    attempts = Attempts(pool, asyncio.get_running_loop().time() + 60)
    try:
        assert await attempts.run(ask) == "well"
    except LegFailed:
        assert len(workers) == len(verdicts)
    assert len(set(workers)) == len(workers)
    return len(workers)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([SEVERED], 2),
        ([REFUSED], 2),
        ([REFUSED, REFUSED], 3),
        ([REFUSED, SEVERED], 3),
        ([SEVERED, REFUSED], 3),
        ([SEVERED, SEVERED], 2),
        ([BROKEN], 1),
        ([FULL], 1),
    ],
)
async def test_a_death_is_repaired_once_and_what_reached_nobody_always(verdicts: list[Verdict], expected: int) -> None:
    assert await asked(pool(repeats=0), verdicts) == expected


async def test_a_death_after_a_full_worker_is_repaired_too() -> None:
    """A worker that said 429 has worked on nothing: the other's death is still the first."""
    assert await asked(pool(repeats=1), [FULL, SEVERED]) == 3
    assert await asked(pool(repeats=1), [SEVERED, FULL]) == 3
