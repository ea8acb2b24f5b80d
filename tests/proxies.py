"""Real proxies on loopback, each in a folder of its own with settings that a test gives; ended by their own handles."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final

START: Final = 20.0
STOP: Final = 20.0
LOOK_AGAIN: Final = 0.02

NGINX: Final = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
{http}
}}
"""
"""One process, which keeps its user, so that a test may run as anybody."""


SERVERS: Final = ("/usr/sbin", "/usr/local/sbin")
"""Where a distribution puts servers, which is not on everybody's path."""


def path_of(program: str) -> str | None:
    """Of the system, else what a wheel put beside this Python."""
    places = (os.environ.get("PATH", os.defpath), *SERVERS, str(Path(sys.executable).parent))
    return shutil.which(program, path=os.pathsep.join(places))


def command_of(program: str) -> str:
    """Raises FileNotFoundError."""
    found = path_of(program)
    if found is None:
        raise FileNotFoundError(program)
    return found


def is_installed(program: str) -> bool:
    return path_of(program) is not None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def nobody() -> Iterator[str]:
    """An address that refuses connections, and that nobody else can take meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


class Proxy:
    """`with nginx(folder, http, port) as proxy:`"""

    def __init__(self, command: Sequence[str], check: Sequence[str], folder: Path, port: int) -> None:
        """`check`: what reads the settings and says what is wrong with them. `port`: where it will listen."""
        self._command, self._check, self._log = command, check, folder / "output.log"
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def check(self) -> str:
        """What it says of its settings. Raises AssertionError where it finds a mistake."""
        told = subprocess.run(self._check, capture_output=True, text=True, timeout=START, check=False)
        assert told.returncode == 0, told.stderr + told.stdout
        return told.stderr + told.stdout

    def __enter__(self) -> Proxy:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = monotonic() + START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                if self._process.poll() is not None or monotonic() > deadline:
                    self.__exit__()
                    raise AssertionError(self._log.read_text()) from None
                sleep(LOOK_AGAIN)
            else:
                assert self._process.poll() is None, f"somebody else has this port: {self._log.read_text()}"
                return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def nginx(folder: Path, http: str, port: int) -> Proxy:
    """`http`: what stands in the block of that name."""
    file = folder / "nginx.conf"
    file.write_text(NGINX.format(folder=folder, http=http))
    command = [command_of("nginx"), "-p", str(folder), "-c", str(file)]
    return Proxy(command, [*command, "-t"], folder, port)


def envoy(folder: Path, settings: str, port: int) -> Proxy:
    file = folder / "envoy.yaml"
    file.write_text(settings)
    command = [command_of("envoy"), "-c", str(file), "--log-level", "error", "--use-dynamic-base-id"]
    return Proxy(command, [*command, "--mode", "validate"], folder, port)


def haproxy(folder: Path, settings: str, port: int) -> Proxy:
    file = folder / "haproxy.cfg"
    file.write_text(settings)
    command = [command_of("haproxy"), "-db", "-f", str(file)]
    return Proxy(command, [*command, "-c"], folder, port)
