"""The shapes of `budgets.kv` against the configurations that Hugging Face's transformers, beside vLLM, has by default:
those of DeepSeek-V3 (whose shape R1 has) and gpt-oss-120b."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from budgets.kv import GroupedQuery, Latent, find
from tests.engines.install_vllm import Installation

TELL = """
import json, sys
from transformers import DeepseekV3Config, GptOssConfig
json.dump([DeepseekV3Config().to_dict(), GptOssConfig().to_dict()], sys.stdout, default=str)
"""


@pytest.fixture(scope="module")
def published() -> list[dict[str, Any]]:
    installation = Installation()
    if not installation.is_complete:
        pytest.skip("vLLM is not installed: run `make test-engines`")
    command = [str(installation.python), "-c", TELL]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=installation.home)
    found: list[dict[str, Any]] = json.loads(told.stdout)
    return found


def test_deepseek(published: list[dict[str, Any]]) -> None:
    config = published[0]
    model = find("deepseek-ai/DeepSeek-R1")
    assert model.shape.parts == (
        Latent(config["num_hidden_layers"], config["kv_lora_rank"], config["qk_rope_head_dim"]),
    )
    assert model.weights.other == 2 * config["vocab_size"] * config["hidden_size"]


def test_gpt_oss(published: list[dict[str, Any]]) -> None:
    config = published[1]
    kinds = config["layer_types"]
    heads, width = config["num_key_value_heads"], config["head_dim"]
    assert find("openai/gpt-oss-120b").shape.parts == (
        GroupedQuery(kinds.count("full_attention"), heads, width),
        GroupedQuery(kinds.count("sliding_attention"), heads, width, window=config["sliding_window"]),
    )
