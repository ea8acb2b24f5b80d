"""How each gateway is started in front of two engines, as its own documentation has it, and watched while it runs.

Defaults wherever there is one: what a gateway does when nobody has tuned it is what is compared. One process or worker
each. thinkgate's pool says which engine it has, as the others' settings do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from benchmarks.data_path import free_port
from benchmarks.peers.install import PACKAGES, programs

MODEL = "mock"
KEY = "sk-comparison"
"""Of clients. LiteLLM wants one; the others are sent it as well, and it is looked for at the engine."""
START = 120.0
"""Seconds that a gateway may take to answer its first request."""


@dataclass(frozen=True, slots=True)
class Start:
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict[str, str])


Begin = Callable[[int, Sequence[str], Path], Start]
"""From a port, the engines' addresses and an empty folder."""


def thinkgate(port: int, engines: Sequence[str], folder: Path) -> Start:
    file = folder / "thinkgate.yaml"
    pool = {"model": MODEL, "engine": "vllm", "format": "qwen3", "workers": list(engines)}
    file.write_text(json.dumps({"pools": {"reasoning": pool}, "logs": {"level": "warning"}}), encoding="utf-8")
    return Start([sys.executable, "-m", "gateway.cli", "serve", "--config", str(file), "--port", str(port)])


def litellm(port: int, engines: Sequence[str], folder: Path) -> Start:
    file = folder / "litellm.yaml"
    models = [
        {
            "model_name": MODEL,
            "litellm_params": {"model": f"hosted_vllm/{MODEL}", "api_base": f"{url}/v1", "api_key": "none"},
        }
        for url in engines
    ]
    file.write_text(json.dumps({"model_list": models}), encoding="utf-8")
    command = [str(programs("litellm") / "litellm"), "--config", str(file), "--host", "127.0.0.1"]
    return Start(
        [*command, "--port", str(port), "--num_workers", "1", "--telemetry", "False"],
        # Neither is a setting of how it serves: no price list from the network, no debug lines.
        {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
    )


def vllm_router(port: int, engines: Sequence[str], folder: Path) -> Start:
    command = [str(programs("vllm-router") / "vllm-router"), *_of_rust(port, engines)]
    return Start([*command, "--log-level", "error"])


def smg(port: int, engines: Sequence[str], folder: Path) -> Start:
    return Start([str(programs("smg") / "smg"), "launch", *_of_rust(port, engines), "--log-level", "error"])


def _of_rust(port: int, engines: Sequence[str]) -> list[str]:
    metrics = ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]
    return ["--host", "127.0.0.1", "--port", str(port), "--worker-urls", *engines, *metrics]


def plain(port: int, engines: Sequence[str], folder: Path) -> Start:
    return Start([sys.executable, "-m", "benchmarks.plain_floor", str(port), engines[0]])


BEGINS: dict[str, Begin] = {
    "thinkgate": thinkgate,
    "vllm-router": vllm_router,
    "smg": smg,
    "litellm": litellm,
    "plain": plain,
}
"""`plain` is the pass-through of FastAPI and httpx that everybody writes first."""
assert set(PACKAGES) <= set(BEGINS)


class DidNotStart(Exception):
    """A gateway that did not answer in `START` seconds; the message has the end of what it printed."""


class System:
    """One gateway, running. `with System(…) as system`."""

    def __init__(self, name: str, engines: Sequence[str], folder: Path) -> None:
        self.name = name
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._start = BEGINS[name](self.port, engines, folder)
        self._log = folder / f"{name}.log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> System:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._start.command,
                env={**os.environ, **self._start.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # its children end with it
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _wait(self) -> None:
        """Until it answers a chat completion with 200."""
        message = {"role": "user", "content": "#double key=ready think=1 ans=1# think=1 answer=1"}
        body = json.dumps({"model": MODEL, "messages": [message]}).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        deadline = monotonic() + START
        while monotonic() < deadline and self._process.poll() is None:
            try:
                with urlopen(Request(f"{self.url}/v1/chat/completions", body, headers), timeout=10):
                    return
            except (HTTPError, OSError):
                sleep(0.2)
        printed = self._log.read_text(encoding="utf-8", errors="replace")
        raise DidNotStart(f"{self.name} did not answer in {START:g} s; it printed:\n{printed[-2000:]}")

    def cpu(self) -> float:
        """Seconds of CPU so far, its children's included, and of threads and children that have ended. In ticks of
        10 ms, so measure seconds."""
        ticks = 0
        for pid in self._tree():
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """MiB of resident memory, its children's included."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self._tree())
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def _tree(self) -> list[int]:
        parents: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
        found = [self._process.pid]
        for pid in found:
            found += parents.get(pid, [])
        return found
