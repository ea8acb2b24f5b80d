"""Every shape of loop is found, by the right name and in time, and where it began is told."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.loops.prose import Half
from benchmarks.loops.scoring import PROMPTLY, find
from benchmarks.loops.shapes import EXACT, FIRST, LOOSE, shapes
from budgets.loops import Finding, Kind
from budgets.loops.pieces import split_pieces

SHAPES = shapes(Half.REPORT)
REDERIVED = [name for name in LOOSE if "re-derivation" in name]
FLOODS = {
    FIRST: Kind.FIRST_TOKEN_FLOOD,
    "character flood": Kind.CHARACTER_FLOOD,
    "whitespace flood": Kind.WHITESPACE_FLOOD,
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_exact_loop_is_found_promptly_and_trimmed_to_one_copy(name: str, seed: int) -> None:
    sample = SHAPES[name](Random(seed), 8_000)
    finding = find(sample.text)
    assert finding is not None
    assert finding.kind is FLOODS.get(name, Kind.EXACT)
    assert abs(finding.onset - sample.onset) <= 64  # what stands before may end as the unit does
    second = sample.onset + 2 * sample.unit
    delay = len(split_pieces(sample.text[second : finding.at]))
    assert delay <= PROMPTLY or finding.at <= second + sample.unit + 128
    assert finding.keep - finding.onset == finding.period
    assert finding.period in {1, sample.unit}
    assert finding.confidence > 0.8


@pytest.mark.parametrize("name", [name for name in LOOSE if name not in REDERIVED])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_loose_loop_is_found_before_eight_kilobytes(name: str, seed: int) -> None:
    sample = SHAPES[name](Random(seed), 8_000)
    finding = find(sample.text)
    assert finding is not None
    assert finding.at > sample.onset
    assert finding.onset <= finding.keep <= finding.at
    assert finding.onset < sample.onset + 4_096


@pytest.mark.parametrize("name", REDERIVED)
def test_at_least_half_of_the_rederivations_are_found(name: str) -> None:
    samples = [SHAPES[name](Random(seed), 12_000) for seed in range(8)]
    found = [(sample, finding) for sample in samples if (finding := find(sample.text))]
    assert len(found) >= 4
    for sample, finding in found:
        assert finding.kind is Kind.NEAR_COPIES
        assert _keeps_about_one_copy(finding, sample.onset)


def _keeps_about_one_copy(finding: Finding, onset: int) -> bool:
    return onset - 1_024 <= finding.onset <= onset + 2_048 and finding.keep <= onset + 2 * finding.period + 2_048
