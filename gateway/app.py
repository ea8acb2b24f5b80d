"""Wires the rooms from a config: one ASGI app, with the chat route beside FastAPI's stack. No logic.

Start-up and shutdown are `running`; the app itself has no lifespan, so that a failed start is an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from gateway import __version__
from gateway.api.chat import ChatRoute
from gateway.api.docs import describe_chat
from gateway.api.feedback import feedback_router
from gateway.api.models import models_router
from gateway.api.ops import ops_router
from gateway.api.relay import COMPLETIONS, EMBEDDINGS, relay
from gateway.api.reload import reload_router
from gateway.api.respond import headers_of, turn_away
from gateway.api.route import route_router
from gateway.api.workers import workers_router
from gateway.config import Config
from gateway.configsource import Source
from gateway.edge.errors import ApiError, internal_error, method_not_allowed
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.embedded_pools import run_embedded
from gateway.observe.metrics import Metrics
from gateway.observe.multiprocess import say_farewell
from gateway.pools import Registry
from gateway.pools.departures import all_gone
from gateway.pools.watches import Watches
from gateway.reload import Reloader
from gateway.routing import Routing
from gateway.service import Service

CHAT_PATH = "/v1/chat/completions"


class Thinkgate:
    """The ASGI app. The chat path takes the short way, all else goes through FastAPI."""

    def __init__(self, config: Config, source: Source) -> None:
        """`source`: where the config came from, and another may come from."""
        metrics = Metrics()
        routing = Routing.of_config(config.router, metrics)
        self.service = Service(config, metrics, Registry(config), routing)
        self._chat = ChatRoute(self.service)
        self.reloader = Reloader(self.service, source)
        self._rest = _rest(self.service, self.reloader)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """All that lives beside requests: health watches, the embedded engine, pools and threads to close.

        Raises EmbeddedUnavailable when a pool wants the embedded engine and a piece of it is missing.
        """
        service = self.service
        service.routing.warm_up()
        try:
            async with run_embedded(service), asyncio.TaskGroup() as group:
                watches = Watches(group, service.note_departure, service.note_pace)
                for pool in service.registry.pools.values():
                    watches.start(pool)
                reloading = group.create_task(self.reloader.run(watches))
                try:
                    yield
                finally:
                    reloading.cancel()
                    watches.stop_all()
        finally:
            service.close()
            say_farewell()
            if service.tracer is not None:
                await asyncio.to_thread(service.tracer.close)

    async def drained(self) -> bool:
        """From the first signal until nothing runs any more, and its engines have been seen to stop. Is nobody left who
        does not read what he is told?"""
        closing = self.service.closing
        await closing.wait()
        are_told = await closing.drain(self.service.config.server.drain)
        await all_gone([*self.service.registry.pools.values(), *self.service.retired])
        return are_told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        if scope["type"] == "http" and service.closing.has_begun and scope["path"].startswith("/v1/"):
            service.metrics.rejections.labels("503").inc()
            await turn_away(scope, receive, send, limit=service.body_limit)
        elif scope["type"] == "http" and scope["path"] == CHAT_PATH:
            await self._chat(scope, receive, send)
        else:
            await self._rest(scope, receive, send)


def _rest(service: Service, reloader: Reloader) -> FastAPI:
    app = FastAPI(
        title="thinkgate",
        summary="An OpenAI-compatible gateway for reasoning models.",
        version=__version__,
        license_info={"name": "Apache-2.0"},
    )
    app.include_router(models_router(service))
    app.include_router(route_router(service))
    app.include_router(feedback_router(service))
    app.include_router(ops_router(service))
    app.include_router(workers_router(service))
    app.include_router(reload_router(service, reloader))
    for path, summary in (
        (COMPLETIONS, "Legacy completions, passed through"),
        (EMBEDDINGS, "Embeddings, passed through"),
    ):
        app.add_api_route(path, relay(service, path), methods=["POST"], tags=["relay"], summary=summary)
    describe_chat(app)
    _answer_errors(app, service)
    return app


def _answer_errors(app: FastAPI, service: Service) -> None:
    """Every error of FastAPI's side in OpenAI's shape; those of clients' routes are counted."""

    def answer(request: Request, error: ApiError) -> Response:
        if request.url.path.startswith("/v1/"):
            service.metrics.rejections.labels(str(error.status)).inc()
        shown = {REQUEST_ID: request_id(headers_of(request.scope).get(REQUEST_ID)), **error.headers}
        return Response(error.body(), error.status, shown, "application/json")

    async def on_api_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return answer(request, error)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, headers = request.url.path[:200], dict(error.headers or {})
        if error.status_code == 404:
            return answer(request, ApiError(404, f"There is no {path} here.", code="not_found", headers=headers))
        if error.status_code == 405:
            return answer(request, method_not_allowed(request.method, path, headers.get("Allow", "")))
        return answer(request, ApiError(error.status_code, str(error.detail), headers=headers))

    async def on_invalid(request: Request, error: Exception) -> Response:
        return answer(request, ApiError(400, f"The request is not valid: {error}"[:2000], code="invalid_request"))

    async def on_bug(request: Request, error: Exception) -> Response:
        del error  # logged by the server
        return answer(request, internal_error())

    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(Exception, on_bug)
