"""GET /v1/models and /v1/models/{id}: the names a client may ask for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from gateway.service import Service

CREATED = 1_700_000_000
"""OpenAI's shape wants a time of creation; models behind a gateway have none, and a fixed one keeps answers equal."""


def models_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["models"])

    def shown(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": CREATED, "owned_by": service.registry.owner(name)}

    @router.get("/v1/models", summary="List routes and models")
    async def list_models(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit(request.headers)
        return {"object": "list", "data": [shown(name) for name in service.registry.names]}

    @router.get("/v1/models/{name:path}", summary="One model by name or alias")
    async def one_model(name: str, request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit(request.headers)
        return shown(name)

    return router
