"""Names to records, and where an output starts."""

import pytest

from parsers import FORMATS, Start, UnknownFormat, detect, lookup, resolve_start


def test_every_id_and_alias_means_one_record() -> None:
    names = [name for record in FORMATS for name in {record.id, *record.aliases}]
    assert len(names) == len(set(names))
    assert all(lookup(name) is record for record in FORMATS for name in (record.id, *record.aliases))


@pytest.mark.parametrize(
    ("name", "record_id"),
    [
        ("deepseek-r1", "deepseek_r1"),
        ("DeepSeek_R1", "deepseek_r1"),
        ("step3", "deepseek_r1"),
        ("qwen3-thinking", "qwen3_thinking"),
        ("nemotron_3", "nemotron_v3"),
        ("minimax-append-think", "minimax_m2"),
        ("granite_thinking_parser", "granite_thinking"),
        ("think", "think"),
        ("none", "none"),
    ],
)
def test_engine_parser_names_are_known(name: str, record_id: str) -> None:
    assert lookup(name).id == record_id


def test_unknown_name_says_what_is_near() -> None:
    with pytest.raises(UnknownFormat, match="qwen3") as caught:
        lookup("qwen-3")
    assert "qwen3" in caught.value.nearest
    with pytest.raises(UnknownFormat, match=r"'zzzzzzzz'$"):
        lookup("zzzzzzzz")


@pytest.mark.parametrize(
    ("model", "record_id"),
    [
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "deepseek_r1"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "deepseek_r1"),
        ("unsloth/DeepSeek-R1-Distill-Llama-8B-GGUF:Q4_K_M", "deepseek_r1"),
        ("Qwen/QwQ-32B-AWQ", "deepseek_r1"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek_v3"),
        ("deepseek-ai/DeepSeek-V3-0324", "none"),
        ("deepseek-ai/DeepSeek-V4-Flash", "deepseek_v4"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("qwen/qwen3-0.6b-fp8", "qwen3"),
        ("bartowski/Qwen_Qwen3-8B-GGUF", "qwen3"),
        ("/models/Qwen3-32B-AWQ/", "qwen3"),
        ("Qwen/Qwen3-8B-Base", "none"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3_thinking"),
        ("Qwen/Qwen3-4B-Instruct-2507", "none"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "none"),
        ("Qwen/Qwen3-Embedding-0.6B", "none"),
        ("Qwen/Qwen3.5-27B", "qwen3_thinking"),
        ("Qwen/Qwen2.5-7B-Instruct", "none"),
        ("zai-org/GLM-4.5-Air", "glm45"),
        ("zai-org/GLM-4.7-Flash", "glm47"),
        ("zai-org/GLM-5-FP8", "glm47"),
        ("zai-org/GLM-5.3", "glm53"),
        ("moonshotai/Kimi-K2-Thinking", "kimi_k2"),
        ("moonshotai/Kimi-K2-Instruct", "none"),
        ("moonshotai/Kimi-K2.5", "kimi_k25"),
        ("MiniMaxAI/MiniMax-M2.7", "minimax_m2"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron_v3"),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nemotron_v3"),
        ("allenai/Olmo-3-7B-Think", "olmo3"),
        ("allenai/Olmo-3-7B-Instruct", "none"),
        ("stepfun-ai/Step-3.5-Flash", "step3p5"),
        ("stepfun-ai/step3", "deepseek_r1"),
        ("Hcompany/Holo2-8B", "holo2"),
        ("meta-llama/Llama-3.1-8B-Instruct", "none"),
        ("", "none"),
    ],
)
def test_model_names_suggest_a_record(model: str, record_id: str) -> None:
    assert detect(model).id == record_id


@pytest.mark.parametrize(
    ("name", "thinking", "start"),
    [
        ("think", None, Start.OPEN),
        ("think", False, Start.OFF),
        ("qwen3", None, Start.CLOSED),
        ("qwen3", True, Start.CLOSED),
        ("deepseek_v3", None, Start.OFF),
        ("deepseek_v3", True, Start.OPEN),
        ("none", True, Start.OFF),
    ],
)
def test_start_by_request_and_record(name: str, thinking: bool | None, start: Start) -> None:
    assert resolve_start(lookup(name), thinking=thinking) is start


@pytest.mark.parametrize("name", ["deepseek_r1", "glm53"])
def test_no_switch_no_off(name: str) -> None:
    assert resolve_start(lookup(name), thinking=False) is Start.OPEN


def test_request_before_pin_before_tail_before_record() -> None:
    qwen3 = lookup("qwen3")
    assert resolve_start(qwen3, thinking=False, pinned=Start.OPEN, prompt_tail="<think>\n") is Start.OFF
    assert resolve_start(qwen3, thinking=True, pinned=Start.OPEN, prompt_tail="</think>") is Start.OPEN
    assert resolve_start(qwen3, thinking=None, pinned=Start.OFF, prompt_tail="<think>") is Start.OFF
    assert resolve_start(qwen3, thinking=None, prompt_tail="<think>") is Start.OPEN
    assert resolve_start(qwen3, thinking=None) is Start.CLOSED


def test_a_yes_overrules_a_pin_that_says_off() -> None:
    assert resolve_start(lookup("think"), thinking=True, pinned=Start.OFF) is Start.OPEN


@pytest.mark.parametrize(
    ("tail", "start"),
    [
        ("…<|im_start|>assistant\n<think>\n", Start.OPEN),
        ("…<|im_start|>assistant\n<think>\n\n</think>\n\n", Start.CLOSED),
        ("…<|im_start|>assistant\n<think>\nhalf a thought", Start.OPEN),
        ("…<|im_start|>assistant\n<think>\nr\n</think>\n\nhalf an ans", Start.CLOSED),
        ("explain <think>.<|im_end|>\n<|im_start|>assistant\n", Start.CLOSED),
        ("…what does <think> do?", Start.CLOSED),
        ("…<｜Assistant｜></think>", Start.CLOSED),
        ("…</think>", Start.CLOSED),
        ("", Start.CLOSED),
    ],
)
def test_prompt_tail(tail: str, start: Start) -> None:
    assert resolve_start(lookup("qwen3"), thinking=None, prompt_tail=tail) is start
