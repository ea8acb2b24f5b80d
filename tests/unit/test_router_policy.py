"""What moves a probability: a follow-up is held up and let go slowly, a new topic is not, prompts of the system pull a
little, scripts nobody trained on lean to reasoning."""

import pytest

from router.policy import RELEASE, can_lean, is_unknown_script, move, system_shift


def test_a_follow_up_is_held_up() -> None:
    moved = move(0.3, before=0.98, system="", text="and the last step?")
    assert moved.p == pytest.approx(0.98 * RELEASE)
    assert moved.reasons == ("a follow-up to a turn that needed reasoning",)


def test_a_rise_is_taken_at_once() -> None:
    assert move(0.9, before=0.1, system="", text="now prove it").p == 0.9


def test_a_plainly_simple_turn_is_let_go() -> None:
    assert move(0.05, before=0.99, system="", text="thanks, in German please").p == 0.05


@pytest.mark.parametrize(
    ("text", "earlier", "leans"),
    [
        ("why?", "Prove it.", True),
        ("why?", "", False),
        ("A new topic altogether: " + "words " * 12, "Prove it.", False),
    ],
)
def test_only_a_short_turn_after_another_leans(text: str, earlier: str, leans: bool) -> None:
    assert can_lean(text, earlier) is leans


def test_a_system_prompt_pulls_a_little_either_way() -> None:
    tutor, translator = "You are a rigorous mathematics tutor.", "You are a friendly translator. Be brief."
    assert system_shift("You are a helpful assistant.") == 0.0
    assert 0 < system_shift(tutor) <= 0.5
    assert -0.5 <= system_shift(translator) < 0
    assert (
        move(0.5, before=None, system=tutor, text="x").p > 0.5 > move(0.5, before=None, system=translator, text="x").p
    )
    assert abs(move(0.99, before=None, system=translator, text="x").p - 0.99) < 0.01


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("ከእነዚህ ቁጥሮች ትልቁ የትኛው ነው", True),
        ("რომელია უდიდესი", True),
        ("What is ፀሐይ?", False),
        ("что больше", False),
        ("证明", False),
        ("12 + 30 = ?", False),
        ("", False),
    ],
)
def test_scripts(text: str, unknown: bool) -> None:
    assert is_unknown_script(text) is unknown
    assert (move(0.5, before=None, system="", text=text).p > 0.5) is unknown
