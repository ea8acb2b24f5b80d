"""Bytes of KV cache by model, held against published figures, and what is left of a GPU after the weights."""

from __future__ import annotations

import pytest

from budgets.kv import (
    MODELS,
    DoesNotFit,
    Dtype,
    Gpus,
    GroupedQuery,
    Model,
    Precision,
    Shape,
    UnknownModel,
    Weights,
    capacity,
    find,
)

DISTILL = "deepseek-ai/DeepSeek-R1-Distill-"


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("deepseek-ai/DeepSeek-R1", 70_272),
        (DISTILL + "Qwen-1.5B", 28_672),
        (DISTILL + "Qwen-7B", 57_344),
        (DISTILL + "Llama-8B", 131_072),
        (DISTILL + "Qwen-14B", 196_608),
        (DISTILL + "Qwen-32B", 262_144),
        ("Qwen/QwQ-32B", 262_144),
        ("Qwen/Qwen3-32B", 262_144),
        (DISTILL + "Llama-70B", 327_680),
        ("Qwen/Qwen3-0.6B", 114_688),
        ("Qwen/Qwen3-1.7B", 114_688),
        ("Qwen/Qwen3-4B", 147_456),
        ("Qwen/Qwen3-8B", 147_456),
        ("Qwen/Qwen3-14B", 163_840),  # 1,280 MiB for a context of 8,192, in a log of Ollama's (its issue 10927)
        ("Qwen/Qwen3-30B-A3B", 98_304),
        ("Qwen/Qwen3-235B-A22B", 192_512),
        ("openai/gpt-oss-20b", 49_152),
        ("openai/gpt-oss-120b", 73_728),
    ],
)
def test_bytes_of_a_token(name: str, bf16: int) -> None:
    shape = find(name).shape
    assert shape.token_bytes(Dtype.BF16) == bf16
    assert shape.token_bytes(Dtype.FP8) == bf16 // 2


@pytest.mark.parametrize(
    ("name", "parameters"),
    [  # as the models' pages tell them, which count the tensors of the checkpoint
        (DISTILL + "Qwen-1.5B", 1_777_088_000),
        (DISTILL + "Qwen-7B", 7_615_616_512),
        (DISTILL + "Qwen-14B", 14_770_033_664),
        (DISTILL + "Qwen-32B", 32_763_876_352),
        (DISTILL + "Llama-8B", 8_030_261_248),
        (DISTILL + "Llama-70B", 70_553_706_496),
        ("Qwen/Qwen3-0.6B", 596_049_920),
        ("Qwen/Qwen3-4B", 4_022_468_096),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-14B", 14_768_307_200),
        ("Qwen/Qwen3-32B", 32_762_123_264),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("Qwen/Qwen3-235B-A22B", 235_093_634_560),
        ("Qwen/Qwen2.5-3B-Instruct", 3_085_938_688),
    ],
)
def test_sizes_add_up_to_the_published_count(name: str, parameters: int) -> None:
    assert find(name).weights.parameters == parameters


def test_a_real_vllm_counts_the_same() -> None:
    """vLLM 0.32 on a CPU (block: 128) has 46,592 tokens in 1 GiB for SmolLM2-135M: 30 layers, 3 heads of 64."""
    smol = Model(Shape((GroupedQuery(30, 3, 64),)), Weights(0, 0))
    got = capacity(smol, Gpus(1, 1, 1), precision=Precision.BF16, dtype=Dtype.BF16, sequence=128)
    assert got.tokens // 128 * 128 == 46_592


def test_a_window_costs_no_more_once_it_is_full() -> None:
    shape = find("openai/gpt-oss-120b").shape
    assert shape.growth_bytes(Dtype.BF16) == 36_864
    longer = shape.sequence_bytes(4_096, Dtype.BF16) - shape.sequence_bytes(2_048, Dtype.BF16)
    assert longer == 2_048 * 36_864
    fixed = shape.sequence_bytes(32_768, Dtype.BF16) - 32_768 * 36_864
    assert 128 * 36_864 <= fixed <= (128 + 16) * 36_864, "the window, and the block it begins in"


def test_a_short_sequence_pays_for_all_layers_in_whole_blocks() -> None:
    shape = find("openai/gpt-oss-20b").shape
    assert shape.sequence_bytes(1, Dtype.BF16) == 16 * 49_152
    assert shape.sequence_bytes(0, Dtype.BF16) == 0


def test_heads_are_shared_out_and_latents_are_not() -> None:
    distill, r1 = find(DISTILL + "Qwen-7B").shape, find("deepseek-ai/DeepSeek-R1").shape
    assert [distill.token_bytes(Dtype.BF16, tp) for tp in (1, 2, 4, 8)] == [57_344, 28_672, 14_336, 14_336]
    assert r1.token_bytes(Dtype.FP8, 8) == r1.token_bytes(Dtype.FP8) == 35_136


def test_more_heads_than_fit_evenly_are_counted_on_the_fullest_gpu() -> None:
    assert Shape((GroupedQuery(1, 8, 1),)).token_bytes(Dtype.FP8, 3) == 2 * 3


def test_capacity_is_what_the_weights_leave() -> None:
    """By hand: 0.75 of 79.1 GiB less 61.03 / 2 GiB of weights, over 65,536 bytes a token on each of two GPUs."""
    got = capacity(
        find(DISTILL + "Qwen-32B"), Gpus(2, 79.1, 0.75), precision=Precision.BF16, dtype=Dtype.FP8, sequence=32_768
    )
    assert got.tokens == pytest.approx((0.75 * 79.1 - 61.027 / 2) * 2**30 / 65_536, rel=1e-4)
    assert got.sequences == got.tokens // 32_768
    assert got.tokens % 16 == 0


def test_r1_does_not_fit_eight_gpus_of_80_gb_and_fits_eight_of_141() -> None:
    model = find("deepseek-ai/DeepSeek-R1")
    how = {"precision": Precision.FP8_BLOCK, "dtype": Dtype.BF16, "sequence": 32_768}
    with pytest.raises(DoesNotFit, match=r"71\.1 GiB of each GPU are to hold 78\.\d GiB of weights"):
        capacity(model, Gpus(8, 79.1, 0.95, overhead=4), **how)
    assert capacity(model, Gpus(8, 139.8, 0.95, overhead=4), **how).sequences > 20


def test_quantisation_leaves_embeddings_alone() -> None:
    weights = find(DISTILL + "Qwen-7B").weights
    assert weights.size(Precision.BF16) == 2 * weights.parameters
    embeddings = 2 * 2 * 152_064 * 3_584
    assert weights.size(Precision.INT4) == pytest.approx(embeddings + weights.linear * 4.15625 / 8, rel=1e-3)


def test_a_name_that_is_not_known_brings_the_nearest() -> None:
    with pytest.raises(UnknownModel, match=r"nearest: .*DeepSeek-R1-Distill-Qwen-32B"):
        find("deepseek-ai/DeepSeek-R1-Destill-Qwen-32B")
    assert find("QWEN/qwen3-8b") is MODELS["Qwen/Qwen3-8B"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Gpus(0, 80, 0.9),
        lambda: Gpus(1, 80, 1.1),
        lambda: Gpus(1, 80, 0.0),
        lambda: Gpus(1, 80, 0.9, overhead=-1),
        lambda: MODELS["Qwen/Qwen3-8B"].shape.token_bytes(Dtype.FP8, 0),
        lambda: MODELS["Qwen/Qwen3-8B"].shape.sequence_bytes(-1, Dtype.FP8),
        lambda: capacity(
            MODELS["Qwen/Qwen3-8B"], Gpus(1, 80, 0.9), precision=Precision.BF16, dtype=Dtype.BF16, sequence=0
        ),
    ],
)
def test_nonsense_is_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=r"no such GPUs|GPU or more|tokens or more|token or more"):
        wrong()
