"""Laws of KV arithmetic, for any shape and any memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, reject
from hypothesis import strategies as st

from budgets.kv import BLOCK, MODELS, Dtype, Gpus, GroupedQuery, Latent, Precision, Shape, capacity
from budgets.kv.capacity import GIB, DoesNotFit

DTYPES = st.sampled_from(Dtype)
GROUPS = st.builds(
    GroupedQuery,
    layers=st.integers(1, 128),
    kv_heads=st.integers(1, 64),
    head_dim=st.sampled_from([64, 80, 128, 256]),
    window=st.none() | st.integers(1, 8_192),
)
LATENTS = st.builds(Latent, layers=st.integers(1, 128), rank=st.integers(1, 1024), rope=st.integers(0, 128))
SHAPES = st.lists(GROUPS | LATENTS, min_size=1, max_size=3).map(lambda parts: Shape(tuple(parts)))
TOKENS = st.integers(0, 200_000)


@given(SHAPES, TOKENS, TOKENS, DTYPES)
def test_longer_never_costs_less_and_two_cost_no_less_than_one(shape: Shape, one: int, more: int, dtype: Dtype) -> None:
    both = shape.sequence_bytes(one + more, dtype)
    assert both >= shape.sequence_bytes(one, dtype)
    assert both <= shape.sequence_bytes(one, dtype) + shape.sequence_bytes(more, dtype)


@given(SHAPES, TOKENS, st.integers(1, 16))
def test_half_the_bytes_an_element_are_half_the_bytes(shape: Shape, tokens: int, tp: int) -> None:
    assert shape.sequence_bytes(tokens, Dtype.BF16, tp) == 2 * shape.sequence_bytes(tokens, Dtype.FP8, tp)


@given(SHAPES, TOKENS, DTYPES, st.integers(1, 16))
def test_all_gpus_together_hold_all(shape: Shape, tokens: int, dtype: Dtype, tp: int) -> None:
    alone, shared = shape.sequence_bytes(tokens, dtype), shape.sequence_bytes(tokens, dtype, tp)
    assert alone <= shared * tp
    assert shared <= alone


@given(SHAPES, TOKENS, DTYPES)
def test_a_sequence_lies_between_its_growth_and_its_layers(shape: Shape, tokens: int, dtype: Dtype) -> None:
    whole = -(-tokens // BLOCK) * BLOCK
    cost = shape.sequence_bytes(tokens, dtype)
    assert whole * shape.growth_bytes(dtype) <= cost <= whole * shape.token_bytes(dtype)


@given(
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(Precision),
    DTYPES,
    st.builds(Gpus, st.sampled_from([1, 2, 4, 8]), st.floats(16, 300), st.floats(0.3, 1), st.floats(0, 8)),
    st.integers(1, 131_072),
)
def test_what_fits_fits(name: str, precision: Precision, dtype: Dtype, gpus: Gpus, length: int) -> None:
    model = MODELS[name]
    try:
        got = capacity(model, gpus, precision=precision, dtype=dtype, sequence=length)
    except DoesNotFit:
        reject()
    used = model.weights.size(precision) / gpus.count
    used += got.sequences * model.shape.sequence_bytes(length, dtype, gpus.count)
    assert used <= (gpus.memory * gpus.utilisation - gpus.overhead) * GIB + 1
    assert got.sequences >= 1
    assert got.tokens // length >= got.sequences
    more = replace(gpus, memory=gpus.memory + 8)
    assert capacity(model, more, precision=precision, dtype=dtype, sequence=length).tokens >= got.tokens
