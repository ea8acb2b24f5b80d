"""The program in the child process: llama.cpp's own HTTP server, and nothing else.

It is run as a file, not as a module: that would first import the package it lies in, and with it half the gateway.
So only the standard library and xllamacpp come in here. It says one line on standard output, `port N` once it serves
or `refused WHY` when it cannot; the engine's log goes to standard error. It must not outlive its parent.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

HOST = "127.0.0.1"
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PROMPT_STEP = 64
"""Prompt tokens computed at a time. Between two steps other requests get their turn, and one whose client left is
dropped if it asked for `return_progress`. The engine's own 2048 is no faster on one core, and blocks it for seconds."""
PROMPT_CACHE_MIB = 128
"""Memory for prompts that lost their slot. The engine's own default, 8 GiB, is more than a laptop can spare."""


class Launch(argparse.Namespace):
    """What the parent asks for."""

    model: Path
    name: str
    template: Path | None
    temperature: float | None
    top_p: float | None
    threads: int
    context: int
    parallel: int
    port: int


class Server(Protocol):
    """xllamacpp's server, as far as it is used here. It serves, in threads of its own, until the process ends."""

    @property
    def listening_address(self) -> str: ...


def read_arguments(arguments: Sequence[str]) -> Launch:
    parser = argparse.ArgumentParser(description="llama.cpp's server for the gateway that started it")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--template", type=Path)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    return parser.parse_args(arguments, namespace=Launch())


def die_with_parent() -> None:
    """Two ropes: the kernel's signal at the parent's death, and the end of a pipe that only the parent holds.

    The signal alone would miss a parent that died before this line. The pipe alone waits for the interpreter, which
    the engine may hold while it loads.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def claim_stdout() -> TextIO:
    """Keep standard output for the parent; whatever else prints there, in C++ too, joins the log."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def usable_port(wanted: int) -> int:
    """The port wanted, or 0 (any) if another program has it by now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError:
            return 0
    return wanted


def serve(launch: Launch) -> Server:
    """Load the weights and start serving. The one place that touches xllamacpp, which has no types."""
    import xllamacpp  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]  (loading it can fail: say so)

    engine = cast("Any", xllamacpp)
    params = engine.CommonParams()
    params.model.path = str(launch.model)
    params.model_alias = {launch.name}
    if launch.template is not None:
        params.chat_template = launch.template.read_text(encoding="utf-8")
    if launch.temperature is not None:
        params.sampling.temp = launch.temperature
    if launch.top_p is not None:
        params.sampling.top_p = launch.top_p
    params.cpuparams.n_threads = launch.threads
    params.cpuparams_batch.n_threads = launch.threads
    params.n_batch = PROMPT_STEP
    params.n_ubatch = PROMPT_STEP
    params.n_parallel = launch.parallel
    params.n_ctx = launch.context * launch.parallel  # the engine shares n_ctx out among its slots
    params.fit_params = False  # else the engine may shrink the context on its own
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.hostnames = [HOST]
    params.port = usable_port(launch.port)
    params.cors_origins = f"http://{HOST}"  # its default lets any web page read the answers
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.ui = False
    params.offline = True
    return cast("Server", engine.Server(params))


def main(arguments: Sequence[str]) -> None:
    die_with_parent()
    channel = claim_stdout()
    try:
        server = serve(read_arguments(arguments))
    except Exception as error:
        channel.write(f"refused {type(error).__name__}: {' '.join(str(error).split())}\n")
        channel.flush()
        os._exit(1)
    channel.write(f"port {server.listening_address.rpartition(':')[2]}\n")
    channel.flush()
    threading.Event().wait()  # SIGTERM has its default action here: an end at once, nothing to save


if __name__ == "__main__":
    main(sys.argv[1:])
