"""The flags of the launch recipes: read by vLLM's own parser, and looked up in the source of SGLang's release."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from deploy.engines.recipes import IMAGES, WORKERS, Worker
from tests.engines.install_vllm import VLLM, Installation
from tests.engines.sglang_flags import SGLANG, NoSglang, known_flags
from tests.recipes import arguments

HERE = Path(__file__).parent
WRONG = {
    "a flag that is gone": (["--no-such-flag", "1"], "no-such-flag"),
    "a value of another type": (["--tensor-parallel-size", "two"], "tensor-parallel-size"),
    "a choice that there is not": (["--kv-cache-dtype", "fp7"], "kv-cache-dtype"),
    "an unknown parser": (["--reasoning-parser", "deepseek-r1"], "no such reasoning parser: deepseek-r1"),
    "an unknown connector": (
        ["--kv-transfer-config", '{"kv_connector": "P2pNcclConnector", "kv_role": "kv_producer"}'],
        "no such connector: P2pNcclConnector",
    ),
    "an unknown role": (["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "boss"}'], "kv_role"),
}
"""What must be complained about, so that silence means something."""


def of(engine: str) -> list[Worker]:
    return [worker for worker in WORKERS if worker.engine == engine]


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """By script, and by kind of mistake."""
    installation = Installation()
    if not installation.is_complete:
        pytest.skip("vLLM is not installed: run `make test-engines`")
    folder = tmp_path_factory.mktemp("teller")
    scripts = {worker.name: arguments(worker.script, folder)[2:] for worker in of("vllm")}
    scripts |= {name: ["--model", "any", *flags] for name, (flags, _) in WRONG.items()}
    told = subprocess.run(
        [str(installation.python), str(HERE / "read_flags.py")],
        input=json.dumps(scripts),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
    )
    assert told.returncode == 0, told.stderr[-4000:]
    found: dict[str, str | None] = json.loads(told.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("worker", of("vllm"), ids=lambda worker: worker.name)
def test_vllm_takes_the_flags(complaints: dict[str, str | None], worker: Worker) -> None:
    assert complaints[worker.name] is None


@pytest.mark.parametrize("mistake", WRONG)
def test_vllm_would_not_take_others(complaints: dict[str, str | None], mistake: str) -> None:
    assert WRONG[mistake][1] in (complaints[mistake] or "nothing was said")


@pytest.mark.parametrize("worker", of("sglang"), ids=lambda worker: worker.name)
def test_sglang_knows_the_flags(worker: Worker, tmp_path: Path) -> None:
    try:
        known = known_flags()
    except NoSglang as missing:
        pytest.skip(str(missing))
    given = {word for word in arguments(worker.script, tmp_path) if word.startswith("--")}
    assert given <= known
    assert "--no-such-flag" not in known


def test_the_images_are_the_releases_that_were_checked() -> None:
    assert IMAGES["vllm"].endswith(f":v{VLLM}")
    assert IMAGES["sglang"].endswith(f":v{SGLANG}")
