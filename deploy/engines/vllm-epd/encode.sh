#!/usr/bin/env bash
# Qwen3-VL-8B-Thinking on vLLM: turns pictures into embeddings, which the prefill workers read from a shared folder.
set -euo pipefail

flags=(
  --model "${MODEL:-Qwen/Qwen3-VL-8B-Thinking}"
  --served-model-name Qwen/Qwen3-VL-8B-Thinking
  --host 0.0.0.0
  --port 8000
  --max-model-len 32768
  --gpu-memory-utilization 0.9
  --enforce-eager
  --no-enable-prefix-caching     # it has no text whose prefix could come again
  --max-num-batched-tokens 32768
  --limit-mm-per-prompt '{"image": 4}'  # at least encode_batch in pool.yaml
  --ec-transfer-config '{"ec_connector": "ECExampleConnector", "ec_role": "ec_producer", "ec_connector_extra_config": {"shared_storage_path": "/embeddings"}}'
  --shutdown-timeout 300
)
exec python3 -m vllm.entrypoints.openai.api_server "${flags[@]}" "$@"
