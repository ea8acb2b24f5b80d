"""Makes a model that vLLM can serve of a GGUF file: `make_model.py GGUF OUT`, run in vLLM's own venv.

vLLM's reasoning and tool parsers want their markers as single tokens, which this model was not taught: they are added,
and their rows are taken from words of a like meaning, so that what comes after one reads like text.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

LIKE = {
    "<think>": "Let",
    "</think>": "\n\n",
    "<tool_call>": "{",
    "</tool_call>": "}",
    "<tool_response>": "{",
    "</tool_response>": "}",
}
LOUDER = {"</think>": 1.04}
"""Said a little sooner than the word it is like: the model closes its thought where it would begin a paragraph."""
ROWS = 64
"""The vocabulary grows to a multiple of this."""
ENDS = ("<|im_end|>", "<|endoftext|>")


def main(gguf: Path, out: Path) -> None:
    folder, name = str(gguf.parent), gguf.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    # Left as it is, the quantized form would be kept, and cannot be saved.
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    ).to(torch.bfloat16)
    for holder, leftover in ((model.config, "quantization_config"), (model, "hf_quantizer")):
        if hasattr(holder, leftover):
            delattr(holder, leftover)

    known = model.get_input_embeddings().weight.data.clone()
    rows = {marker: known[tokenizer(word, add_special_tokens=False).input_ids].mean(0) for marker, word in LIKE.items()}
    tokenizer.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in LIKE])
    model.resize_token_embeddings(-(-len(tokenizer) // ROWS) * ROWS, mean_resizing=False)
    weights = model.get_input_embeddings().weight.data
    weights[len(known) :] = 0
    for marker, row in rows.items():
        weights[tokenizer.convert_tokens_to_ids(marker)] = row * LOUDER.get(marker, 1.0)

    ends = tokenizer.convert_tokens_to_ids(list(ENDS))
    model.generation_config.eos_token_id = ends
    model.generation_config.pad_token_id = ends[0]
    tokenizer.save_pretrained(out)
    model.save_pretrained(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
