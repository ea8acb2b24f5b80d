"""What operators and orchestrators ask: /livez, /readyz, /metrics, /admin/loops. Workers are `workers`'."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from gateway.service import Service


def ops_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["operations"])

    @router.get("/livez", summary="Is the process alive? Never touches a worker", response_class=PlainTextResponse)
    async def livez() -> str:  # pyright: ignore[reportUnusedFunction]
        return "ok\n"

    @router.get("/readyz", summary="May traffic come? 503 while draining or without a ready worker")
    async def readyz() -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        pools = {name: pool.is_ready for name, pool in service.registry.pools.items()}
        body = {"ready": service.is_ready, "draining": service.closing.has_begun, "pools": pools}
        return JSONResponse(body, status_code=200 if service.is_ready else 503)

    @router.get("/metrics", summary="Prometheus metrics")
    async def metrics() -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(service.metrics.render(), media_type=service.metrics.content_type)

    @router.get("/admin/loops", summary="Loops found lately, by fingerprint (`logs.loop_samples`)")
    async def loops(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit_admin(request.headers)
        return {"object": "list", "data": list(service.ledger.samples)}

    return router
