"""POST /v1/feedback: a user's verdict on an answer, by its request id. Counted, never kept with any text."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from gateway.api.respond import read_body
from gateway.configvalues import Strict
from gateway.edge.errors import ApiError, bad_request
from gateway.opinions import NoOpinion, Opinion
from gateway.query import decode_object
from gateway.service import Service

MAX_BODY = 4_096
"""Bytes."""


class _Feedback(Strict):
    request_id: str
    verdict: str


def feedback_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["feedback"])

    @router.post("/v1/feedback", summary="Say whether the answer to a request was good")
    async def feedback(request: Request) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        caller = service.gate.admit(request.headers)
        patience = service.config.server.body_timeout
        told = _read(await read_body(request.receive, request.headers, limit=MAX_BODY, patience=patience))
        try:
            judged = service.opinions.take(
                told.request_id, Opinion(told.verdict), caller.alias, is_admin=caller.is_admin
            )
        except NoOpinion as refused:
            if refused.is_late:
                raise ApiError(409, str(refused), param="request_id", code="verdict_exists") from refused
            raise ApiError(404, str(refused), param="request_id", code="request_not_found") from refused
        return JSONResponse(
            {
                "object": "thinkgate.feedback",
                "request_id": told.request_id,
                "verdict": told.verdict,
                "pool": judged.pool,
                "outcome": judged.outcome,
            }
        )

    return router


def _read(raw: bytes) -> _Feedback:
    """Raises ApiError (400) with the field that is wrong."""
    body = decode_object(raw)
    for name in _Feedback.model_fields:
        if not isinstance(body.get(name), str):
            raise bad_request(f"`{name}` must be a string.", param=name, code="missing_required_parameter")
    for name in body:
        if name not in _Feedback.model_fields:
            raise bad_request(f"There is no `{name[:200]}` here.", param=name[:200], code="unknown_parameter")
    if body["verdict"] not in list(Opinion):
        message = f"`verdict` must be {' or '.join(Opinion)}."
        raise bad_request(message, param="verdict", code="invalid_value")
    return _Feedback.model_validate(body)
