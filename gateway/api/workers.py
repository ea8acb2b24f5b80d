"""/admin/workers: every worker and why it is as it is; taking one in, draining it, forgetting it. For admin keys.

What is changed here lasts until the process ends: the config file is the lasting word.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from gateway.config import EngineKind
from gateway.configvalues import Strict, WorkerUrl
from gateway.edge.errors import ApiError, bad_request
from gateway.pools import Pool, State, Worker
from gateway.query import decode_object
from gateway.service import Service

T = TypeVar("T", bound=Strict)

MAX_BODY = 65_536
"""Bytes of a request to these routes."""


class Named(Strict):
    """A worker of a pool, by its name or address."""

    pool: str
    worker: str


class Newcomer(Strict):
    """A worker to be taken in."""

    pool: str
    url: WorkerUrl


def worker_row(pool: Pool, worker: Worker) -> dict[str, object]:
    """One worker as operators see it. Times in seconds from now, load as its engine last told."""
    now = pool.clock()
    load = worker.gauge.load
    return {
        "pool": pool.name,
        "worker": worker.name,
        "url": worker.url,
        "engine": pool.config.engine,
        "model": pool.config.model,
        "state": worker.state,
        "ready": worker.is_ready,
        "reason": worker.reason,
        "share": round(pool.share(worker, now), 2) if worker.is_ready else 0.0,
        "paused_for": round(max(0.0, worker.paused_until - now), 1),
        "in_flight": worker.in_flight,
        "tokens": worker.gauge.tokens,
        "leaving": worker.leaving,
        "floods": worker.floods,
        "load": None
        if load is None
        else {
            "running": load.running,
            "waiting": load.waiting,
            "kv": load.kv,
            "capacity": load.capacity,
            "age": round(now - worker.gauge.seen_at, 1),
        },
        "capabilities": None if worker.capabilities is None else worker.capabilities.shown,
    }


def workers_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["operations"], prefix="/admin/workers")
    pools = service.registry.pools

    def pool_of(name: str) -> Pool:
        pool = pools.get(name)
        if pool is None:
            raise ApiError(404, f"There is no pool {name[:200]!r}.", param="pool", code="pool_not_found")
        return pool

    def find(named: Named) -> tuple[Pool, Worker]:
        pool = pool_of(named.pool)
        worker = pool.find(named.worker)
        if worker is None:
            message = f"The pool {pool.name!r} has no worker {named.worker[:200]!r}."
            raise ApiError(404, message, param="worker", code="worker_not_found")
        return pool, worker

    @router.get("", summary="Every worker, its state and why")
    async def workers(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit_admin(request.headers)
        rows = [worker_row(pool, worker) for pool in pools.values() for worker in pool.workers]
        return {"object": "list", "data": rows}

    @router.post("", summary="Take a worker in; it warms up and becomes ready like any other", status_code=201)
    async def add(request: Request) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit_admin(request.headers)
        told = _read(Newcomer, await _body(request))
        pool = pool_of(told.pool)
        if pool.config.engine is EngineKind.EMBEDDED:
            raise bad_request("An embedded pool has no workers of its own.", param="pool", code="invalid_value")
        try:
            worker = pool.add(told.url)
        except ValueError as error:
            message = str(error)
            raise ApiError(409, f"{message[0].upper()}{message[1:]}.", param="url", code="worker_exists") from error
        return JSONResponse(worker_row(pool, worker), 201)

    @router.post("/drain", summary="Give a worker nothing new; `gone` once its last stream has ended", status_code=202)
    async def drain(request: Request) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit_admin(request.headers)
        pool, worker = find(_read(Named, await _body(request)))
        pool.drain(worker)
        return JSONResponse(worker_row(pool, worker), 202)

    @router.delete("", summary="Forget a worker that has gone; with `force`, one that still runs something")
    async def remove(  # pyright: ignore[reportUnusedFunction]
        request: Request, pool: str, worker: str, force: Annotated[bool, Query()] = False
    ) -> JSONResponse:
        service.gate.admit_admin(request.headers)
        owner, found = find(Named(pool=pool, worker=worker))
        if found.in_flight and not force:
            message = f"It runs {found.in_flight} requests: drain it first, or say `force=true`."
            raise ApiError(409, message, param="worker", code="worker_busy")
        owner.remove(found)
        return JSONResponse({**worker_row(owner, found), "state": State.GONE})

    return router


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise ApiError(413, f"The body is larger than {MAX_BODY} bytes.", code="request_too_large")
    return body


def _read(kind: type[T], raw: bytes) -> T:
    """Raises ApiError (400) with the first field that is wrong."""
    try:
        return kind.model_validate(decode_object(raw))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(step) for step in first["loc"]) or "body"
        raise bad_request(f"`{field}`: {first['msg']}.", param=field, code="invalid_value") from error
