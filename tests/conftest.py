"""Fixtures for every tier: the doubles' host, one double of each engine, and gateways that are real processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import getproxies_environment

import pytest

from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, gateways

WIRE = Path(__file__).parents[2] / "shared" / "wire"
NO_PROXY = ",".join(filter(None, [getproxies_environment().get("no"), "127.0.0.1", "localhost"]))
os.environ |= {"NO_PROXY": NO_PROXY, "no_proxy": NO_PROXY}
"""All that tests start is on loopback, where a proxy of this machine's shell has no business; pip may still use it."""


@pytest.fixture(scope="session")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.fixture(scope="module")
def vllm(host: Host) -> Iterator[VllmDouble]:
    double = VllmDouble("v-model")
    host.add(double)
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def sglang(host: Host) -> Iterator[SglangDouble]:
    double = SglangDouble("s-model")
    host.add(double)
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def llama(host: Host) -> Iterator[LlamaDouble]:
    double = LlamaDouble("l-model")
    host.add(double)
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Gateway]]:
    """`gateway(config)` starts one; all end with the module, with exit code 0 and no traceback."""
    yield from gateways(tmp_path_factory.mktemp("gateway"))


@pytest.fixture(autouse=True)
def no_violations(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test passes only if the doubles saw nothing they should not have seen."""
    yield
    if "host" not in request.fixturenames:
        return
    host: Host = request.getfixturevalue("host")
    found = {double.url: list(double.violations) for double in host.doubles if double.violations}
    for double in host.doubles:
        double.violations.clear()
    assert not found


@pytest.fixture
def wire() -> Path:
    if not WIRE.is_dir():
        pytest.skip("the recorded bytes of real engines are not beside this checkout")
    return WIRE
