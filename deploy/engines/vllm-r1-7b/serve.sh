#!/usr/bin/env bash
# DeepSeek-R1-Distill-Qwen-7B on vLLM, on one GPU, with speculative decoding: guesses are looked up in the text so far, which
# a thought that quotes its own sums repeats often, and need no second model.
set -euo pipefail

flags=(
  --model "${MODEL:-deepseek-ai/DeepSeek-R1-Distill-Qwen-7B}"
  --served-model-name deepseek-ai/DeepSeek-R1-Distill-Qwen-7B
  --host 0.0.0.0
  --port 8000
  --max-model-len 32768
  --gpu-memory-utilization 0.9
  --reasoning-parser deepseek_r1
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'
  --enable-prompt-tokens-details
  --shutdown-timeout 900
)
exec python3 -m vllm.entrypoints.openai.api_server "${flags[@]}" "$@"
