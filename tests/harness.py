"""A real gateway process: started from a config, watched through its own endpoints, ended by its own handle."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import IO, Any, Final

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.doubles.engine import Double

ANNOUNCEMENT: Final = "thinkgate is listening on "
START: Final = 60.0
STOP: Final = 20.0
PATIENCE: Final = 20.0
LOOK_AGAIN: Final = 0.05


class Metrics:
    """One scrape of /metrics."""

    def __init__(self, text: str) -> None:
        self.samples = [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with this name and at least these labels; 0 if there are none."""
        wanted = labels.items()
        return sum(value for sample, given, value in self.samples if sample == name and wanted <= given.items())


class Gateway:
    """`with Gateway(config, folder) as gateway:` — or let the `gateway` fixture do it."""

    def __init__(self, config: dict[str, Any] | str | None, folder: Path, *, env: dict[str, str] | None = None) -> None:
        """`config`: None for a gateway without a file."""
        self.file = folder / f"thinkgate-{len(list(folder.iterdir()))}.yaml"
        self._arguments: list[str] = []
        if config is not None:
            self.file.write_text(config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False))
            self._arguments = ["--config", str(self.file)]
        self._env = env
        self._out: list[str] = []
        self._err: list[str] = []
        self._announced = Event()
        self._readers: list[Thread] = []
        self.url = ""

    def __enter__(self) -> Gateway:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 0

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gateway.cli", "serve", *self._arguments, "--port", "0"]

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._env,
        )
        for stream, lines in ((self.process.stdout, self._out), (self.process.stderr, self._err)):
            assert stream is not None
            reader = Thread(target=self._read, args=(stream, lines), daemon=True)
            reader.start()
            self._readers.append(reader)
        if not self._announced.wait(START) or not self.url:
            self._end()
            raise AssertionError(f"the gateway did not start (exit code {self.process.returncode}):\n{self.log_text()}")

    def stop(self) -> None:
        """SIGTERM, and what a clean end means: exit code 0, no traceback, one announcement."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self._end()
        log = self.log_text()
        assert code == 0, f"exit code {code}:\n{log[-4000:]}"
        assert "Traceback (most recent call last)" not in log, log[-8000:]
        assert sum(line.startswith(ANNOUNCEMENT) for line in self._out) == 1, self._out

    def reconfigure(self, config: dict[str, Any]) -> None:
        """Write another configuration, and have it taken over."""
        self.file.write_text(yaml.safe_dump(config, sort_keys=False))
        answer = httpx.post(f"{self.url}/admin/reload", timeout=PATIENCE)
        assert answer.status_code == 200, answer.text

    def stdout_text(self) -> str:
        return "".join(self._out)

    def stderr_text(self) -> str:
        return "".join(self._err)

    def log_text(self) -> str:
        return f"--- stdout\n{self.stdout_text()}--- stderr\n{self.stderr_text()}"

    def scrape(self) -> Metrics:
        response = httpx.get(f"{self.url}/metrics")
        assert response.status_code == 200, response.text
        return Metrics(response.text)

    async def metrics(self) -> Metrics:
        async with httpx.AsyncClient() as client:
            response = await client.get(f"{self.url}/metrics")
        assert response.status_code == 200, response.text
        return Metrics(response.text)

    async def wait_metric(
        self, name: str, labels: dict[str, str], holds: Callable[[float], bool], patience: float = PATIENCE
    ) -> float:
        """Look at a metric until it is as it should be; a bound on patience, not a measure of speed."""
        deadline = monotonic() + patience
        while not holds(value := (await self.metrics()).value(name, **labels)):
            assert monotonic() < deadline, f"{name}{labels} is {value} after {patience} s"
            await asyncio.sleep(LOOK_AGAIN)
        return value

    def wait_workers(self, count: int, patience: float = PATIENCE) -> Gateway:
        """Until so many workers are ready."""
        deadline = monotonic() + patience
        while (ready := self.scrape().value("thinkgate_worker_ready")) != count:
            assert monotonic() < deadline, f"{ready} of {count} workers are ready after {patience} s\n{self.log_text()}"
            sleep(LOOK_AGAIN)
        return self

    async def wait_grounded(self) -> None:
        """Until no request is being served."""
        await self.wait_metric("thinkgate_flights_in_flight", {}, lambda value: value == 0)

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                lines.append(line)
                if line.startswith(ANNOUNCEMENT):
                    self.url = line.removeprefix(ANNOUNCEMENT).strip()
                    self._announced.set()
        if lines is self._out:
            self._announced.set()

    def _end(self) -> int:
        try:
            code = self.process.wait(STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        for reader in self._readers:
            reader.join(STOP)
        return code


def pool(double: Double, *more: Double, **settings: Any) -> dict[str, Any]:
    """A pool of these doubles, impatient enough for a test. `settings` are keys of a pool, nested dicts merged."""
    base: dict[str, Any] = {
        "model": double.model,
        "engine": double.kind,
        "format": "think" if double.opens else "qwen3",
        "workers": [one.url for one in (double, *more)],
        "context_window": double.context,
        "timeouts": {"connect": 5, "queue": 0.2, "first_token": 30, "idle": 30, "total": 120},
        "health": {"interval": 0.5, "timeout": 2, "failures": 2},
    }
    if double.api_key:
        base["api_key"] = double.api_key
    return _merge(base, settings)


def config(pools: dict[str, dict[str, Any]], **settings: Any) -> dict[str, Any]:
    """A whole configuration. The first pool is the standard one of the route `auto`, the last the reasoning one."""
    names = list(pools)
    base: dict[str, Any] = {
        "server": {"drain": 5},
        "pools": pools,
        "routes": {"auto": {"standard": names[0], "reasoning": names[-1]}},
    }
    return _merge(base, settings)


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        old = merged.get(name)
        merged[name] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def gateways(folder: Path) -> Iterator[Callable[..., Gateway]]:
    """A factory whose gateways all end, and are all checked, when the caller is done."""
    started: list[Gateway] = []

    def start(config: dict[str, Any] | str | None, **more: Any) -> Gateway:
        one = Gateway(config, folder, **more)
        one.start()
        started.append(one)
        return one

    yield start
    wrongs: list[AssertionError] = []
    for one in started:
        try:
            one.stop()
        except AssertionError as wrong:
            wrongs.append(wrong)
    if wrongs:
        raise ExceptionGroup("gateways that did not end well", wrongs)
