#!/usr/bin/env bash
# DeepSeek-R1-Distill-Qwen-32B on SGLang, on two GPUs of one machine.
set -euo pipefail

flags=(
  --model-path "${MODEL:-deepseek-ai/DeepSeek-R1-Distill-Qwen-32B}"
  --served-model-name deepseek-ai/DeepSeek-R1-Distill-Qwen-32B
  --trust-remote-code
  --host 0.0.0.0
  --port 30000
  --tp-size 2
  --context-length 32768
  --reasoning-parser deepseek-r1
  --kv-cache-dtype fp8_e4m3   # twice the thoughts in the same memory
  --mem-fraction-static 0.75  # weights and KV cache; the rest is for activations, graphs and peaks of prefill
  --enable-metrics
)
exec python3 -m sglang.launch_server "${flags[@]}" "$@"
