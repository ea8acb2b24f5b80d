"""The tables of docs/sizing.md: what a token of context costs, and how many thoughts fit where, by `budgets.kv`.

What GPUs there are and what engines take for themselves are the recipes' (`recipes`).
"""

from __future__ import annotations

from dataclasses import dataclass

from budgets.kv import MODELS, DoesNotFit, Dtype, Gpus, Precision, capacity, find
from deploy.engines.recipes import DISTILL, H100, H200, HERE, L4, L40S, Gpu

PAGE = HERE.parents[1] / "docs" / "sizing.md"
GIB = 1024**3
LENGTHS = (2_048, 8_192, 32_768)
"""Tokens of prompt, thought and answer."""
UTILISATION = 0.9
"""vLLM's default of `--gpu-memory-utilization`."""
OVERHEADS = {1: 2.5, 2: 4.0, 4: 6.0, 8: 8.0}
"""GiB of each GPU that are taken to be neither weights nor cache, by the GPUs that share a layer; as in the recipes."""
WRITTEN = {
    Precision.BF16: "16 bits",
    Precision.FP8: "FP8",
    Precision.FP8_BLOCK: "FP8",
    Precision.INT4: "4 bits",
    Precision.MXFP4: "MXFP4",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """A model on GPUs. `dtype` is its cache's."""

    model: str
    gpu: Gpu
    gpus: int = 1
    precision: Precision = Precision.BF16
    dtype: Dtype = Dtype.BF16


SETUPS = (
    Setup(DISTILL + "7B", L4),
    Setup(DISTILL + "7B", L40S),
    Setup(DISTILL + "14B", L4, precision=Precision.INT4, dtype=Dtype.FP8),
    Setup(DISTILL + "14B", L40S, precision=Precision.FP8, dtype=Dtype.FP8),
    Setup("Qwen/Qwen3-8B", L40S),
    Setup("Qwen/Qwen3-30B-A3B", H100),
    Setup("Qwen/Qwen3-32B", H100, precision=Precision.FP8),
    Setup(DISTILL + "32B", H100, 2),
    Setup(DISTILL + "32B", H100, 2, dtype=Dtype.FP8),
    Setup("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", H100, 4),
    Setup("Qwen/Qwen3-235B-A22B", H200, 8),
    Setup("openai/gpt-oss-20b", L40S, precision=Precision.MXFP4),
    Setup("openai/gpt-oss-120b", H100, precision=Precision.MXFP4),
    Setup("deepseek-ai/DeepSeek-R1", H200, 8, Precision.FP8_BLOCK),
    Setup("deepseek-ai/DeepSeek-R1", H200, 8, Precision.FP8_BLOCK, Dtype.FP8),
)  # fmt: skip


def with_tables(page: str) -> str:
    """The page with its tables made anew. Raises ValueError where it has no place for one."""
    for name, lines in (("tokens", _tokens()), ("setups", _setups())):
        begin, end = (f"<!-- {mark}{name}: made by `python -m deploy.engines`. -->" for mark in ("", "/"))
        before, found, rest = page.partition(f"{begin}\n")
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"the page has no {begin} … {end}")
        page = before + begin + "\n" + "\n".join(lines) + "\n" + end + after
    return page


def _tokens() -> list[str]:
    """One row for models of one shape."""
    rows = ["| model | bytes a token, 16 bits | FP8 | GiB of a thought of 8,192 | of 32,768 |", "|---|---|---|---|---|"]
    shapes = {model.shape: [name for name in MODELS if MODELS[name].shape == model.shape] for model in MODELS.values()}
    for shape, names in shapes.items():
        shown = ", ".join(name.rpartition("/")[2] for name in names)
        costs = " | ".join(f"{shape.token_bytes(dtype):,}" for dtype in Dtype)
        held = " | ".join(f"{shape.sequence_bytes(length, Dtype.BF16) / GIB:.2f}" for length in LENGTHS[1:])
        rows.append(f"| {shown} | {costs} | {held} |")
    return rows


def _setups() -> list[str]:
    at_once = " | ".join(f"of {length:,}" for length in LENGTHS)
    head = ["| model | weights | KV cache | GPUs | tokens held |", "|---|---|---|---|---|"]
    rows = [f"{head[0]} {at_once} |", head[1] + "---|" * len(LENGTHS)]
    for setup in SETUPS:
        counts = " | ".join(str(held(setup, length)[1]) for length in LENGTHS)
        name, cache = (
            setup.model.rpartition("/")[2],
            WRITTEN[Precision.BF16 if setup.dtype is Dtype.BF16 else Precision.FP8],
        )
        place = f"{setup.gpus} × {setup.gpu.name}"
        rows.append(
            f"| {name} | {WRITTEN[setup.precision]} | {cache} | {place} | {held(setup, LENGTHS[1])[0]:,} | {counts} |"
        )
    return rows


def held(setup: Setup, length: int) -> tuple[int, int]:
    """(tokens, to two digits; sequences of this length at once), as estimated; zeros where not one fits."""
    gpus = Gpus(setup.gpus, setup.gpu.memory, UTILISATION, OVERHEADS[setup.gpus])
    try:
        found = capacity(find(setup.model), gpus, precision=setup.precision, dtype=setup.dtype, sequence=length)
    except DoesNotFit:
        return 0, 0
    return round(found.tokens, 2 - len(str(found.tokens))), found.sequences
