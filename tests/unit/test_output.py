"""How a client wants to be told the thoughts, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config import ReasoningOutput
from gateway.edge.errors import ApiError
from gateway.output import Output, read_output

DEFAULT = ReasoningOutput.REASONING


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ({}, Output(DEFAULT)),
        ({"separate_reasoning": True, "stream_reasoning": True}, Output(DEFAULT)),
        ({"separate_reasoning": False}, Output(ReasoningOutput.INLINE)),
        ({"stream_reasoning": False}, Output(DEFAULT, in_one_piece=True)),
        ({"reasoning_format": "parsed"}, Output(DEFAULT)),
        ({"reasoning_format": "auto"}, Output(DEFAULT)),
        ({"reasoning_format": "deepseek"}, Output(ReasoningOutput.REASONING_CONTENT)),
        ({"reasoning_format": "raw"}, Output(ReasoningOutput.INLINE)),
        ({"reasoning_format": "none"}, Output(ReasoningOutput.INLINE)),
        ({"reasoning_format": "hidden"}, Output(ReasoningOutput.HIDDEN)),
        ({"reasoning_format": None, "separate_reasoning": None}, Output(DEFAULT)),
    ],
)
def test_the_dialects(body: dict[str, Any], output: Output) -> None:
    assert read_output(body, DEFAULT, visible=True) == output


@pytest.mark.parametrize("body", [{}, {"separate_reasoning": False}, {"reasoning_format": "raw"}])
def test_invisible_beats_every_way_of_telling(body: dict[str, Any]) -> None:
    assert read_output(body, DEFAULT, visible=False).reasoning is ReasoningOutput.HIDDEN


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"reasoning_format": "xml"}, "reasoning_format"),
        ({"reasoning_format": ["raw"]}, "reasoning_format"),
        ({"separate_reasoning": "no"}, "separate_reasoning"),
        ({"stream_reasoning": 0}, "stream_reasoning"),
    ],
)
def test_what_cannot_be_understood_is_refused(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_output(body, DEFAULT, visible=True)
    assert (caught.value.status, caught.value.param) == (400, param)
