"""One gateway a module, with a pool of each engine. The route `auto`: vLLM as standard, llama-server as reasoning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.doubles.engine import Double
from tests.doubles.llamaserver import LlamaDouble
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool

pytest.register_assert_rewrite(
    "tests.doubles.pair.cluster",
    "tests.service.pairing",
    "tests.service.pair_contract",
    "tests.service.pair_contract_faults",
    "tests.service.pair_contract_fields",
)
BOUNDLESS: dict[str, Any] = {"thinking": {"max_cap": 1_000_000}, "context_window": 10_000_000}
MODELS = ["v-model", "s-model", "l-model"]


@pytest.fixture(scope="module")
def doubles(vllm: VllmDouble, sglang: SglangDouble, llama: LlamaDouble) -> dict[str, Double]:
    """By the name of their model."""
    return {double.model: double for double in (vllm, sglang, llama)}


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], doubles: dict[str, Double]) -> Gateway:
    vllm, sglang, llama = doubles.values()
    pools = {
        "vllm": pool(vllm, aliases=["v-alias"], **BOUNDLESS),
        "sglang": pool(sglang, **BOUNDLESS),
        "llama": pool(llama, **BOUNDLESS),
    }
    return gateway(config(pools)).wait_workers(3)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def double(model: str, doubles: dict[str, Double]) -> Double:
    """The double behind `model`."""
    return doubles[model]
