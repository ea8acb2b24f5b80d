"""What engines say of their load: each engine's words, old and new, and nothing where they make no sense."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.config import EngineKind
from gateway.engines import DIALECTS
from gateway.engines.capabilities import Ask
from gateway.engines.load import Load

VLLM_NEW = """# HELP vllm:num_requests_running Number of requests.
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 77.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",engine="0",kv_cache_size_tokens="1000",num_gpu_blocks="62"} 1.0
vllm:cache_config_info{block_size="16",engine="1",kv_cache_size_tokens="1000",num_gpu_blocks="62"} 1.0
"""
VLLM_OLD = """vllm:num_requests_running{model_name="m"} 3.0
vllm:num_requests_waiting{model_name="m"} 0.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.125
vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0
"""
SGLANG_LOADS = {
    "loads": [
        {"dp_rank": 0, "num_running_reqs": 2, "num_waiting_reqs": 1, "token_usage": 0.5, "max_total_num_tokens": 600},
        {"dp_rank": 1, "num_running_reqs": 0, "num_waiting_reqs": 0, "token_usage": 0.0, "max_total_num_tokens": 600},
    ]
}
SGLANG_METRICS = """sglang:num_running_reqs{model_name="m"} 4.0
sglang:num_queue_reqs{model_name="m"} 1.0
sglang:token_usage{model_name="m"} 0.75
sglang:max_total_num_tokens{model_name="m"} 900.0
"""
SLOTS = [{"n_ctx": 512, "is_processing": True}, {"n_ctx": 512, "is_processing": False}]
LLAMA_METRICS = "llamacpp:requests_processing 2\nllamacpp:requests_deferred 5\nllamacpp:kv_cache_usage_ratio 0.5\n"


def asked(answers: Mapping[str, Any]) -> Ask:
    async def ask(method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        if path not in answers:
            return 404, b'{"detail":"Not Found"}'
        answer = answers[path]
        return 200, answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()

    return ask


@pytest.mark.parametrize(
    ("engine", "answers", "load"),
    [
        (EngineKind.VLLM, {"/metrics": VLLM_NEW}, Load(4, 2, 0.375, 2_000)),
        (EngineKind.VLLM, {"/metrics": VLLM_OLD}, Load(3, 0, 0.125, 1_600)),
        (EngineKind.VLLM, {"/metrics": VLLM_NEW.replace("\n", "\r\n")}, Load(4, 2, 0.375, 2_000)),
        (EngineKind.VLLM, {"/metrics": "vllm:num_requests_running 1"}, Load(1, 0)),
        (EngineKind.SGLANG, {"/v1/loads": SGLANG_LOADS}, Load(2, 1, 0.25, 1_200)),
        (EngineKind.SGLANG, {"/metrics": SGLANG_METRICS}, Load(4, 1, 0.75, 900)),
        (EngineKind.LLAMACPP, {"/slots": SLOTS}, Load(1, 0, 0.5, 1_024)),
        (EngineKind.LLAMACPP, {"/metrics": LLAMA_METRICS}, Load(2, 5, 0.5, None)),
        (EngineKind.OPENAI, {"/metrics": VLLM_NEW}, None),
    ],
)
async def test_each_engine_is_read_in_its_own_words(
    engine: EngineKind, answers: dict[str, Any], load: Load | None
) -> None:
    assert await DIALECTS[engine].load(asked(answers)) == load


@pytest.mark.parametrize(
    ("engine", "answers"),
    [
        (EngineKind.VLLM, {}),
        (EngineKind.VLLM, {"/metrics": "<html>no</html>"}),
        (EngineKind.VLLM, {"/metrics": 'vllm:num_requests_running{a="b"} NaN\n'}),
        (EngineKind.VLLM, {"/metrics": "vllm:num_requests_running{\nvllm:num_requests_running x\n"}),
        (EngineKind.SGLANG, {"/v1/loads": {"loads": []}}),
        (EngineKind.SGLANG, {"/v1/loads": {"loads": "many"}}),
        (EngineKind.LLAMACPP, {"/slots": {"error": "closed"}}),
        (EngineKind.LLAMACPP, {"/slots": "<html>"}),
    ],
)
async def test_what_makes_no_sense_is_not_known(engine: EngineKind, answers: dict[str, Any]) -> None:
    """Not known, and never idle."""
    assert await DIALECTS[engine].load(asked(answers)) is None
