"""What a request costs in GPU-seconds: the busy time of a worker, divided among the flights that were there.

Pure: it is told when legs begin, generate and end, and what the engine says; its clock is given. Nothing about metrics,
outcomes or money.

The estimator, for each window between two polls of a worker:

- *Busy* is the time in which at least one leg of this gateway was there, times the worker's GPUs. (An engine's sums of
  prefill and decode seconds are no busy time: sixteen requests in one batch for a second are sixteen seconds there.
  vLLM books them when a request ends, in one lump, and a request that was aborted, as a cut thought is, never.)
- It is shared by weight. Where the engine tells its time sums, a leg weighs the seconds it was worked on: all since its
  first token, and of those before it the part that the sums' deltas give to prefill (who only queues pays nothing).
  Elsewhere it weighs its KV-token-seconds: prompt and text so far, times the seconds it held them.
- Requests of others that the engine runs beside ours weigh what ours do on average; their share is nobody's: it is
  *unattributed*, like the share of legs without a flight (relayed routes).

What is handed out and what is not adds up to the busy time, window by window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from gateway.engines.load import Load, Times

CHARACTERS_A_TOKEN = 4
"""Of generated text, for its KV tokens: only shares are made of it."""


class Bill:
    """What one flight has used, in GPU-seconds. The last part is known only with the poll after its last leg."""

    __slots__ = ("_is_closed", "_open", "_waiting", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._open = 0
        self._is_closed = False
        self._waiting: list[Callable[[float], None]] = []

    def begin(self) -> None:
        """One more leg whose use is not known yet."""
        self._open += 1

    def end(self) -> None:
        """All of a leg is in `seconds`."""
        self._open -= 1
        self._tell()

    def close(self) -> None:
        """There will be no more legs."""
        self._is_closed = True
        self._tell()

    def when_settled(self, then: Callable[[float], None]) -> None:
        """`then` is told the whole, once; at once where it is known already."""
        self._waiting.append(then)
        self._tell()

    def _tell(self) -> None:
        if not self._is_closed or self._open:
            return
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self.seconds)


class Stint:
    """One leg's stay on a worker."""

    __slots__ = ("bill", "ended", "first_token", "held", "prompt", "said", "since")

    def __init__(self, bill: Bill | None, prompt: int, since: float) -> None:
        self.bill = bill
        self.prompt = prompt
        self.since = since
        """Begin of the part that is not settled."""
        self.first_token: float | None = None
        self.ended: float | None = None
        self.said = 0
        """Characters generated so far."""
        self.held = float(prompt)
        """KV tokens at `since`."""

    @property
    def tokens(self) -> float:
        """KV tokens held now."""
        return self.prompt + self.said / CHARACTERS_A_TOKEN


@dataclass(frozen=True, slots=True)
class Use:
    """One window of a worker, in GPU-seconds: `busy` is the sum of the other two. `times` is what the engine has told
    since the last window, in seconds of requests."""

    busy: float
    attributed: float
    unattributed: float
    times: Times | None = None


class Meter:
    """One worker's. `on_use` hears of every window that was settled."""

    __slots__ = ("_busy", "_clock", "_is_closed", "_others", "_others_before", "_since", "_stints", "_times",
                 "_told", "_worked", "gpus", "on_use")  # fmt: skip

    def __init__(self, gpus: float = 1.0, clock: Callable[[], float] = monotonic) -> None:
        self.gpus = gpus
        self.on_use: Callable[[Use], None] | None = None
        self._clock = clock
        self._stints: list[Stint] = []
        self._busy = 0.0
        self._since = 0.0
        """When `_busy` was counted last."""
        self._others = self._others_before = 0
        self._times: Times | None = None
        self._told: Times | None = None
        self._worked = 1.0
        """Part of the time before a first token in which a leg was worked on."""
        self._is_closed = False

    def begin(self, bill: Bill | None, prompt: int) -> Stint:
        """A leg comes; `prompt` in tokens."""
        now = self._count()
        stint = Stint(bill, prompt, now)
        self._stints.append(stint)
        if bill is not None:
            bill.begin()
        return stint

    def generates(self, stint: Stint) -> None:
        """Its first token has come."""
        stint.first_token = self._clock()

    def end(self, stint: Stint) -> None:
        """It leaves. Once a stint."""
        stint.ended = self._count()
        if self._is_closed:
            self.settle()

    def note(self, load: Load, ours: int) -> None:
        """The engine's word. `ours`: the most legs of this gateway that it may have counted."""
        others = max(0, load.running - ours)
        # Only those that stay: a leg that ends while its engine is being asked would pass for somebody else's.
        self._others, self._others_before = min(others, self._others_before), others
        times, before = load.times, self._times
        self._times = times
        if times is None or before is None:
            return
        grown = times.since(before)
        self._told = grown
        if grown.queue + grown.prefill > 0:
            self._worked = grown.prefill / (grown.queue + grown.prefill)

    def settle(self) -> None:
        """End the window now, and hand out its busy time."""
        now = self._count()
        busy, self._busy = self._busy * self.gpus, 0.0
        attributed = self._share(busy, now) if self._stints else 0.0
        told, self._told = self._told, None
        for stint in self._stints:
            stint.since, stint.held = now, stint.tokens
        gone = [stint for stint in self._stints if stint.ended is not None]
        self._stints = [stint for stint in self._stints if stint.ended is None]
        if self.on_use is not None and (busy or told is not None):
            self.on_use(Use(busy, attributed, busy - attributed, told))
        for stint in gone:
            if stint.bill is not None:
                stint.bill.end()

    def close(self) -> None:
        """The worker is polled no more: what still runs there is settled as it ends."""
        self._is_closed = True
        self.settle()

    def _share(self, busy: float, now: float) -> float:
        """Give every flight its part; the sum of the parts."""
        stays = [(now if stint.ended is None else stint.ended) - stint.since for stint in self._stints]
        weights = [self._weight(stint, stay) for stint, stay in zip(self._stints, stays, strict=True)]
        if sum(weights) <= 0:
            weights = stays  # all of them queued, or none holds a token: then time is all there is
        whole = sum(weights)
        if whole <= 0:
            return 0.0
        if self._others and (stayed := sum(stays)) > 0:
            whole += self._others * (self._stayed_together(busy)) * whole / stayed
        handed_out = 0.0
        for stint, weight in zip(self._stints, weights, strict=True):
            if stint.bill is not None:
                part = busy * weight / whole
                stint.bill.seconds += part
                handed_out += part
        return handed_out

    def _stayed_together(self, busy: float) -> float:
        """Seconds that another's request was there beside ours."""
        return busy / self.gpus if self.gpus else 0.0

    def _weight(self, stint: Stint, stay: float) -> float:
        if self._times is None:
            return stay * (stint.held + stint.tokens) / 2
        begun = stint.first_token
        waited = stay if begun is None else min(max(0.0, begun - stint.since), stay)
        return stay - waited + self._worked * waited

    def _count(self) -> float:
        """Book the time since this was last called, if somebody was there."""
        now = self._clock()
        if any(stint.ended is None for stint in self._stints):
            self._busy += now - self._since
        self._since = now
        return now
