"""A real Prometheus on loopback: scrapes gateways every second, evaluates rules, answers queries."""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import httpx
import yaml

START: Final = 30.0
STOP: Final = 20.0
LOOK_AGAIN: Final = 0.1

Series = tuple[dict[str, str], list[tuple[float, float]]]
"""Labels, and (time, value) of every sample that is a number."""


def is_installed() -> bool:
    return shutil.which("prometheus") is not None and shutil.which("promtool") is not None


class Prometheus:
    """`with Prometheus(folder, [port], rules) as prometheus:`"""

    def __init__(self, folder: Path, ports: Sequence[int], rules: Sequence[Path] = ()) -> None:
        self._folder = folder
        self._file = folder / "prometheus.yaml"
        settings = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path.absolute()) for path in rules],
            "scrape_configs": [
                {"job_name": "thinkgate", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
            ],
        }
        self._file.write_text(yaml.safe_dump(settings))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Prometheus:
        command = ["prometheus", f"--config.file={self._file}", f"--storage.tsdb.path={self._folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"]
        self._log = (self._folder / "prometheus.log").open("w")
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        deadline = monotonic() + START
        while True:
            try:
                if httpx.get(f"{self.url}/-/ready").status_code == 200:
                    return self
            except httpx.TransportError:
                pass
            if self._process.poll() is not None or monotonic() > deadline:
                self.__exit__()
                raise AssertionError((self._folder / "prometheus.log").read_text()[-4000:])
            sleep(LOOK_AGAIN)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def range(self, expr: str, start: float, end: float, step: float = 1.0) -> list[Series]:
        """Over a span of time, without what is not a number. Raises AssertionError with Prometheus' own words."""
        asked = {"query": expr, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        found = self._ask("query_range", asked)["result"]
        every = [(row["metric"], [(at, float(value)) for at, value in row["values"]]) for row in found]
        numbers = [(labels, [pair for pair in pairs if math.isfinite(pair[1])]) for labels, pairs in every]
        return [(labels, pairs) for labels, pairs in numbers if pairs]

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._ask("rules", {})["groups"] for rule in group["rules"]]

    def names(self) -> set[str]:
        """Of all series."""
        return set(self._ask("label/__name__/values", {}))

    def _ask(self, what: str, asked: dict[str, str]) -> Any:
        answer = (
            httpx.post(f"{self.url}/api/v1/{what}", data=asked) if asked else httpx.get(f"{self.url}/api/v1/{what}")
        )
        told = answer.json()
        assert told["status"] == "success", f"{asked}: {told}"
        return told["data"]
