#!/usr/bin/env bash
# DeepSeek-R1-Distill-Qwen-32B on SGLang, the prefill half of a pair that moves its KV cache over RDMA with Mooncake.
set -euo pipefail

# The HCA next to these GPUs (nvidia-smi topo -m, ibv_devices). On RoCE v2 also the index of its IPv4 GID (show_gids).
device="${RDMA_DEVICE:?an RDMA device such as mlx5_0, or tcp to do without, slowly}"
export MC_GID_INDEX="${RDMA_GID_INDEX:-3}"
if [ "$device" = tcp ]; then
  transfer=(--disaggregation-transfer-backend mooncake_tcp)
else
  transfer=(--disaggregation-transfer-backend mooncake --disaggregation-ib-device "$device")
fi

flags=(
  --model-path "${MODEL:-deepseek-ai/DeepSeek-R1-Distill-Qwen-32B}"
  --served-model-name deepseek-ai/DeepSeek-R1-Distill-Qwen-32B
  --trust-remote-code
  --host 0.0.0.0
  --port 30000
  --tp-size 2
  --context-length 32768
  --reasoning-parser deepseek-r1
  --mem-fraction-static 0.8
  --disaggregation-mode prefill
  --disaggregation-bootstrap-port 8998  # where decode workers ask for the way to a cache
  "${transfer[@]}"
  --enable-metrics
)
exec python3 -m sglang.launch_server "${flags[@]}" "$@"
