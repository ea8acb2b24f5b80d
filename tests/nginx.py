"""A real nginx on loopback, in a folder of its own, with settings that a test gives; ended by its own handle."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Final

START: Final = 20.0
STOP: Final = 20.0
LOOK_AGAIN: Final = 0.02

MAIN: Final = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
{http}
}}
"""
"""One process, which keeps its user, so that a test may run as anybody."""


def is_installed() -> bool:
    return shutil.which("nginx") is not None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nginx:
    """`with Nginx(folder, http, port) as nginx:`"""

    def __init__(self, folder: Path, http: str, port: int) -> None:
        """`http`: what stands in the block of that name, and listens on 127.0.0.1:`port`."""
        folder.mkdir(exist_ok=True)
        self._folder, self.port = folder, port
        self.url = f"http://127.0.0.1:{port}"
        self._file = folder / "nginx.conf"
        self._file.write_text(MAIN.format(folder=folder, http=http))

    def check(self) -> str:
        """What `nginx -t` says. Raises AssertionError where it finds a mistake."""
        command = ["nginx", "-t", *self._arguments()]
        told = subprocess.run(command, capture_output=True, text=True, timeout=START, check=False)
        assert told.returncode == 0, told.stderr
        return told.stderr

    def __enter__(self) -> Nginx:
        command = ["nginx", *self._arguments()]
        self._log = (self._folder / "output.log").open("w")
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        deadline = monotonic() + START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                if self._process.poll() is not None or monotonic() > deadline:
                    self.__exit__()
                    raise AssertionError(self.log_text()) from None
                sleep(LOOK_AGAIN)
            else:
                return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def log_text(self) -> str:
        return "".join((self._folder / name).read_text() for name in ("output.log", "error.log"))

    def _arguments(self) -> list[str]:
        return ["-p", str(self._folder), "-c", str(self._file)]
