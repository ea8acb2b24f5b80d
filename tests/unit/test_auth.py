"""The gate: whose key it is, what it may do, and that a refusal tells nothing."""

from __future__ import annotations

import pytest

from gateway.config import ApiKey, ReasoningOutput
from gateway.edge.auth import ANYONE, Gate
from gateway.edge.errors import ApiError
from gateway.edge.keys import hash_key
from gateway.edge.request_id import request_id

USER, ADMIN = "tg-user", "tg-admin"
GATE = Gate(
    [
        ApiKey(alias="user", hash=hash_key(USER), reasoning_output=ReasoningOutput.INLINE),
        ApiKey(alias="admin", hash=hash_key(ADMIN), admin=True),
    ]
)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_without_keys_everybody_is_let_in() -> None:
    gate = Gate([])
    for headers in ({}, bearer("whatever")):
        assert gate.admit(headers) is ANYONE
        assert gate.admit_admin(headers) is ANYONE


def test_a_key_has_a_name_and_its_own_output() -> None:
    caller = GATE.admit(bearer(USER))
    assert (caller.alias, caller.is_admin, caller.reasoning_output) == ("user", False, ReasoningOutput.INLINE)
    assert GATE.admit(bearer(ADMIN)).reasoning_output is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("tg-other"),
        {"authorization": USER},
        {"authorization": f"Basic {USER}"},
        bearer(hash_key(USER)),
        bearer(""),
    ],
)
def test_everybody_else_is_refused_without_an_echo(headers: dict[str, str]) -> None:
    for admit in (GATE.admit, GATE.admit_admin):
        with pytest.raises(ApiError) as caught:
            admit(headers)
        assert caught.value.status == 401
        assert caught.value.headers == {"www-authenticate": "Bearer"}
        for secret in (USER, "tg-other", "sha256"):
            assert secret not in caught.value.message


def test_administering_needs_an_admins_key() -> None:
    assert GATE.admit_admin(bearer(ADMIN)).alias == "admin"
    with pytest.raises(ApiError) as caught:
        GATE.admit_admin(bearer(USER))
    assert caught.value.status == 403


@pytest.mark.parametrize("given", ["a", "A.b_c-9", "x" * 128])
def test_a_sane_request_id_is_kept(given: str) -> None:
    assert request_id(given) == given


@pytest.mark.parametrize("given", [None, "", "x" * 129, "a b", "a\n", "ä", "a\r\nx-evil: 1", "٣"])
def test_any_other_is_replaced_by_a_new_one(given: str | None) -> None:
    first, second = request_id(given), request_id(given)
    assert first != second
    assert first.startswith("tg-")
    assert request_id(first) == first
