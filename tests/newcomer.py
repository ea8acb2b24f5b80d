"""The README walked by somebody who has nothing: a fresh clone, its own commands as they stand, a transcript.

    python -m tests.newcomer FOLDER      # an empty folder that may be thrown away; some minutes, a few hundred MB

Not a test of the common run: it installs everything anew. It ends with 1 where a step fails.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic
from typing import IO, Final

from benchmarks.data_path import free_port
from tests.harness import ANNOUNCEMENT
from tests.pages import ROOT

INSTALLING: Final = 1_200
"""Seconds that the first `make serve` may take: it fetches everything."""
STEP: Final = 120
SHOWN: Final = 1_200
"""Characters of an output that are printed."""
KEPT: Final = re.compile(r"PATH|HOME|LANG|(PIP|SSL)_.*|(https?|no)_proxy", re.IGNORECASE)
"""Of the environment: as with a new account, behind the same mirror."""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Stuck(Exception):
    """A step that failed; the message says which."""


class Walk:
    """`checkout`: where the clone will be."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "thinkgate"
        self._folder = folder
        self._port = free_port()
        self._environment = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}

    def clone(self) -> None:
        self._run(["git", "clone", "--quiet", str(ROOT), str(self.checkout)], self._folder)

    def serve(self) -> subprocess.Popen[str]:
        """`make serve` on a free port, until it says that it listens."""
        command = ["make", "serve", f"PORT={self._port}"]
        say(f"$ {shlex.join(command)} &")
        began = monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.checkout,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        lines: Queue[str] = Queue()
        Thread(target=_pass_on, args=(process.stdout, lines), daemon=True).start()
        while monotonic() - began < INSTALLING and process.poll() is None:
            try:
                line = lines.get(timeout=1)
            except Empty:
                continue
            say(line.rstrip())
            if line.startswith(ANNOUNCEMENT):
                say(f"  ({monotonic() - began:.0f} s)\n")
                return process
        raise Stuck("make serve did not begin to listen")

    def ask(self) -> None:
        """The README's curls, but for the port."""
        readme = (self.checkout / "README.md").read_text(encoding="utf-8")
        for curl in re.findall(r"```bash\n(curl .*?)```", readme, re.DOTALL):
            self._run(shlex.split(curl.replace("localhost:8080", f"localhost:{self._port}")), self.checkout)
        [yaml] = re.findall(r"```yaml\n(# thinkgate\.yaml\n.*?)```", readme, re.DOTALL)
        (self._folder / "thinkgate.yaml").write_text(yaml, encoding="utf-8")
        self._run([".venv/bin/thinkgate", "check", str(self._folder / "thinkgate.yaml")], self.checkout)
        self._run([".venv/bin/thinkgate", "explain", "Prove that there are infinitely many primes."], self.checkout)

    def stop(self, process: subprocess.Popen[str]) -> None:
        """Ctrl-C, as in a terminal: the whole group is told."""
        say("^C")
        os.killpg(process.pid, signal.SIGINT)
        process.wait(STEP)
        say(f"  (make ended with {process.returncode})")

    def _run(self, command: list[str], folder: Path) -> None:
        began = monotonic()
        say(f"$ {shlex.join(command)}")
        done = subprocess.run(
            command, cwd=folder, env=self._environment, capture_output=True, text=True, timeout=STEP, check=False
        )
        told = done.stdout + ("" if done.returncode == 0 else done.stderr)
        say(told[:SHOWN] + (" …" if len(told) > SHOWN else ""))
        say(f"  ({monotonic() - began:.1f} s)\n")
        if done.returncode != 0:
            raise Stuck(f"{command[0]} ended with {done.returncode}")


def _pass_on(stream: IO[str] | None, lines: Queue[str]) -> None:
    for line in stream or ():
        lines.put(line)


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    walk = Walk(folder)
    process: subprocess.Popen[str] | None = None
    try:
        walk.clone()
        process = walk.serve()
        walk.ask()
    except (Stuck, subprocess.TimeoutExpired) as error:
        say(f"stuck: {error}")
        return 1
    finally:
        if process is not None:
            walk.stop(process)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
