"""The supervisor over a tiny child: serving, crashes, giving up, and an end in every case."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gateway.embedded import EmbeddedUnavailable
from gateway.embedded import child as child_program
from gateway.embedded.supervisor import Patience, Supervisor

CHILD = """
import http.server, os, signal, sys
mode, port = sys.argv[1], int(sys.argv[-1])
print("a line of log", file=sys.stderr, flush=True)
if mode == "crash":
    sys.exit(3)
if mode == "refuse":
    print("refused the file is broken", flush=True)
    sys.exit(1)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = str(os.getpid()).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200)

    def do_POST(self):
        self.answer(500 if mode == "mute" else 200)

server = http.server.HTTPServer(("127.0.0.1", port), Handler)
print("port", server.server_port, flush=True)
server.serve_forever()
"""

QUICK = Patience(backoff=0.001, grace=0.2, canary=10)


class Watched:
    """A supervisor and what it has said so far."""

    def __init__(self, command: list[str], patience: Patience) -> None:
        self.messages: list[str] = []
        self._said = asyncio.Event()
        self.supervisor = Supervisor(command, label="a model (1 MB)", progress=self._hear, patience=patience)

    def _hear(self, message: str) -> None:
        self.messages.append(message)
        self._said.set()

    async def until(self, text: str, after: int) -> None:
        """Waits for a message with the text, past the first `after` messages."""
        while not any(text in message for message in self.messages[after:]):
            self._said.clear()
            await self._said.wait()

    async def pid(self) -> int:
        """Of the child that serves now; it tells itself."""
        url = await self.supervisor.ready()
        async with httpx.AsyncClient(trust_env=False) as client:
            return int((await client.get(f"{url}/health")).text)

    async def crash(self) -> None:
        """Kills the serving child and waits until the next one serves."""
        pid, said = await self.pid(), len(self.messages)
        os.kill(pid, signal.SIGKILL)
        await self.until("restarting", said)
        await self.supervisor.ready()


Run = Callable[..., "asynccontextmanager[Watched]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    script = tmp_path / "child.py"
    script.write_text(CHILD)

    @asynccontextmanager
    async def watch(mode: str, patience: Patience = QUICK) -> AsyncIterator[Watched]:
        watched = Watched([sys.executable, str(script), mode], patience)
        watched.supervisor.start()
        try:
            yield watched
        finally:
            await watched.supervisor.aclose()

    return watch


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_serves_tells_and_ends(run: Run):
    async with run("serve") as watched:
        url = await watched.supervisor.ready()
        assert watched.supervisor.url == url
        assert watched.supervisor.restarts == 0
        pid = await watched.pid()
        assert watched.messages[0] == "loading a model (1 MB)…"
        assert watched.messages[-1].startswith(f"ready on {url} after ")
    assert gone(pid)
    assert watched.supervisor.url is None
    with pytest.raises(EmbeddedUnavailable, match="stopped"):
        await watched.supervisor.ready()


async def test_crash_brings_a_new_child_on_the_same_port(run: Run):
    async with run("serve") as watched:
        url, pid = await watched.supervisor.ready(), await watched.pid()
        await watched.crash()
        assert watched.supervisor.url == url
        assert await watched.pid() != pid
        assert any("was ended by signal 9" in message for message in watched.messages)


async def test_old_crashes_are_forgiven(run: Run):
    async with run("serve", Patience(crashes=2, window=0, backoff=0.001)) as watched:
        for _ in range(3):
            await watched.crash()
        assert watched.supervisor.restarts == 3


async def test_gives_up_with_the_last_words(run: Run):
    async with run("crash") as watched:
        with pytest.raises(EmbeddedUnavailable, match=r"crashed 5 times.*exited with code 3.*a line of log"):
            await watched.supervisor.ready()
        assert watched.supervisor.restarts == 4
        assert watched.supervisor.url is None


async def test_crashes_of_a_serving_child_count_too(run: Run):
    async with run("serve", Patience(crashes=2, backoff=0.001)) as watched:
        await watched.crash()
        pid, said = await watched.pid(), len(watched.messages)
        os.kill(pid, signal.SIGKILL)
        await watched.until("crashed 2 times", said)
        with pytest.raises(EmbeddedUnavailable, match="crashed 2 times"):
            await watched.supervisor.ready()


async def test_refusal_is_final(run: Run):
    async with run("refuse") as watched:
        with pytest.raises(EmbeddedUnavailable, match="refused to start: the file is broken"):
            await watched.supervisor.ready()
        assert watched.supervisor.restarts == 0


async def test_health_without_text_is_not_ready(run: Run):
    async with run("mute", Patience(crashes=2, backoff=0.001)) as watched:
        with pytest.raises(EmbeddedUnavailable, match="did not answer its first request"):
            await watched.supervisor.ready()


async def test_a_child_deaf_to_sigterm_is_killed(run: Run):
    async with run("stubborn") as watched:
        pid = await watched.pid()
    assert gone(pid)


async def test_stops_while_starting(run: Run):
    async with run("serve") as watched:
        waiting = asyncio.create_task(watched.supervisor.ready())
        await asyncio.sleep(0)
        await watched.supervisor.aclose()
        with pytest.raises(EmbeddedUnavailable, match="stopped"):
            await waiting


async def test_a_program_that_is_not_there(run: Run):
    supervisor = Supervisor(["/nonexistent/program"], label="nothing", progress=lambda message: None)
    supervisor.start()
    with pytest.raises(EmbeddedUnavailable, match="cannot be run"):
        await supervisor.ready()
    await supervisor.aclose()


def test_pauses_double_and_end():
    assert [Patience().pause(crashes) for crashes in (1, 2, 3, 4)] == [0.5, 1, 2, 4]


def test_the_child_ends_with_the_pipe():
    program = f"import sys; sys.path.insert(0, {str(Path(child_program.__file__).parent)!r})\n"
    program += "import child, threading; child.die_with_parent(); print(1, flush=True); threading.Event().wait()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.close()
        assert process.wait(10) == 0


def test_a_port_taken_by_another_is_given_up():
    with child_program.socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert child_program.usable_port(taken.getsockname()[1]) == 0
    assert child_program.usable_port(0) == 0
