"""What each launch script needs: GPUs, memory, how weights and cache are stored. A test holds this to the flags.

How engines are started stands in the scripts, what the gateway makes of them in each `pool.yaml`. From this come the
Kubernetes manifests and the table in README.md (`python -m deploy.engines`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from budgets.kv import Capacity, Dtype, Gpus, Precision, capacity, find

HERE = Path(__file__).parent
DISTILL = "deepseek-ai/DeepSeek-R1-Distill-Qwen-"
IMAGES = {"vllm": "vllm/vllm-openai:v0.32.0", "sglang": "lmsysorg/sglang:v0.5.23"}
"""The releases whose flags the scripts were checked against."""
PORTS = {"vllm": 8000, "sglang": 30_000}
MODELS = "/models"
"""Where manifests and compose.yaml mount what is kept: weights, and what the engines compile."""
_KERNELS = f"{MODELS}/.cache"
CACHES = {
    "vllm": {
        "HF_HOME": MODELS,
        "XDG_CACHE_HOME": _KERNELS,
        "TRITON_CACHE_DIR": f"{_KERNELS}/triton",
        "FLASHINFER_WORKSPACE_BASE": MODELS,  # FlashInfer adds `.cache/flashinfer`
    },
    "sglang": {
        "HF_HOME": MODELS,
        "XDG_CACHE_HOME": _KERNELS,
        "SGLANG_CACHE_DIR": f"{_KERNELS}/sglang",
        "SGLANG_JIT_CACHE_DIR": f"{_KERNELS}/sglang/jit",
    },
}
"""What brings weights and kernels there, by engine. vLLM puts its own, Inductor's and DeepGEMM's below XDG_CACHE_HOME
(`vllm/envs.py`, 0.32); SGLang asks for none of that, and puts Triton's, Inductor's, FlashInfer's and DeepGEMM's below
SGLANG_CACHE_DIR (`third_party_cache_defaults` in `sglang/srt/environ.py`, 0.5.23), but not what it compiles itself.
"""


@dataclass(frozen=True, slots=True)
class Gpu:
    """`memory`: GiB as torch tells it. `product`: the label that NVIDIA's feature discovery gives to nodes."""

    name: str
    product: str
    memory: float


H200 = Gpu("H200 141 GB", "NVIDIA-H200", 139.8)
H100 = Gpu("H100 80 GB", "NVIDIA-H100-80GB-HBM3", 79.1)
L40S = Gpu("L40S 48 GB", "NVIDIA-L40S", 44.4)
L4 = Gpu("L4 24 GB", "NVIDIA-L4", 22.0)


@dataclass(frozen=True, slots=True)
class Worker:
    """One launch script. `model`: whose shape it has. `utilisation`: as in its flags. `overhead`: GiB of one GPU that
    are taken to be neither weights nor cache, within `utilisation`. `sequence`: tokens of prompt, thought and answer.
    `drain`: seconds it may go on after SIGTERM. `start`: seconds until it must serve."""

    recipe: str
    role: str
    engine: str
    model: str
    gpu: Gpu
    gpus: int = 1
    precision: Precision = Precision.BF16
    dtype: Dtype = Dtype.BF16
    utilisation: float = 0.9
    overhead: float = 2.5
    sequence: int = 16_384
    drain: int = 900
    start: int = 1_800
    rdma: bool = False
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        return self.recipe if self.role == "serve" else f"{self.recipe}-{self.role}"

    @property
    def folder(self) -> Path:
        return HERE / self.recipe

    @property
    def script(self) -> Path:
        return self.folder / f"{self.role}.sh"

    @property
    def is_encoder(self) -> bool:
        return self.role == "encode"

    def held(self) -> Capacity:
        """What is left for its KV cache, as estimated. Raises DoesNotFit."""
        gpus = Gpus(self.gpus, self.gpu.memory, self.utilisation, self.overhead)
        return capacity(find(self.model), gpus, precision=self.precision, dtype=self.dtype, sequence=self.sequence)


def _sglang_pair(role: str) -> Worker:
    environment = {"RDMA_DEVICE": "mlx5_0"}
    return Worker(
        "sglang-pd-rdma", role, "sglang", DISTILL + "32B", H100, 2,
        utilisation=0.8, overhead=0, rdma=True, environment=environment,
    )  # fmt: skip


WORKERS = (
    Worker("sglang-r1-32b", "serve", "sglang", DISTILL + "32B", H100, 2, dtype=Dtype.FP8, utilisation=0.75, overhead=0),
    Worker(
        "vllm-r1-671b", "serve", "vllm", "deepseek-ai/DeepSeek-R1", H200, 8, Precision.FP8_BLOCK,
        utilisation=0.95, overhead=8, start=3_600,
    ),
    Worker("vllm-r1-7b", "serve", "vllm", DISTILL + "7B", L40S),
    Worker("vllm-r1-14b-fp8", "serve", "vllm", DISTILL + "14B", L40S, precision=Precision.FP8, dtype=Dtype.FP8),
    Worker(
        "vllm-r1-14b-awq", "serve", "vllm", DISTILL + "14B", L4, precision=Precision.INT4, dtype=Dtype.FP8,
        sequence=8_192, environment={"MODEL": "/models/r1-distill-qwen-14b-awq"},
    ),
    Worker("vllm-nixl-pd", "prefill", "vllm", DISTILL + "32B", H100, 2, overhead=4),
    Worker("vllm-nixl-pd", "decode", "vllm", DISTILL + "32B", H100, 2, overhead=4),
    _sglang_pair("prefill"),
    _sglang_pair("decode"),
    # Qwen3-VL-8B has the decoder of Qwen3-8B; its vision tower, 0.6 B parameters, is in the overhead.
    Worker("vllm-epd", "encode", "vllm", "Qwen/Qwen3-8B", L40S, overhead=4, drain=300),
    Worker("vllm-epd", "prefill", "vllm", "Qwen/Qwen3-8B", L40S, overhead=4),
    Worker("vllm-epd", "decode", "vllm", "Qwen/Qwen3-8B", L40S, overhead=4),
    Worker("vllm-standard", "serve", "vllm", "Qwen/Qwen2.5-3B-Instruct", L4, sequence=4_096, drain=300),
)  # fmt: skip
RECIPES = tuple(dict.fromkeys(worker.recipe for worker in WORKERS))
