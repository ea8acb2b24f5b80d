"""Which of the workers that could serve a leg does: one small class a policy, all behind `Selection`.

A policy sees only workers that may be chosen (`roster` has left out the rest) and decides by their load. It keeps
nothing about requests: which worker a conversation belongs to follows from its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import ceil
from random import Random
from typing import Protocol

from gateway.config import SelectionPolicy
from gateway.pools.worker import Worker

BOUND = 1.25
"""How much more than its share of the legs a conversation's own worker may have before it goes elsewhere: the usual
bound of consistent hashing with bounded loads (Mirrokni et al. 2016)."""

FULL = 0.9
"""KV pressure from which a warm cache is no longer worth the queue."""


class Selection(Protocol):
    """`workers` is never empty. `now` and `interval` (of polls) in seconds; `key` names a conversation."""

    def choose(self, workers: Sequence[Worker], key: str | None, now: float, interval: float) -> Worker: ...


class Rotation:
    """One after the other, whatever their load."""

    def __init__(self, random: Random) -> None:
        self._turn = 0

    def choose(self, workers: Sequence[Worker], key: str | None, now: float, interval: float) -> Worker:
        self._turn += 1
        return workers[self._turn % len(workers)]


class LeastPressure:
    """The less busy of two drawn at random: nearly as good as the least busy of all, and gateways that share workers do
    not all run to the same one (Mitzenmacher's power of two choices)."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, workers: Sequence[Worker], key: str | None, now: float, interval: float) -> Worker:
        if len(workers) == 1:
            return workers[0]
        one, other = self._random.sample(workers, 2)
        told = [worker.gauge.pressure(now, interval) for worker in (one, other)]
        if told[0] is None or told[1] is None or told[0] == told[1]:  # then nobody's word counts
            return min((one, other), key=lambda worker: worker.gauge.tokens / worker.weight)
        return one if told[0] < told[1] else other


class Affinity:
    """The same conversation to the same worker, whose prefix cache is warm, while that one has no more than its share.

    Rendezvous hashing: every key has its own order of the workers, so one that comes or goes moves only its own keys,
    and a conversation that has to leave its first worker always goes to the same second.
    """

    def __init__(self, random: Random) -> None:
        self._least = LeastPressure(random)

    def choose(self, workers: Sequence[Worker], key: str | None, now: float, interval: float) -> Worker:
        if key is None or len(workers) == 1:
            return self._least.choose(workers, key, now, interval)
        legs = 1 + sum(worker.gauge.legs for worker in workers)
        weights = sum(worker.weight for worker in workers)
        for worker in sorted(workers, key=lambda worker: _rank(worker, key), reverse=True):
            share = ceil(BOUND * legs * worker.weight / weights)
            pressure = worker.gauge.pressure(now, interval)
            if worker.gauge.legs < share and (pressure is None or pressure < FULL):
                return worker
        return self._least.choose(workers, key, now, interval)


def _rank(worker: Worker, key: str) -> float:
    """Weighted rendezvous: of two equal workers the one with twice the weight is first for twice the keys."""
    digest = blake2b(f"{worker.url}\0{key}".encode(), digest_size=8).digest()
    draw = (int.from_bytes(digest) + 1) / (2**64 + 1)  # within 0..1, never 0
    return draw ** (1 / worker.weight)


POLICIES: Mapping[SelectionPolicy, type[Rotation] | type[LeastPressure] | type[Affinity]] = {
    SelectionPolicy.ROTATION: Rotation,
    SelectionPolicy.PRESSURE: LeastPressure,
    SelectionPolicy.AFFINITY: Affinity,
}
