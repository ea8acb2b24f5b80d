"""The detector as its users see it: states, findings, ropes, and what never happens."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields

import pytest

from benchmarks.loops.prose import Half, Source
from budgets.loops import Channel, Finding, Kind, LoopDetector, LoopState
from budgets.loops.detector import BLOCK

HEALTHY = Source(7, Half.REPORT).prose(3_000)
SENTENCE = "Wait, let me reconsider whether the third option could hold. "


def found(text: str, channel: Channel = Channel.REASONING, *, asked: bool = False, patience: float = 1.0) -> Finding:
    detector = LoopDetector(channel, asked_for_repetition=asked, patience=patience)
    detector.feed(text)
    assert detector.finding is not None
    return detector.finding


def test_a_healthy_thought_is_ok_throughout() -> None:
    detector = LoopDetector()
    assert {detector.feed(HEALTHY[at : at + 5]) for at in range(0, len(HEALTHY), 5)} == {LoopState.OK}
    assert detector.finding is None
    assert detector.seen == len(HEALTHY) - len(HEALTHY) % BLOCK


def test_a_loop_is_suspect_before_it_is_one_and_then_it_stays_one() -> None:
    detector = LoopDetector()
    detector.feed(HEALTHY)
    states = [detector.feed(SENTENCE) for _ in range(40)]
    assert sorted(states) == states
    assert set(states) == {LoopState.OK, LoopState.SUSPECT, LoopState.LOOP}
    first = detector.finding
    assert detector.feed(HEALTHY * 3) is LoopState.LOOP
    assert detector.finding is first


def test_a_finding_says_where_to_trim() -> None:
    text = HEALTHY + SENTENCE * 30
    finding = found(text)
    assert (finding.kind, finding.channel, finding.period) == (Kind.EXACT, Channel.REASONING, len(SENTENCE))
    assert text[: finding.keep].count(SENTENCE) == 1
    assert text[finding.onset : finding.keep] in SENTENCE + SENTENCE
    assert finding.copies == pytest.approx((finding.at - finding.onset) / finding.period)
    assert finding.period_tokens == round(len(SENTENCE) / 4)


def test_a_suspicion_that_comes_to_nothing_is_forgotten() -> None:
    detector = LoopDetector()
    detector.feed(HEALTHY + SENTENCE * 6)
    assert detector.state is LoopState.SUSPECT
    detector.feed(Source(8, Half.REPORT).prose(3_000))
    assert detector.state is LoopState.OK


def test_a_finding_quotes_nothing() -> None:
    finding = found(HEALTHY + "The secret word is xyzzy-plugh. " * 40)
    for told in fields(finding):
        assert "xyzzy" not in str(getattr(finding, told.name))


def test_a_fingerprint_is_the_units_wherever_it_begins() -> None:
    prints = {found(HEALTHY[:cut] + SENTENCE * 40).fingerprint for cut in (0, 100, 333, 1_001)}
    assert len(prints) == 1
    assert prints != {found("Another sentence that goes round and round. " * 40).fingerprint}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("!" * 200, Kind.FIRST_TOKEN_FLOOD),
        ("\n\n" + "!" * 200, Kind.FIRST_TOKEN_FLOOD),
        ("! " * 400, Kind.FIRST_TOKEN_FLOOD),
        ("b\n" * 400, Kind.FIRST_TOKEN_FLOOD),
        (HEALTHY + "!" * 500, Kind.CHARACTER_FLOOD),
        ("-" * 2_000, Kind.CHARACTER_FLOOD),
        ("\n" * 300, Kind.WHITESPACE_FLOOD),
        (HEALTHY + " \t" * 400, Kind.WHITESPACE_FLOOD),
        (HEALTHY + "?!" * 400, Kind.EXACT),
    ],
)
def test_the_kind_of_a_flood(text: str, kind: Kind) -> None:
    assert found(text).kind is kind


@pytest.mark.parametrize(
    "text",
    [
        "-" * 900,
        "| | " * 300,
        "=" * 79 + "\n" + "." * 250 + "\n" + "_" * 200,
        "😀" * 40,
        "." * 100,
        "|" + "    |" * 60 + "\n",
        HEALTHY[:500] + " " * 400 + "x",
        "[0, 0, 0, 0, 0, 0, 0, 0],\n" * 8,
        (HEALTHY[:900] + "\n") * 2,
    ],
)
def test_ornament_forms_and_a_second_copy_are_no_loop(text: str) -> None:
    detector = LoopDetector()
    detector.feed(text + HEALTHY)
    assert detector.finding is None


def test_answers_and_asked_repetition_get_twice_the_rope() -> None:
    text = SENTENCE * 200
    plain, answer, asked = found(text), found(text, Channel.ANSWER), found(text, asked=True)
    both = found(text, Channel.ANSWER, asked=True)
    assert plain.at < answer.at == asked.at < both.at
    assert answer.channel is Channel.ANSWER
    assert both.at == pytest.approx(4 * plain.at, abs=4 * BLOCK)
    assert found(text, patience=4.0).at == both.at


@pytest.mark.parametrize("patience", [0.0, -1.0, float("inf"), float("nan")])
def test_patience_is_a_number_above_nothing(patience: float) -> None:
    with pytest.raises(ValueError, match="patience"):
        LoopDetector(patience=patience)


def test_soft_evidence_shortens_the_leash() -> None:
    rest = "For the two trains meet where the longer one has gone a third of the way, as was shown above. "
    doubt = "Wait, hmm. Actually, the answer is 42. Let me recheck that. " + rest
    calm = "Then we see. Probably the number is 42. Let us repeat that. " + rest
    assert len(doubt) == len(calm)
    assert found(doubt * 40).at < found(calm * 40).at


def test_soft_evidence_alone_ends_nothing() -> None:
    source = Source(9, Half.REPORT)
    detector = LoopDetector()
    for _ in range(300):
        detector.feed(f"Wait, hmm. Actually, let me recheck. {source.text(60, 140)} So the answer is 42.\n")
    assert detector.finding is None


def test_digits_are_not_folded() -> None:
    detector = LoopDetector()
    for number in range(400):
        detector.feed(f"{number}: {number * number % 97}, {number**3 % 101}, {'yes' if number % 7 else 'no'}\n")
    assert detector.finding is None


def test_a_long_block_needs_a_third_copy() -> None:
    block = Source(3, Half.REPORT).prose(7_000)
    detector = LoopDetector()
    assert detector.feed(block * 2) is not LoopState.LOOP
    assert detector.feed(block + block[:200]) is LoopState.LOOP


def test_memory_is_bounded() -> None:
    source = Source(4, Half.REPORT)
    texts = [source.prose(20_000) for _ in range(12)]
    detector = LoopDetector()
    detector.feed(texts[0] + texts[1])
    tracemalloc.start()
    for text in texts:
        detector.feed(text)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1_000_000
    assert detector.finding is None
