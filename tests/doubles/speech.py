"""One generation, from a turn to bytes on the wire, with the faults its script asks for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tests.doubles.engine import Double, Refused, answer_json
from tests.doubles.exchange import End, Exchange
from tests.doubles.mind import start_of
from tests.doubles.script import Script
from tests.doubles.server import Wire
from tests.doubles.steps import Choice, Plan, Step

STRANGE = ("garbage.", "local.")
"""Voices of a pair whose KV did not come: whatever it goes on from is another's."""
DONE = b"data: [DONE]\n\n"
GARBAGE = b'data: {"id":"chatcmpl-\xff\xfe","choices":[{"delta":{"content":"\x00\n\n'


@dataclass(slots=True)
class Usage:
    prompt: int = 0
    completion: int = 0
    reasoning: int = 0

    def lying(self) -> Usage:
        """Numbers no one should believe: fewer tokens than there were events, more reasoning than tokens."""
        return Usage(self.prompt, 3, 10_000)


class Voice(Protocol):
    """How an engine puts a generation into events and bodies. Events are given as JSON texts."""

    media_type: str
    head: tuple[tuple[str, str], ...]
    late: bool
    """The status line comes with the first output, not before."""
    seam: tuple[str, str]
    """What is left of the white space at the close marker, in the thought and in the answer, when the engine splits."""

    done_after_error: bool
    usage_after_error: bool

    def role(self, index: int, usage: Usage | None) -> list[str]: ...
    def delta(self, index: int, step: Step, usage: Usage | None) -> list[str]: ...
    def finish(self, index: int, step: Step, reason: str, usage: Usage | None) -> list[str]: ...
    def usage(self, usage: Usage) -> list[str]: ...
    def error(self, code: int, message: str) -> str: ...
    def whole(self, choices: list[Choice], usage: Usage) -> dict[str, Any]: ...


@dataclass(slots=True)
class Job:
    exchange: Exchange
    wire: Wire
    voice: Voice
    plan: Plan
    stream: bool
    include_usage: bool = False
    told_throughout: bool = False
    """Hand the usage so far to every event; the voice shows it where its engine does."""
    n: int = 1
    plans: list[Plan] = field(default_factory=list[Plan])
    """One for each prompt of a batch, instead of `n` samples of `plan`."""

    @property
    def script(self) -> Script:
        return self.plan.script


class Struck(Exception):
    """The fault has done its work; nothing more is to be sent."""


async def speak(double: Double, job: Job) -> None:
    """Generate, and answer in the form that was asked for."""
    exchange, script = job.exchange, job.script
    exchange.script = script
    _note_start(double, job)
    if script.drop_request:
        exchange.end = End.BROKEN
        job.wire.close()
        return
    if script.status:
        raise Refused(script.status, f"The double answers {script.status}.", retry_after=script.retry_after)
    if script.error_first and not job.stream:
        raise Refused(script.error_first, "The double refuses this.")
    double.changed()
    await asyncio.sleep(script.headers_ms / 1000)
    choices = [Choice(i, plan) for i, plan in enumerate(job.plans or [_sample(job.plan, i) for i in range(job.n)])]
    speaker = _Speaker(double, job, choices)
    if job.stream:
        await speaker.stream()
    else:
        await speaker.unary()


def arm(double: Double, script: Script) -> Script:
    """The script with its faults, or without them once they have struck often enough."""
    if not script.times:
        return script
    double.host.seen[script.key] += 1
    return script.without_faults() if double.host.seen[script.key] > script.times else script


def _sample(plan: Plan, index: int) -> Plan:
    key = plan.script.key
    return replace(plan, script=replace(plan.script, key=f"{key}.{index}")) if index else plan


def _note_start(double: Double, job: Job) -> None:
    exchange, turn = job.exchange, job.plan.turn
    if not turn.continues:
        return
    start = start_of(job.script, turn)
    exchange.thought_given, exchange.ours_given, exchange.added = turn.thought, start.think, start.added
    exchange.lead_in = "" if start.answer else turn.answer
    is_probe = job.plan.max_tokens == 1
    is_own = double.speaks and not job.script.error_first and not job.script.key.startswith(STRANGE)
    if is_own and not is_probe and turn.thought.strip() and start.think < 1:
        double.violate("foreign-thought", f"{job.script.key} was to continue {turn.thought[:60]!r}")


class _Speaker:
    def __init__(self, double: Double, job: Job, choices: list[Choice]) -> None:
        self.double, self.job, self.choices = double, job, choices
        self.exchange, self.wire, self.voice, self.script = job.exchange, job.wire, job.voice, job.script
        self.usage = Usage(prompt=job.plan.turn.prompt_tokens)
        self._batch: list[str] = []
        self._tokens_in_batch = 0

    async def stream(self) -> None:
        try:
            await self._begin()
            live = list(self.choices)
            while live:
                for choice in list(live):
                    await self._maybe_strike()
                    await self._take(choice)
                    if choice.ahead is None:
                        live.remove(choice)
                    await self._flush_if_full()
            await self._end()
        except Struck:
            return

    async def unary(self) -> None:
        """The whole answer at the end, at the same pace; a fault in the middle becomes the end of the connection."""
        await asyncio.sleep(self.script.first_ms / 1000)
        for choice in self.choices:
            while choice.ahead is not None:
                if self.script.fault and self.exchange.tokens >= self.script.fault[1]:
                    if self.script.fault[0] != "stall_after":
                        self.exchange.end = End.BROKEN
                        self.wire.reset()
                        return
                    await self.exchange.held()
                    self.script = self.script.without_faults()
                step = choice.step()
                self._count(choice, step)
                await asyncio.sleep(self.script.delay_ms * (step.think + step.answer) / 1000)
        self._account()
        await answer_json(self.wire, self.voice.whole(self.choices, self._told()))

    async def _begin(self) -> None:
        if not self.voice.late:
            self.wire.start(self.voice.media_type, self.voice.head)
        await asyncio.sleep(self.script.first_ms / 1000)
        if self.voice.late:
            self.wire.start(self.voice.media_type, self.voice.head)
        if self.script.error_first:
            await self._error(self.script.error_first, "The double refuses this.")
        for choice in self.choices:
            self._batch += self.voice.role(choice.index, self._shown())

    async def _take(self, choice: Choice) -> None:
        """The next event of a choice. A fault set for later than its last token strikes before its finish reason."""
        step = choice.step() if choice.ahead is not None else Step()
        self._count(choice, step)
        if choice.ahead is None and self.script.fault:
            self._batch += self.voice.delta(choice.index, step, self._shown())
            step = Step()
            await self._maybe_strike(at_end=True)
        told = self._shown()
        if choice.ahead is None:
            self._batch += self.voice.finish(choice.index, step, choice.reason, told)
        else:
            self._batch += self.voice.delta(choice.index, step, told)
        self._tokens_in_batch += step.think + step.answer

    def _count(self, choice: Choice, step: Step) -> None:
        choice.said.add(step)
        self.usage.completion += len(step.ids)
        self.usage.reasoning += step.reasoning
        self.exchange.think_tokens += step.think
        self.exchange.answer_tokens += step.answer
        self.double.generated += len(step.ids)

    def _told(self) -> Usage:
        return self.usage.lying() if self.script.tells == "lying" else self.usage

    def _shown(self) -> Usage | None:
        return self._told() if self.job.told_throughout else None

    def _account(self) -> None:
        for choice in self.choices:
            self.usage.completion += choice.reason == "stop"
            self.double.finished[choice.reason] += 1

    async def _end(self) -> None:
        self._account()
        if self.job.include_usage and self.script.tells != "none":
            self._batch += self.voice.usage(self._told())
        await self._flush(DONE)
        await self.wire.finish()

    async def _flush_if_full(self) -> None:
        if len(self._batch) >= self.script.burst:
            if self.script.delay_ms:
                await asyncio.sleep(self.script.delay_ms * self._tokens_in_batch / 1000)
            await self._flush()

    async def _flush(self, tail: bytes = b"") -> None:
        data = "".join(f"data: {event}\n\n" for event in self._batch).encode() + tail
        self._batch.clear()
        self._tokens_in_batch = 0
        if data:
            await self.wire.send(data, self.script.write_bytes)
            self.double.changed()

    async def _maybe_strike(self, *, at_end: bool = False) -> None:
        if (fault := self.script.fault) is None:
            return
        name, at = fault
        if self.exchange.tokens < at and not at_end:
            return
        await self._flush()
        self.script = self.script.without_faults()
        match name:
            case "stall_after":
                await self.exchange.held()
            case "garbage_after":
                await self.wire.send(GARBAGE)
            case "error_after":
                await self._error(self.job.script.error_code, "The engine broke while generating.")
            case "die_after":
                self.exchange.end = End.BROKEN
                self.wire.reset()
                raise Struck
            case "eof_after":
                self.exchange.end = End.BROKEN
                await self.wire.finish()
                raise Struck
            case _:
                self.exchange.end = End.BROKEN
                self.wire.raw(b"40\r\ndata: {")
                self.wire.close()
                raise Struck

    async def _error(self, code: int, message: str) -> None:
        self.exchange.end = End.BROKEN
        self._batch.append(self.voice.error(code, message))
        if self.voice.usage_after_error and self.job.include_usage:
            self._batch += self.voice.usage(self._told())
        await self._flush(DONE if self.voice.done_after_error else b"")
        await self.wire.finish()
        raise Struck
