"""Errors as OpenAI's SDKs read them: one shape, the right status, and a hint whether to try again."""

from __future__ import annotations

import json

import pytest

from gateway.edge import errors
from gateway.edge.errors import ApiError, engine_failed, engine_refused
from gateway.pools.verdict import judge
from gateway.upstream import UpstreamError, UpstreamFault
from gateway.wire import EngineErrorBody

BODY = EngineErrorBody("it said", "BadRequestError", "top_p", 400)


def test_the_body_is_openais_shape() -> None:
    assert json.loads(ApiError(418, "m", "t", "p", "c").body()) == {
        "error": {"message": "m", "type": "t", "param": "p", "code": "c"}
    }
    assert str(ApiError(418, "m")) == "m"


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (errors.bad_request("m"), 400, "invalid_request_error", None),
        (errors.unauthorized("m"), 401, "authentication_error", "invalid_api_key"),
        (errors.forbidden("m"), 403, "permission_error", "forbidden"),
        (errors.model_not_found("x"), 404, "invalid_request_error", "model_not_found"),
        (errors.method_not_allowed("GET", "/x", "POST"), 405, "invalid_request_error", "method_not_allowed"),
        (errors.body_too_large(5), 413, "invalid_request_error", "request_too_large"),
        (errors.internal_error(), 500, "server_error", "internal_error"),
        (errors.engine_broke_off("m"), 502, "server_error", "engine_stream_broken"),
        (errors.not_ready("m"), 503, "server_error", "no_ready_worker"),
        (errors.deadline_passed(5), 504, "server_error", "deadline"),
        (errors.engine_silent(5), 504, "server_error", "engine_timeout"),
    ],
)
def test_every_error_has_its_status_type_and_code(error: ApiError, status: int, kind: str, code: str | None) -> None:
    assert (error.status, error.type, error.code) == (status, kind, code)


@pytest.mark.parametrize(
    ("status", "shown", "kind", "code"),
    [
        (400, 400, "invalid_request_error", "BadRequestError"),
        (404, 404, "invalid_request_error", "BadRequestError"),
        (429, 429, "rate_limit_error", "engine_busy"),
        (503, 503, "server_error", "engine_busy"),
        (401, 502, "server_error", "engine_auth"),
        (403, 502, "server_error", "engine_auth"),
        (500, 502, "server_error", "engine_error"),
        (302, 502, "server_error", "engine_error"),
    ],
)
def test_an_engines_refusal_keeps_whose_fault_it_is(status: int, shown: int, kind: str, code: str) -> None:
    error = engine_refused(status, BODY, {})
    assert (error.status, error.type, error.code) == (shown, kind, code)
    assert ("it said" in error.message) == (code != "engine_auth"), "a refused key of ours is nothing for a client"
    assert error.param == ("top_p" if shown in {400, 404} else None)


def test_a_refusal_without_words_has_some() -> None:
    assert engine_refused(418, EngineErrorBody(), {}).message == "The engine answered 418."


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "5"),
        ("7", "7"),
        ("0", "1"),
        ("3600", "60"),
        ("99999999999999999999", "60"),
        ("Wed, 21 Oct 2026", "5"),
        ("-3", "5"),
        ("٣", "5"),
        (" 7 ", "7"),
        ("2.5", "3"),
        ("315360000", "60"),
        ("nan", "5"),
        ("inf", "5"),
        ("1e9", "5"),
        ("-1.5", "5"),
        ("", "5"),
        ("9" * 5_000, "5"),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "1"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "60"),
        ("Wed, 99 Oct 2026 07:28:00 GMT", "5"),
        ("Wednesday, 21-Oct-15 07:28:00 GMT", "1"),
    ],
)
def test_retry_after_stays_within_what_sdks_obey(given: str | None, shown: str) -> None:
    for status in (429, 503):
        error = engine_refused(status, BODY, {} if given is None else {"retry-after": given})
        assert error.headers["retry-after"] == shown


def test_a_date_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "time", lambda: 1_445_412_480.0 - 7)
    told = {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}
    assert engine_refused(503, BODY, told).headers["retry-after"] == "7"
    assert judge(engine_refused(503, BODY, told), told).pause == 7.0
    assert judge(engine_refused(429, BODY, {}), {}).pause == 0.0


@pytest.mark.parametrize(
    ("fault", "status", "header"),
    [
        (UpstreamFault.NO_CONNECTION, 503, ("retry-after", "2")),
        (UpstreamFault.TIMEOUT, 504, ("x-should-retry", "false")),
        (UpstreamFault.CONNECT, 502, None),
        (UpstreamFault.CLOSED, 502, None),
        (UpstreamFault.NOT_HTTP, 502, None),
    ],
)
def test_a_failed_transport(fault: UpstreamFault, status: int, header: tuple[str, str] | None) -> None:
    error = engine_failed(UpstreamError(fault, "why"))
    assert (error.status, error.headers) == (status, dict([header] if header else []))
    assert "why" in error.message


def test_where_gpu_time_is_lost_no_sdk_shall_try_again() -> None:
    for error in (errors.deadline_passed(5), errors.engine_silent(5)):
        assert error.headers["x-should-retry"] == "false"


def test_a_long_model_name_is_not_echoed_whole() -> None:
    assert len(errors.model_not_found("x" * 10_000).message) < 300
