"""Keeps one child process serving: launch, wait until it answers, restart after a crash, end it.

It knows the child's one-line protocol (`child.py`) and two HTTP calls of an OpenAI-compatible engine. It does not know
llama.cpp, weights or templates; they come in as a command line. It ends only what it started, by its own handle.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx

from gateway.embedded.unavailable import EmbeddedUnavailable

HOST = "127.0.0.1"
LOG_LINES = 50
LAST_WORDS = 5
LINE_LIMIT = 4_096

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often, in seconds and times."""

    crashes: int = 5
    window: float = 60
    backoff: float = 0.5
    grace: float = 3
    canary: float = 120

    def pause(self, crashes: int) -> float:
        """Before the next launch: doubles with every crash, and is bounded because crashes are."""
        return self.backoff * 2 ** (crashes - 1)


class _Refused(Exception):
    """The child says it cannot serve: its own verdict, not a crash."""


class Supervisor:
    def __init__(
        self,
        command: Sequence[str],
        *,
        label: str,
        progress: Callable[[str], None],
        environment: Mapping[str, str] | None = None,
        patience: Patience | None = None,
    ) -> None:
        """`command` gets `--port N` appended, 0 for any; `label` is what is loading, for people."""
        self._command = tuple(command)
        self._label = label
        self._progress = progress
        self._environment = {**os.environ, **(environment or {})}
        self._patience = patience or Patience()
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # serving, or given up
        self._url: str | None = None
        self._given_up: str | None = None
        self._port = 0
        self._launches = 0

    @property
    def url(self) -> str | None:
        return self._url

    @property
    def restarts(self) -> int:
        return max(0, self._launches - 1)

    def start(self) -> None:
        assert self._task is None, "a supervisor is started once"
        self._task = asyncio.create_task(self._supervise(), name="embedded-engine")

    async def ready(self) -> str:
        while self._url is None:
            if self._given_up is not None:
                raise EmbeddedUnavailable(self._given_up)
            await self._settled.wait()
        return self._url

    async def aclose(self) -> None:
        """Ends the child and returns when it is gone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._given_up = self._given_up or "the embedded engine was stopped"
        self._settled.set()  # whoever waits in `ready` waits in vain

    async def _supervise(self) -> None:
        try:
            await self._keep_serving()
        except Exception as error:
            logger.exception("the embedded engine's supervisor failed")
            self._give_up(f"the embedded engine cannot be run: {error!r}")

    async def _keep_serving(self) -> None:
        clock = asyncio.get_running_loop().time
        crashes: deque[float] = deque()
        ever_served = False
        while True:
            try:
                served, reason = await self._one_life()
            except _Refused as refusal:
                served, reason = False, f"refused to start: {refusal}"
                if not ever_served:  # trying again would change nothing
                    self._give_up(f"the embedded engine {reason}{self._last_words()}")
                    return
            ever_served |= served
            now = clock()
            if served:
                # Old crashes are forgiven to an engine that served in between, however slowly it loads.
                while crashes and now - crashes[0] > self._patience.window:
                    crashes.popleft()
            else:
                self._port = 0  # the port kept may be what is wrong
            crashes.append(now)
            if len(crashes) >= self._patience.crashes:
                self._give_up(
                    f"the embedded engine crashed {len(crashes)} times in a row, at last: {reason}{self._last_words()}"
                )
                return
            pause = self._patience.pause(len(crashes))
            self._progress(f"the embedded engine {reason}; restarting in {pause:.1f} s")
            await asyncio.sleep(pause)

    async def _one_life(self) -> tuple[bool, str]:
        """From launch to end: did it serve, and how did it end. While the child serves, `url` is set."""
        began = asyncio.get_running_loop().time()
        self._launches += 1
        self._log.clear()
        process = await asyncio.create_subprocess_exec(
            *self._command,
            "--port",
            str(self._port),
            stdin=PIPE,  # never written to: its end tells the child that this process is gone
            stdout=PIPE,
            stderr=PIPE,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for the gateway, which lets running streams end first
        )
        assert process.stderr is not None
        log = asyncio.create_task(self._keep_log(process.stderr), name="embedded-engine-log")
        try:
            verdict, _, detail = (await self._verdict(process, began)).partition(" ")
            if verdict == "refused":
                raise _Refused(detail)
            if verdict == "port":
                url = f"http://{HOST}:{int(detail)}"
                if (trouble := await self._canary(url)) is not None:
                    return False, trouble
                self._port = int(detail)
                self._url = url
                self._settled.set()
                self._progress(f"ready on {url} after {asyncio.get_running_loop().time() - began:.1f} s")
            returncode = await process.wait()
            return self._url is not None, _describe(returncode)
        finally:
            self._url = None
            self._settled.clear()
            await self._end(process)
            await log

    async def _verdict(self, process: Process, began: float) -> str:
        """The child's one line, or nothing if it ended without; meanwhile somebody is watching a screen."""
        assert process.stdout is not None
        line = asyncio.ensure_future(process.stdout.readline())
        message = f"loading {self._label}…"
        self._progress(message)
        try:
            while not (await asyncio.wait({line}, timeout=1))[0]:
                self._progress(f"{message} {asyncio.get_running_loop().time() - began:.0f} s")
            return line.result().decode(errors="replace").strip()
        finally:
            line.cancel()

    async def _canary(self, url: str) -> str | None:
        """What is wrong with the engine, if anything. Health alone says the socket is open, not that text comes out."""
        body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        try:
            async with httpx.AsyncClient(base_url=url, timeout=self._patience.canary, trust_env=False) as client:
                (await client.get("/health")).raise_for_status()
                (await client.post("/v1/chat/completions", json=body)).raise_for_status()
        except httpx.HTTPError as error:
            return f"did not answer its first request ({error!r})"
        return None

    async def _keep_log(self, stream: asyncio.StreamReader) -> None:
        """The engine's log: shown at debug, and its end kept for the crash message. An endless line is cut short."""
        rest = ""
        while chunk := await stream.read(LINE_LIMIT):
            *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
            for line in lines:
                self._log.append(line)
                logger.debug("%s", line)
            rest = rest[-LINE_LIMIT:]
        if rest:
            self._log.append(rest)

    async def _end(self, process: Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        with suppress(ProcessLookupError):
            if process.returncode is None:
                process.terminate()
        try:
            async with asyncio.timeout(self._patience.grace):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _give_up(self, reason: str) -> None:
        self._url = None
        self._given_up = reason
        self._settled.set()
        self._progress(reason)

    def _last_words(self) -> str:
        words = [line.strip() for line in self._log if line.strip()][-LAST_WORDS:]
        return f" (its last words: {' | '.join(words)})" if words else ""


def _describe(returncode: int) -> str:
    if returncode < 0:
        return f"was ended by signal {-returncode} ({signal.strsignal(-returncode)})"
    return f"exited with code {returncode}"
