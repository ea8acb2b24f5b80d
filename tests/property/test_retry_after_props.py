"""Whatever an engine sends as `retry-after`, what is made of it is a wait that clients and workers can bear."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.errors import MAX_RETRY_AFTER, engine_refused, pause_asked
from gateway.wire import EngineErrorBody

NUMBERS = st.one_of(st.integers().map(str), st.floats().map(str))
DATES = st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC)).map(format_datetime)
ZONES = st.builds("Wed, 21 Oct {} 07:28:00 {}".format, st.integers(0, 10**6), st.integers(-(10**12), 10**12))


@given(st.one_of(st.text(), NUMBERS, DATES, ZONES))
def test_no_header_is_too_much(value: str) -> None:
    asked = pause_asked(value)
    assert asked is None or 1 <= asked <= MAX_RETRY_AFTER
    told = engine_refused(503, EngineErrorBody(), {"retry-after": value}).headers["retry-after"]
    assert 1 <= int(told) <= MAX_RETRY_AFTER


@given(DATES, st.floats(1, 10**9))
def test_a_number_and_a_date_are_both_understood(date: str, seconds: float) -> None:
    is_past = datetime.strptime(date, "%a, %d %b %Y %H:%M:%S %z") < datetime.now(UTC)
    assert (pause_asked(date) == 1.0) or not is_past
    assert pause_asked(f"{seconds:f}") == min(float(f"{seconds:f}"), MAX_RETRY_AFTER)
