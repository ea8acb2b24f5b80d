"""POST /v1/route: what thinkgate would do with a chat request, and why, without generating a token."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from budgets import BUDGET_HEADER
from gateway.api.docs import CHAT_PATH
from gateway.api.explained import ExplanationTold, PlanTold, RouteTold
from gateway.api.respond import read_body
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.query import Query, read_chat
from gateway.service import Course, Service, decision_headers
from router import Explanation

_ERROR = {"$ref": "#/components/responses/Error"}


def route_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["route"])

    @router.post(
        "/v1/route",
        summary="Explain a routing decision without generating",
        description="Takes the body of a chat completion, whole, and answers as that request would be dealt with.",
        response_model=RouteTold,
        openapi_extra={
            "requestBody": CHAT_PATH["post"]["requestBody"],
            "responses": {"4XX": _ERROR, "5XX": _ERROR},
        },
    )
    async def explain(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        caller = service.gate.admit(request.headers)
        identity = request_id(request.headers.get(REQUEST_ID))
        patience = service.config.server.body_timeout
        raw = await read_body(request.receive, request.headers, limit=service.body_limit, patience=patience)
        query = read_chat(
            raw,
            output=service.output_for(caller),
            request_id=identity,
            caller=caller.alias,
            budget_header=request.headers.get(BUDGET_HEADER),
        )
        service.registry.find(query.model)  # a model that is none is told before any work is done
        # Explained first: the verdict is then in memory, and the course is what a request would take, not one in haste.
        explanation = await service.explain(query)
        course = await service.chart(query, caller.home)
        told = _told(query, course, explanation)
        headers = {REQUEST_ID: identity, **decision_headers(course)}
        return Response(told.model_dump_json(), headers=headers, media_type="application/json")

    return router


def _told(query: Query, course: Course, explanation: Explanation) -> RouteTold:
    decision, plan, pool = course.decision, course.plan, course.pool
    return RouteTold(
        model=query.model,
        route=decision.route.value,
        pool=pool.name,
        pool_model=pool.config.model,
        tier=decision.tier,
        complexity=round(decision.complexity, 4),
        confidence=round(decision.confidence, 4),
        p_reasoning=round(decision.p_reasoning, 4),
        reasons=list(decision.reasons),
        plan=PlanTold(
            how=plan.how,
            thinking_cap=plan.cap,
            answer_reserve=plan.reserve,
            max_tokens=plan.limit,
            source=plan.source,
        ),
        explanation=ExplanationTold.of(explanation),
    )
