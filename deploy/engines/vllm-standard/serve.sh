#!/usr/bin/env bash
# Qwen2.5-3B-Instruct on vLLM, on one small GPU: the standard pool, for what needs no thought.
set -euo pipefail

flags=(
  --model "${MODEL:-Qwen/Qwen2.5-3B-Instruct}"
  --served-model-name Qwen/Qwen2.5-3B-Instruct
  --host 0.0.0.0
  --port 8000
  --max-model-len 32768
  --gpu-memory-utilization 0.9
  --enable-prompt-tokens-details
  --shutdown-timeout 300
)
exec python3 -m vllm.entrypoints.openai.api_server "${flags[@]}" "$@"
