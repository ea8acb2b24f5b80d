#!/usr/bin/env bash
# DeepSeek-R1-Distill-Qwen-14B on vLLM, on one GPU of 24 GB: weights at 4 bits, KV cache at 8.
# DeepSeek publishes no AWQ weights. MODEL names yours: a folder, or a repository of somebody you trust.
set -euo pipefail

flags=(
  --model "${MODEL:?a folder or repository with AWQ weights of DeepSeek-R1-Distill-Qwen-14B}"
  --served-model-name deepseek-ai/DeepSeek-R1-Distill-Qwen-14B
  --host 0.0.0.0
  --port 8000
  --quantization awq_marlin
  --kv-cache-dtype fp8
  --max-model-len 16384
  --gpu-memory-utilization 0.9
  --reasoning-parser deepseek_r1
  --enable-prompt-tokens-details
  --shutdown-timeout 900
)
exec python3 -m vllm.entrypoints.openai.api_server "${flags[@]}" "$@"
