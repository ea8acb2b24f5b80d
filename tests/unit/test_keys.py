"""Client keys: only the whole right key finds its entry, and nothing shows a hash."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import KEY_HASH_PATTERN, ApiKey
from gateway.edge.keys import KeyRing, hash_key, new_key, read_bearer


def entry(alias: str, key: str) -> ApiKey:
    return ApiKey(alias=alias, hash=hash_key(key))


def test_new_keys_are_long_and_never_the_same() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(re.fullmatch(r"tg-[A-Za-z0-9_-]{43,}", key) for key in keys)


def test_a_hash_is_what_the_configuration_takes() -> None:
    assert hash_key("abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert re.fullmatch(KEY_HASH_PATTERN, hash_key(new_key()))


def test_a_key_finds_its_entry() -> None:
    first, second = entry("first", "tg-1"), entry("second", "tg-2")
    ring = KeyRing([first, second])
    assert ring.find("tg-1") is first
    assert ring.find("tg-2") is second


def test_of_two_entries_with_one_key_the_first_counts() -> None:
    first = entry("first", "tg-1")
    assert KeyRing([first, entry("second", "tg-1")]).find("tg-1") is first


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_else_finds_an_entry(presented: str) -> None:
    ring = KeyRing([entry("team", "tg-1")])
    assert ring.find("tg-1" + presented) is (ring.find("tg-1") if not presented else None)
    assert ring.find(hash_key("tg-1")) is None


def test_every_entry_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(one: str, other: str) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    keys = [entry(str(number), str(number)) for number in range(5)]
    assert KeyRing(keys).find("0") is keys[0]
    assert compared == [key.hash for key in keys]


def test_a_ring_is_true_when_keys_are_configured() -> None:
    assert KeyRing([entry("team", "tg-1")])
    assert not KeyRing([])
    assert KeyRing([]).find("") is None


def test_a_ring_shows_names_but_no_hashes() -> None:
    assert repr(KeyRing([entry("team", "tg-1"), entry("ops", "tg-2")])) == "KeyRing(team, ops)"


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer tg-1", "tg-1"),
        (b"Bearer tg-1", "tg-1"),
        (b"bEARER   tg-1  ", "tg-1"),
        ("  bearer\ttg-1", "tg-1"),
        ("Bearer Bearer", "Bearer"),
        (None, None),
        ("", None),
        (b"", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearertg-1", None),
        ("tg-1", None),
        ("Basic dXNlcjpwYXNz", None),
        ("Bearer tg-1 tg-2", None),
        ("Bearer tg-1, Bearer tg-2", None),
        ("Bearer tg-1\n", None),
        ("Bearer t\x00g", None),
        (b"Bearer t\xe9g", None),
        ("X Bearer tg-1", None),
    ],
)
def test_reading_a_bearer_token(header: bytes | str | None, token: str | None) -> None:
    assert read_bearer(header) == token


@given(st.one_of(st.text(), st.binary()))
def test_any_header_is_read_without_an_error(header: bytes | str) -> None:
    token = read_bearer(header)
    assert token is None or token.strip()
