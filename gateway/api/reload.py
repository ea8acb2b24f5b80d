"""POST /admin/reload: read the configuration file again, and say what has changed or what is wrong. For admin keys."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from gateway.configerrors import ConfigError
from gateway.edge.errors import ApiError, bad_request
from gateway.reload import By, NothingToReload, Reloader
from gateway.service import Service


def reload_router(service: Service, reloader: Reloader) -> APIRouter:
    router = APIRouter(tags=["operations"])

    @router.post("/admin/reload", summary="Read the configuration file again; where it is wrong, the old one stays")
    async def reload(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit_admin(request.headers)
        try:
            report = await reloader.reload(By.ADMIN)
        except NothingToReload:
            message = "There is nothing to reload: thinkgate was started without a configuration file."
            raise bad_request(message, code="nothing_to_reload") from None
        except ConfigError as error:
            raise ApiError(422, str(error), code="invalid_config") from None
        return {"object": "thinkgate.reload", **report.shown()}

    return router
