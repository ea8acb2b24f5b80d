"""What goes wrong at a worker of a pair, at a rate with a seed, or the next time; one draw a leg."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

from tests.doubles.engine import Refused
from tests.doubles.exchange import End, Exchange
from tests.doubles.server import Wire

ANSWERS: Final = {"status_400": 400, "status_429": 429, "status_500": 500, "status_503": 503}
COMMON: Final = frozenset({*ANSWERS, "reset", "stall"})
"""`reset`: the connection breaks before a byte of an answer. `stall`: nothing, until the test releases the exchange."""
PREFILL: Final = COMMON | {"no_params", "empty_blocks", "missing_key", "truncated", "lost_after"}
"""`no_params`: 200 without `kv_transfer_params`. `empty_blocks`, `missing_key`: params no decode may be given.
`truncated`: the JSON ends in the middle. `lost_after`: the process restarts once it has answered."""
DECODE: Final = COMMON | {
    "pull_fails",
    "expired",
    "slow_transfer",
    "dies_before_delta",
    "dies_after_delta",
    "error_before_delta",
    "error_after_delta",
    "eof_after_delta",
    "stall_after_delta",
}
"""`pull_fails`: the transfer breaks; `kv_load_failure_policy` says what follows. `expired`: the lease had run out.
`slow_transfer`: the transfer lasts until the test releases the exchange. The others strike in the stream."""
ENCODE: Final = COMMON | {"no_metadata", "one_fails"}
"""`no_metadata`: an item comes back without. `one_fails`: a request of several items fails as a whole, with 500."""
SGLANG_PREFILL: Final = COMMON | {"late_400", "bootstrap_fails"}
"""`late_400`: refused after both met, as too long a prompt is. `bootstrap_fails`: it never registers the room."""
SGLANG_DECODE: Final = (DECODE - {"pull_fails", "expired"}) | {"transfer_fails", "garbage"}
"""`transfer_fails`: KVTransferError. `garbage`: it generates from memory no one filled, under 200."""
IN_STREAM: Final[dict[str, dict[str, int]]] = {
    "dies_before_delta": {"die_after": 0},
    "dies_after_delta": {"die_after": 3},
    "error_before_delta": {"error_after": 0},
    "error_after_delta": {"error_after": 3},
    "eof_after_delta": {"eof_after": 3},
    "stall_after_delta": {"stall_after": 3},
}
"""A fault as changes of the script: tokens of text before it strikes."""

WAITS: Final = frozenset({"stall", "stall_after_delta", "slow_transfer"})
"""Faults that last until a test lets go."""


class Faults:
    """`Faults(DECODE, seed=7, status_500=0.05, pull_fails=0.05)`: rates between 0 and 1, together at most 1."""

    def __init__(self, known: frozenset[str], seed: int = 0, **rates: float) -> None:
        if unknown := rates.keys() - known:
            raise ValueError(f"no such fault: {sorted(unknown)}")
        if sum(rates.values()) > 1:
            raise ValueError(f"rates of together {sum(rates.values())}")
        self.known, self.rates = known, rates
        self.struck: Counter[str] = Counter()
        self._random = Random(seed)
        self._next: list[str] = []

    @classmethod
    def each(cls, known: frozenset[str], rate: float, seed: int = 0) -> Faults:
        """Every fault that passes by itself, at one rate: for a storm."""
        return cls(known, seed, **dict.fromkeys(sorted(known - WAITS), rate))

    def next(self, name: str, times: int = 1) -> None:
        """Strike the next so many legs with this."""
        if name not in self.known:
            raise ValueError(f"no such fault: {name}")
        self._next += [name] * times

    def draw(self) -> str:
        """The fault of this leg; empty for none."""
        point, name = self._random.random(), ""
        if self._next:
            name = self._next.pop(0)
        else:
            for candidate, rate in self.rates.items():
                if point < rate:
                    name = candidate
                    break
                point -= rate
        if name:
            self.struck[name] += 1
        return name


async def strike(fault: str, exchange: Exchange, wire: Wire) -> bool:
    """The faults that every worker has, before it does anything; true if the exchange is over."""
    if status := ANSWERS.get(fault):
        retry = "1" if status in {429, 503} else ""
        raise Refused(status, f"The double answers {status}.", retry_after=retry)
    if fault == "reset":
        exchange.end = End.BROKEN
        wire.reset()
        return True
    if fault == "stall":
        await exchange.held()
    return False
