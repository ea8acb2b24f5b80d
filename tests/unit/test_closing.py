"""The end of the service and the limits of its work: one error each, and a client that leaves has left."""

from __future__ import annotations

import asyncio

import pytest

from gateway import closing as module
from gateway.closing import Closing, Limit
from gateway.edge.errors import ApiError, deadline_passed
from tests.rawengine import until

LATE, ENDED = deadline_passed(1), ApiError(503, "ended")


async def work(limit: Limit, told: list[ApiError], entered: asyncio.Event) -> None:
    try:
        async with limit:
            entered.set()
            await asyncio.Event().wait()
    except ApiError as error:
        told.append(error)


class TestLimit:
    async def test_it_is_late_by_itself(self) -> None:
        with pytest.raises(ApiError) as caught:
            async with Limit(0, LATE):
                await asyncio.Event().wait()
        assert caught.value is LATE

    async def test_it_is_broken_off_once_with_the_first_error(self) -> None:
        told: list[ApiError] = []
        limit, entered = Limit(None, LATE), asyncio.Event()
        task = asyncio.create_task(work(limit, told, entered))
        await entered.wait()
        limit.break_off(ENDED)
        limit.break_off(LATE)
        await task
        limit.break_off(LATE)
        assert told == [ENDED]

    async def test_what_is_broken_off_before_it_began_does_not_begin(self) -> None:
        limit = Limit(None, LATE)
        limit.break_off(ENDED)
        with pytest.raises(ApiError) as caught:
            async with limit:
                await asyncio.Event().wait()
        assert caught.value is ENDED

    async def test_a_client_that_leaves_is_a_cancellation(self) -> None:
        """Also one that leaves at the very moment."""
        for breaks in (False, True):
            told: list[ApiError] = []
            limit, entered = Limit(60, LATE), asyncio.Event()
            task = asyncio.create_task(work(limit, told, entered))
            await entered.wait()
            task.cancel()
            if breaks:
                limit.break_off(ENDED)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert told == []

    async def test_what_is_done_stays_done_and_errors_stay_what_they_are(self) -> None:
        limit = Limit(60, LATE)
        async with limit:
            pass
        limit.break_off(ENDED)
        await asyncio.sleep(0)
        with pytest.raises(ZeroDivisionError):
            async with Limit(60, LATE):
                raise ZeroDivisionError


class Breakable:
    def __init__(self) -> None:
        self.errors: list[ApiError] = []

    def break_off(self, error: ApiError) -> None:
        self.errors.append(error)


class TestClosing:
    async def test_with_nothing_to_wait_for_it_is_over_at_once(self) -> None:
        closing = Closing()
        closing.begin()
        await closing.wait()
        assert await closing.drain(600)

    async def test_what_ends_in_time_is_not_broken_off(self) -> None:
        closing, one = Closing(), Breakable()
        with closing.running(one):
            closing.begin()
            drain = asyncio.create_task(closing.drain(600))
            await asyncio.sleep(0)
            assert not drain.done()
        assert await drain
        assert one.errors == []

    async def test_what_does_not_is_told_once_and_waited_for(self) -> None:
        closing, one, other = Closing(), Breakable(), Breakable()
        with closing.running(one):
            with closing.running(other):
                closing.begin()
                drain = asyncio.create_task(closing.drain(0))
                await until(lambda: bool(one.errors))
            assert not drain.done()
        assert await drain
        assert [error.code for error in (*one.errors, *other.errors)] == ["shutting_down"] * 2

    async def test_a_second_time_nobody_waits_and_nothing_more_begins(self) -> None:
        closing, one, late = Closing(), Breakable(), Breakable()
        with closing.running(one):
            closing.begin()
            drain = asyncio.create_task(closing.drain(600))
            await asyncio.sleep(0)
            closing.begin()
            await until(lambda: bool(one.errors))
            with closing.running(late):
                assert [error.code for error in late.errors] == ["shutting_down"]
        assert await drain

    async def test_who_takes_no_last_word_is_given_up_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LAST_WORD", 0.01)
        closing = Closing()
        with closing.running(Breakable()):
            closing.begin()
            assert not await closing.drain(0)
