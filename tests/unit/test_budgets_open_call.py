"""No cut inside a tool call that a thought has opened."""

from __future__ import annotations

import pytest

from budgets import is_inside_call
from budgets.open_call import LOOKED_AT


@pytest.mark.parametrize(
    ("thought", "inside"),
    [
        ("", False),
        ("I could call <tool_call> but how?\n", True),
        ('So: <tool_call>{"name": "f"', True),
        ('So: <tool_call>{"name": "f"}</tool_call> and then', False),
        ("<tool_call>a</tool_call><tool_call>b", True),
        ("</tool_call> first", False),
        ("<tool_call>" + "x" * LOOKED_AT, False),
    ],
)
def test_a_pair_is_open_until_it_is_closed(thought: str, inside: bool) -> None:
    assert is_inside_call(thought, ("<tool_call>",)) is inside


def test_a_marker_without_a_partner_opens_for_good() -> None:
    assert is_inside_call("so [TOOL_CALLS]f[ARGS]{}", ("[TOOL_CALLS]", "<tool_call>"))
    assert not is_inside_call("so [TOOL_CALLS]f[ARGS]{}", ())
