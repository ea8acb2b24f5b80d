"""A gateway for real clients: a reasoning pool that splits itself, one that does not, one key."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest

from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool

KEY = "tg-clients-0123456789"


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble, llama: LlamaDouble) -> Gateway:
    keys = [{"alias": "clients", "hash": f"sha256:{sha256(KEY.encode()).hexdigest()}"}]
    pools = {"vllm": pool(vllm), "llama": pool(llama)}
    return gateway(config(pools, keys=keys)).wait_workers(2)
