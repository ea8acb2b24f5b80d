#!/usr/bin/env bash
# Qwen3-VL-8B-Thinking on vLLM: the prefill half of a pair behind an encoder.
set -euo pipefail

export VLLM_NIXL_SIDE_CHANNEL_HOST="${POD_IP:?the address of this machine that the other workers reach}"
export VLLM_NIXL_SIDE_CHANNEL_PORT=5600
export UCX_NET_DEVICES="${RDMA_DEVICE:-all}"

flags=(
  --model "${MODEL:-Qwen/Qwen3-VL-8B-Thinking}"
  --served-model-name Qwen/Qwen3-VL-8B-Thinking
  --host 0.0.0.0
  --port 8000
  --max-model-len 32768
  --gpu-memory-utilization 0.9
  --reasoning-parser qwen3
  --limit-mm-per-prompt '{"image": 4}'
  --enable-mm-embeds
  --block-size 16
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_producer", "kv_load_failure_policy": "fail"}'
  --ec-transfer-config '{"ec_connector": "ECExampleConnector", "ec_role": "ec_consumer", "ec_connector_extra_config": {"shared_storage_path": "/embeddings"}}'
  --enable-prompt-tokens-details
  --shutdown-timeout 900
)
exec python3 -m vllm.entrypoints.openai.api_server "${flags[@]}" "$@"
