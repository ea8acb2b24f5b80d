"""The table of recipes in README.md, with what `budgets.kv` says of each."""

from __future__ import annotations

from budgets.kv import find
from deploy.engines.recipes import HERE, WORKERS, Worker

README = HERE / "README.md"
BEGIN = "<!-- Below: made by `python -m deploy.engines`. -->\n"
END = "<!-- Above: made by `python -m deploy.engines`. -->\n"
GIB = 1024**3


def with_table(page: str) -> str:
    """The page with its table made anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    rows = [
        "| script | GPUs | weights a GPU | KV bytes a token and GPU | KV cache | at once |",
        "|---|---|---|---|---|---|",
        *map(_row, WORKERS),
    ]
    return before + BEGIN + "\n" + "\n".join(rows) + "\n\n" + END + after


def _row(worker: Worker) -> str:
    model = find(worker.model)
    weights = model.weights.size(worker.precision) / worker.gpus / GIB
    link = f"[{worker.recipe}/{worker.script.name}]({worker.recipe}/{worker.script.name})"
    start = f"| {link} | {worker.gpus} × {worker.gpu.name} | {weights:.1f} GiB | "
    if worker.is_encoder:
        return start + "– | – | – |"
    held = worker.held()
    a_token = model.shape.token_bytes(worker.dtype, worker.gpus)
    # Two digits are as much as the guess of the overhead is worth.
    tokens = round(held.tokens, 2 - len(str(held.tokens)))
    return start + f"{a_token:,} | {tokens:,} tokens | {held.sequences} of {worker.sequence:,} |"
