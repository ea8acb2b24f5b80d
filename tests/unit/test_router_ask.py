"""Reading the ask: the last user turn, without what harnesses wrap around it."""

from typing import Any

import pytest

from router import Ask, read_ask
from router.ask import strip_noise


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_reads_last_and_earlier_turn() -> None:
    messages = [
        {"role": "system", "content": "You are terse."},
        user("first"),
        {"role": "assistant", "content": "reply"},
        user("second"),
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "output"},
    ]
    assert read_ask(messages, has_tools=True) == Ask(
        "second", "first", system="You are terse.", has_tools=True, turns=2
    )


def test_reads_parts_and_images() -> None:
    parts = [
        {"type": "text", "text": "what is"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "this"},
    ]
    assert read_ask([user(parts)]) == Ask("what is\nthis", has_images=True)


def test_image_of_an_earlier_turn_is_not_of_this_one() -> None:
    assert read_ask([user([{"type": "image"}]), user("and now?")]) == Ask("and now?", turns=2)


def test_a_turn_of_noise_alone_is_no_turn() -> None:
    noise = "<system-reminder>\nTodo list is empty.\n</system-reminder>"
    assert read_ask([user("fix the test"), user(noise)]) == Ask("fix the test")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<system-reminder>a</system-reminder>ask", "ask"),
        ("ask <environment>x\ny</environment> more", "ask  more"),
        ("<memory>a</memory><memory>b</memory>ask", "ask"),
        ("<system-reminder>never closed ask", "<system-reminder>never closed ask"),
        ("</system-reminder>ask", "</system-reminder>ask"),
        ("is 2 </b> 3", "is 2 </b> 3"),
    ],
)
def test_strips_closed_blocks(text: str, left: str) -> None:
    assert strip_noise(text) == left


@pytest.mark.parametrize("messages", [[], [{}], [None], ["hi"], [{"role": "user"}], [user(7)], [user([None, 3, {}])]])
def test_nothing_to_read_is_an_empty_ask(messages: Any) -> None:
    assert read_ask(messages) == Ask("")


def test_reads_three_turns_and_counts_the_rest() -> None:
    found = read_ask([user(f"turn {number}") for number in range(500)])
    assert (found.text, found.earlier, found.before, found.turns) == ("turn 499", "turn 498", "turn 497", 500)


def test_the_persons_own_words_inside_a_harness() -> None:
    text = "<attached_files>a lot of code</attached_files>\n<user_query>rename f to g</user_query>\n<memory>x</memory>"
    assert read_ask([user(text)]) == Ask("rename f to g")


def test_tags_of_ones_own_are_dropped() -> None:
    assert strip_noise("<house>prove it</house> thanks", ("house",)) == "thanks"
    assert read_ask([user("<house>x</house>hi")], noise=("house",)) == Ask("hi")


def test_a_system_prompt_is_kept_short() -> None:
    found = read_ask([{"role": "developer", "content": "x" * 5000}, user("hi")])
    assert len(found.system) == 600
