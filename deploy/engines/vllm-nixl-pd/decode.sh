#!/usr/bin/env bash
# DeepSeek-R1-Distill-Qwen-32B on vLLM: fetches the KV cache of prompts from the prefill workers over NIXL, and generates.
set -euo pipefail

# Other workers connect to this address and port, so it cannot be a loopback or a wildcard.
export VLLM_NIXL_SIDE_CHANNEL_HOST="${POD_IP:?the address of this machine that the other workers reach}"
export VLLM_NIXL_SIDE_CHANNEL_PORT=5600
# The network device next to these GPUs (nvidia-smi topo -m). Unset, UCX takes what it finds: maybe the slow one.
export UCX_NET_DEVICES="${RDMA_DEVICE:-all}"

flags=(
  --model "${MODEL:-deepseek-ai/DeepSeek-R1-Distill-Qwen-32B}"
  --served-model-name deepseek-ai/DeepSeek-R1-Distill-Qwen-32B
  --host 0.0.0.0
  --port 8000
  --tensor-parallel-size 2
  --max-model-len 32768
  --gpu-memory-utilization 0.9
  --reasoning-parser deepseek_r1
  --block-size 16       # the same on both sides, like the model and the data type of the cache
  --kv-cache-dtype auto
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_consumer", "kv_load_failure_policy": "recompute"}'
  --enable-prompt-tokens-details
  --shutdown-timeout 900
)
exec python3 -m vllm.entrypoints.openai.api_server "${flags[@]}" "$@"
