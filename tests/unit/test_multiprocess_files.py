"""Whose gauges are taken away from the folder that processes share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.observe.multiprocess import VARIABLE, bury_the_dead, folder, say_farewell

NOBODY = 4_194_305
"""Beyond the largest process id of Linux."""


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for pid in (NOBODY, os.getpid(), os.getppid()):
        (tmp_path / f"gauge_livesum_{pid}.db").touch()
        (tmp_path / f"counter_{pid}.db").touch()
    return tmp_path


def test_of_the_dead_and_of_who_had_the_same_id_before(place: Path) -> None:
    everything = names(place)
    bury_the_dead()
    assert everything - names(place) == {f"gauge_livesum_{NOBODY}.db", f"gauge_livesum_{os.getpid()}.db"}


def test_of_who_ends(place: Path) -> None:
    everything = names(place)
    say_farewell()
    assert everything - names(place) == {f"gauge_livesum_{os.getpid()}.db"}


def test_of_nobody_where_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert folder() is None
    bury_the_dead()
    say_farewell()
