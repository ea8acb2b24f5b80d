"""POST /v1/route: what thinkgate would do with a chat request, and why, without generating a token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from budgets import BUDGET_HEADER
from gateway.api.respond import read_body
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.query import read_chat
from gateway.service import Service


def route_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["route"])

    @router.post("/v1/route", summary="Explain a routing decision without generating")
    async def explain(request: Request) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
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
        course = await service.chart(query)
        decision, plan = course.decision, course.plan
        body: dict[str, Any] = {
            "object": "thinkgate.route",
            "model": query.model,
            "route": decision.route,
            "pool": course.pool.name,
            "pool_model": course.pool.config.model,
            "complexity": round(decision.complexity, 4),
            "confidence": round(decision.confidence, 4),
            "p_reasoning": round(decision.p_reasoning, 4),
            "tier": decision.tier,
            "reasons": decision.reasons,
            "plan": {
                "how": plan.how,
                "thinking_cap": plan.cap,
                "answer_reserve": plan.reserve,
                "max_tokens": plan.limit,
                "source": plan.source,
            },
        }
        return JSONResponse(body, headers={REQUEST_ID: identity})

    return router
