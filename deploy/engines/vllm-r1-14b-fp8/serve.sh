#!/usr/bin/env bash
# DeepSeek-R1-Distill-Qwen-14B on vLLM, on one GPU of 48 GB: weights and KV cache at 8 bits, quantised while they load, and
# speculative decoding as in vllm-r1-7b. The GPU must know FP8: Ada, Hopper or newer.
set -euo pipefail

flags=(
  --model "${MODEL:-deepseek-ai/DeepSeek-R1-Distill-Qwen-14B}"
  --served-model-name deepseek-ai/DeepSeek-R1-Distill-Qwen-14B
  --host 0.0.0.0
  --port 8000
  --quantization fp8
  --kv-cache-dtype fp8
  --max-model-len 32768
  --gpu-memory-utilization 0.9
  --reasoning-parser deepseek_r1
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'
  --enable-prompt-tokens-details
  --shutdown-timeout 900
)
exec python3 -m vllm.entrypoints.openai.api_server "${flags[@]}" "$@"
