"""Starts a real vLLM on a free port and ends it: `with RealVllm() as vllm: vllm.url`.

`python -m tests.engines.real_vllm [--no-parser]` serves until it is interrupted, to try things by hand. One at a time
is enough for two cores. It ends only what it started, by its own handle.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final

import httpx

from tests.engines.install_vllm import Installation, NoVllm, say

MODEL: Final = "smol"
CONTEXT: Final = 2048
BLOCK: Final = 32
"""Tokens in a block of the KV cache. The CPU's default of 128 would hide what a second leg computes again."""
LEASE: Final = 20
"""Seconds that a prefill worker keeps a cache which nobody fetches (30 by default): a test has to wait for it."""
START: Final = 300.0
STOP: Final = 60.0
LOOK_AGAIN: Final = 0.5
HERE: Final = Path(__file__).parent

COMPACT: Final = '{"backend": "xgrammar", "disable_any_whitespace": true}'
"""A grammar that allows any white space lets so small a model say nothing else."""

ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # Threads that wait for each other spin: on a busy machine with few cores one thread is ten times faster than two.
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
DIES_WITH_PARENT: Final = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])"
"""PR_SET_PDEATHSIG, SIGTERM: a test run that is killed leaves no engine behind."""


class RealVllm:
    """A vLLM of its own. `parser`: does it split thoughts from answers, and hold a thinking budget, by itself?"""

    def __init__(
        self, *, parser: bool = True, role: str = "", policy: str = "fail", installation: Installation | None = None
    ) -> None:
        """`role`: `prefill` or `decode`, for one of a pair that hands the KV cache over by NIXL; `policy`: what the
        latter does when a cache does not come, `fail` or `recompute`."""
        self._installation = installation or Installation()
        self._parser = parser
        self._role = role
        self._policy = policy
        self._folder = TemporaryDirectory(prefix="thinkgate-vllm-")
        self._log = Path(self._folder.name) / "vllm.log"
        self.url = ""

    def __enter__(self) -> RealVllm:
        if not self._installation.is_complete:
            raise NoVllm(f"there is no vLLM in {self._installation.home}: run `make test-engines`")
        port = _free_port()
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", DIES_WITH_PARENT, *self._command(port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **ENVIRONMENT, **self._pair_environment()},
                cwd=self._folder.name,
                start_new_session=True,  # its workers are then a group of its own
            )
        try:
            self._wait(f"http://127.0.0.1:{port}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.url = ""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._folder.cleanup()

    def kill(self) -> None:
        """SIGKILL to all of its processes, as the out-of-memory killer or a lost node does it."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _command(self, port: int) -> list[str]:
        line = [str(self._installation.python), "-m", "vllm.entrypoints.openai.api_server"]
        line += ["--model", str(self._installation.model), "--served-model-name", MODEL]
        line += ["--chat-template", str(HERE / "think.jinja")]
        line += ["--host", "127.0.0.1", "--port", str(port)]
        line += ["--max-model-len", str(CONTEXT), "--block-size", str(BLOCK), "--max-num-seqs", "16"]
        # The same tokens in batches of other shapes differ in bfloat16's last bit, which decides between words as good
        # as each other: whoever compares a pair's text with another worker's wants none of that.
        line += ["--dtype", "float32" if self._role else "bfloat16"]
        line += ["--enforce-eager", "--enable-prompt-tokens-details"]
        line += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
        line += ["--structured-outputs-config", COMPACT]
        if self._role:
            line += ["--kv-transfer-config", self._transfer()]
        return [*line, "--reasoning-parser", "qwen3"] if self._parser else line

    def _transfer(self) -> str:
        kind = {"prefill": "kv_producer", "decode": "kv_consumer"}[self._role]
        told = {"kv_connector": "NixlConnector", "kv_role": kind, "kv_buffer_device": "cpu"}
        extra = {"kv_lease_duration": LEASE}
        return json.dumps({**told, "kv_load_failure_policy": self._policy, "kv_connector_extra_config": extra})

    def _pair_environment(self) -> dict[str, str]:
        """Over loopback, with a side channel of its own."""
        if not self._role:
            return {}
        side = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(_free_port())}
        calm = {"PYTHONPATH": str(HERE / "patient"), "UCX_RCACHE_MAX_UNRELEASED": "1024"}
        return {**side, **calm, "UCX_TLS": "tcp,self,sm", "UCX_NET_DEVICES": "lo", "NIXL_LOG_LEVEL": "WARN"}

    def _wait(self, url: str) -> None:
        """Until it is healthy; importing it all takes a minute or more."""
        deadline = monotonic() + START
        while True:
            try:
                if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            code = self._process.poll()
            assert code is None, f"vLLM ended with {code} before it served:\n{self.last_words()}"
            assert monotonic() < deadline, f"vLLM does not serve after {START} s:\n{self.last_words()}"
            sleep(LOOK_AGAIN)
        self.url = url

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    Installation().ensure()
    say("starting vLLM, a minute or two …")
    with RealVllm(parser="--no-parser" not in sys.argv[1:]) as vllm:
        say(f"vLLM serves {MODEL} at {vllm.url}; end it with Ctrl-C")
        try:
            signal.pause()
        except KeyboardInterrupt:
            say("ending it")


if __name__ == "__main__":
    main()
