"""The clients in deploy/examples/clients, as their README runs them: on the embedded engine, and on a double that holds
its breath in mid-thought."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.conftest import KEY
from tests.doubles.exchange import End
from tests.doubles.script import ask, expected_answer, thought
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, pool

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
FOLDER = EXAMPLES / "clients"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"^\| \[.+?\]\((.+?)\) \| .+? \| `(.+?)` \| .+ \|$", README, re.MULTILINE))
QUESTION = dict(re.findall(r'^(QUESTION)="(.+)"$', README, re.MULTILINE))["QUESTION"]
SHOWN = re.compile(r"\[thinking\]\n(?P<thought>.+)\n\[answer\]\n(?P<answer>.+)\n\[(?P<summary>.+)\]\n", re.DOTALL)
BUDGET = 32
PATIENCE = 60.0


def missing(client: str) -> str:
    """Why this client cannot run here, if it cannot."""
    if client.endswith(".sh"):
        return "" if shutil.which("curl") else "curl is not installed"
    if client.endswith(".mjs") and not shutil.which("node"):
        return "node is not installed"
    if client.endswith(".mjs") and not (FOLDER / "node" / "node_modules").is_dir():
        return "run `npm install` in deploy/examples/clients/node first"
    return ""


def param(client: str) -> Any:
    return pytest.param(client, marks=pytest.mark.skipif(bool(missing(client)), reason=missing(client)), id=client)


CLIENTS = [param(client) for client in COMMANDS]
EMBEDDED = find_spec("xllamacpp") is not None


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble) -> Gateway:
    """What `make serve` runs, behind a key, with a double beside it. At temperature 0 the model does not ramble."""
    settings: dict[str, Any] = yaml.safe_load((EXAMPLES / "embedded.yaml").read_text(encoding="utf-8"))
    settings["keys"] = [{"alias": "clients", "hash": f"sha256:{sha256(KEY.encode()).hexdigest()}"}]
    settings["pools"]["reasoning"]["hygiene"] = {"temperature": 0}
    settings["pools"]["double"] = pool(vllm)
    return gateway(settings).wait_workers(3 if EMBEDDED else 1)


@asynccontextmanager
async def started(served: Gateway, command: str, question: str, **env: str) -> AsyncIterator[Process]:
    """A command of the README, in its folder, by a shell; with all it starts it ends here at the latest."""
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        command,
        cwd=FOLDER,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OPENAI_BASE_URL": served.base_url,
            "OPENAI_API_KEY": KEY,
            "QUESTION": question,
            "PYTHONUNBUFFERED": "",  # what is live is the example's own doing
            "NODE_NO_WARNINGS": "1",  # of Node itself, of which some release always has one; nothing else is on stderr
            **env,
        },
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()


async def run(served: Gateway, command: str, question: str, **env: str) -> tuple[int, str, str]:
    """(exit code, what it printed, what it complained of)."""
    async with started(served, command, question, **env) as process:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode or 0, out.decode(), err.decode()


def of_model(client: str, model: str) -> str:
    """The README's command, asking for a model by name."""
    command = COMMANDS[client]
    return f"MODEL={model} {command}" if client.endswith(".sh") else f"{command} --model {model}"


def test_every_client_in_the_folder_is_in_the_readme() -> None:
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*") if path.suffix in {".py", ".mjs", ".sh"}}
    assert set(COMMANDS) == files - {"node/asked.mjs"}
    assert all(f"{BUDGET}" in command for command in COMMANDS.values())


@pytest.fixture(scope="module")
def answered(served: Gateway) -> dict[str, tuple[int, str, str]]:
    """What each client prints of the real model's answer. Two at a time: most of it is each interpreter's own start."""

    async def all_of_them() -> dict[str, tuple[int, str, str]]:
        pair = asyncio.Semaphore(2)

        async def one(client: str) -> tuple[int, str, str]:
            async with pair:
                return await run(served, COMMANDS[client], QUESTION)

        clients = [client for client in COMMANDS if not missing(client)]
        return dict(zip(clients, await asyncio.gather(*map(one, clients)), strict=True))

    return asyncio.run(all_of_them())


@pytest.mark.embedded
@pytest.mark.timeout((len(COMMANDS) + 1) // 2 * PATIENCE + 60)  # `answered` is made by the first that asks for it
@pytest.mark.skipif(not EMBEDDED, reason="xllamacpp is not installed")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_real_model_thinks_within_its_budget_and_answers(
    answered: dict[str, tuple[int, str, str]], client: str
) -> None:
    code, out, err = answered[client]
    assert (code, err) == (0, "")
    shown = SHOWN.fullmatch(out)
    assert shown, out
    assert shown["thought"].startswith("Tom")
    assert shown["answer"].startswith("The answer is ")
    assert "think>" not in out
    if "langchain" in client:
        count = re.fullmatch(r"(\d+) tokens of thought; \d+ tokens in, \d+ out", shown["summary"])
        assert count, shown["summary"]
        assert BUDGET <= int(count[1]) <= BUDGET + 20, "the thought and the closing phrase"
    else:
        ended = rf"reasoning: {BUDGET} tokens of thought, ended by cap; \d+ tokens in, \d+ out"
        assert re.fullmatch(ended, shown["summary"]), shown["summary"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_thinking_is_shown_while_the_engine_still_thinks(
    served: Gateway, vllm: VllmDouble, client: str
) -> None:
    key = f"live-{client}"
    asked = ask(key, stall_after=16)
    async with started(served, of_model(client, "v-model"), asked) as process:
        assert process.stdout
        out = b""
        while thought(key, 12).encode() not in out:
            piece = await asyncio.wait_for(process.stdout.read(4096), PATIENCE)
            assert piece, f"it ended after {out!r}"
            out += piece
        held = vllm.of(key)[0]
        assert held.end is End.RUNNING
        assert out.startswith(b"[thinking]\n")
        assert b"[answer]" not in out
        held.release()
        rest, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, err) == (0, b"")
    shown = SHOWN.fullmatch((out + rest).decode())
    assert shown
    assert shown["thought"].strip() == thought(key, 24)
    assert shown["answer"].strip() == expected_answer(key, thought(key, 24))


@pytest.mark.parametrize("client", CLIENTS)
async def test_what_goes_wrong_is_said_and_is_a_failure(served: Gateway, client: str) -> None:
    """LangChain raises what OpenAI's SDK raises, and takes the longest to start: one failure is enough of it."""
    stranger = {"OPENAI_API_KEY": "tg-wrong"}
    ways = [(run(served, of_model(client, "nobody"), "hi"), "", "The model 'nobody' does not exist here.")]
    if "langchain" not in client:
        broken = ask(f"broken-{client}", die_after=10)
        ways += [
            (run(served, COMMANDS[client], "hi", **stranger), "", "This API key is not known here."),
            (run(served, of_model(client, "v-model"), broken), "[thinking]\n", "The engine cannot be reached"),
        ]
    results = await asyncio.gather(*(way for way, _, _ in ways))
    for (code, out, err), (_, begins, told) in zip(results, ways, strict=True):
        assert code == 1
        assert out.startswith(begins)
        assert bool(out) == bool(begins)
        assert told in err
        assert len(err.strip().splitlines()) == 1, "no traceback"


@pytest.mark.embedded
@pytest.mark.skipif(not EMBEDDED or not shutil.which("curl"), reason="xllamacpp or curl is not installed")
async def test_the_plain_curl_of_the_readme(served: Gateway) -> None:
    (command,) = re.findall(r"```bash\n(curl .*?)```", README, re.DOTALL)
    code, out, err = await run(served, command, "")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["choices"][0]["message"]["reasoning_content"].startswith("Tom")
    assert told["choices"][0]["message"]["content"].startswith("The answer is ")
    assert told["thinkgate"]["thinking"]["ended_by"] == "cap"
    assert f'"cap": {told["thinkgate"]["thinking"]["cap"]},' in README
