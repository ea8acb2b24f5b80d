#!/usr/bin/env bash
# DeepSeek-R1 671B on vLLM, on the eight GPUs of one machine. Its FP8 weights do not fit eight GPUs of 80 GB.
set -euo pipefail

flags=(
  --model "${MODEL:-deepseek-ai/DeepSeek-R1}"
  --served-model-name deepseek-ai/DeepSeek-R1
  --host 0.0.0.0
  --port 8000
  --tensor-parallel-size 8
  --enable-expert-parallel      # whole experts on each GPU, instead of an eighth of each
  --max-model-len 32768
  --gpu-memory-utilization 0.95
  --reasoning-parser deepseek_r1
  --enable-prompt-tokens-details
  --shutdown-timeout 900        # without it, SIGTERM ends every stream at once
)
exec python3 -m vllm.entrypoints.openai.api_server "${flags[@]}" "$@"
