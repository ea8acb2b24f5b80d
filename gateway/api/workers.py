"""/admin/workers: every worker and why it is as it is; taking one in, draining it, forgetting it. For admin keys.

What is changed here lasts until the process ends: the config file is the lasting word. A reload of the file leaves it
alone, unless the file has changed on that worker.
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
from gateway.pools.role import Role
from gateway.query import decode_object
from gateway.service import Service

T = TypeVar("T", bound=Strict)

MAX_BODY = 65_536
"""Bytes of a request to these routes."""


RETIRED = {"state": State.DRAINING, "ready": False, "reason": "the configuration has no such pool any more"}
"""What is shown of the workers of a pool that is given to no request any more."""


class Named(Strict):
    """A worker of a pool, by its name or address."""

    pool: str
    worker: str


class Newcomer(Strict):
    """A worker to be taken in."""

    pool: str
    url: WorkerUrl
    role: Role | None = None
    """Unset: the role of the pool's own workers."""


def worker_row(pool: Pool, worker: Worker) -> dict[str, object]:
    """One worker as operators see it. Times in seconds from now, load as its engine last told."""
    now = pool.clock()
    load = worker.gauge.load
    return {
        "pool": pool.name,
        "worker": worker.name,
        "url": worker.url,
        "role": pool.role,
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

    def pool_of(name: str) -> Pool:
        pool = service.registry.pools.get(name)
        if pool is None:
            raise ApiError(404, f"There is no pool {name[:200]!r}.", param="pool", code="pool_not_found")
        return pool

    def find(named: Named) -> tuple[Pool, Worker]:
        pool = pool_of(named.pool)
        for part in pool.parts:
            if (worker := part.find(named.worker)) is not None:
                return part, worker
        message = f"The pool {pool.name!r} has no worker {named.worker[:200]!r}."
        raise ApiError(404, message, param="worker", code="worker_not_found")

    @router.get("", summary="Every worker, its state and why")
    async def workers(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit_admin(request.headers)
        pools = service.registry.pools.values()
        rows = [worker_row(part, worker) for pool in pools for part in pool.parts for worker in part.workers]
        retired = [part for pool in service.retired for part in pool.parts]
        rows += [{**worker_row(part, worker), **RETIRED} for part in retired for worker in part.workers]
        troubled = [{"pool": pool.name, **pair} for pool in pools if pool.apart for pair in pool.apart.pairing.shown()]
        return {"object": "list", "data": rows, "troubled_pairs": troubled}

    @router.post("", summary="Take a worker in; it warms up and becomes ready like any other", status_code=201)
    async def add(request: Request) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        service.gate.admit_admin(request.headers)
        told = _read(Newcomer, await _body(request))
        pool = pool_of(told.pool)
        if pool.config.engine is EngineKind.EMBEDDED:
            raise bad_request("An embedded pool has no workers of its own.", param="pool", code="invalid_value")
        part = next((part for part in pool.parts if told.role in (None, part.role)), None)
        if part is None:
            message = f"The pool {pool.name!r} has no workers of the role '{told.role}'."
            raise bad_request(message, param="role", code="invalid_value")
        if any(other.find(told.url) for other in pool.parts if other is not part):
            raise ApiError(409, "It has another role in this pool already.", param="url", code="worker_exists")
        if part.role is Role.PREFILL and pool.apart is not None and not pool.apart.way.takes_strangers:
            message = "A prefill worker of `nixl-push` needs its `engine_id`: name it in the configuration."
            raise bad_request(message, param="url", code="invalid_value")
        try:
            worker = part.add(told.url)
        except ValueError as error:
            message = str(error)
            raise ApiError(409, f"{message[0].upper()}{message[1:]}.", param="url", code="worker_exists") from error
        return JSONResponse(worker_row(part, worker), 201)

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
