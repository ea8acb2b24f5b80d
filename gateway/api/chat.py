"""POST /v1/chat/completions as plain ASGI, beside FastAPI's stack: the path every token takes.

From bytes to a flight and back. One task a request, one more that waits for the client to leave, none a token.
"""

from __future__ import annotations

import structlog
from starlette.types import Receive, Scope, Send

from budgets import BUDGET_HEADER
from gateway.api.respond import ClientGone, headers_of, read_body, send_error, while_client_stays
from gateway.api.sinks import StreamSink, WholeSink
from gateway.closing import Limit
from gateway.config import LoopAction
from gateway.edge.auth import Caller
from gateway.edge.errors import ApiError, bad_request, forbidden, internal_error, method_not_allowed
from gateway.edge.request_id import HEADER as REQUEST_ID
from gateway.edge.request_id import request_id
from gateway.formation import charter
from gateway.observe.trace import FlightTrace
from gateway.query import Query, read_chat
from gateway.service import Course, Service, decision_headers, routed_as

log = structlog.get_logger("thinkgate.chat")

LOOPS_HEADER = "x-thinkgate-loops"
"""What is done about loops in one request: `off`, `observe` or `rescue`. An administrator's to say."""


def _loops(value: str | None, caller: Caller) -> LoopAction | None:
    """Raises ApiError (400, 403)."""
    if value is None:
        return None
    if value not in list(LoopAction):
        message = f"`{LOOPS_HEADER}` must be {', '.join(LoopAction)}."
        raise bad_request(message, param=LOOPS_HEADER, code="invalid_value")
    if not caller.is_admin:
        raise forbidden(f"`{LOOPS_HEADER}` is for keys that may administer the gateway.")
    return LoopAction(value)


class ChatRoute:
    """The ASGI app of one path."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        identity = request_id(headers.get(REQUEST_ID))
        tracer = self._service.tracer
        trace = None if tracer is None else tracer.begin(headers)
        try:
            await self._serve(scope, receive, send, headers, identity=identity, trace=trace)
        finally:
            if trace is not None:
                trace.end()

    async def _serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: dict[str, str],
        *,
        identity: str,
        trace: FlightTrace | None,
    ) -> None:
        shown, closing = {REQUEST_ID: identity, "x-thinkgate-request-id": identity}, self._service.closing
        try:
            if scope["method"] != "POST":
                raise method_not_allowed(scope["method"], scope["path"], "POST")
            caller = self._service.gate.admit(headers)
            limit = Limit(None, internal_error())
            with closing.running(limit):
                async with limit:
                    query = await self._query(caller, headers, identity, receive)
                    course = await self._service.chart(query, caller.home)
        except ClientGone:
            return
        except ApiError as error:
            self._service.metrics.rejections.labels(str(error.status)).inc()
            if trace is not None:
                trace.refused(error.status, error.code or str(error.status))
            await send_error(send, error, shown)
            return
        if trace is not None:
            query.trace = trace
            trace.routed(routed_as(course))
        sink = self._sink(query, course, send, {**shown, **decision_headers(course)})
        flight = charter(query, course.decision, course.plan, course.pool, self._service.ledger)
        course.pool.crew.guests += 1
        try:
            with closing.running(flight):
                await while_client_stays(flight.run(sink), receive)
        except Exception:
            log.exception("flight failed", request_id=identity)
            await sink.fail(internal_error())
        finally:
            course.pool.crew.guests -= 1
            sink.close()

    async def _query(self, caller: Caller, headers: dict[str, str], identity: str, receive: Receive) -> Query:
        service = self._service
        patience = service.config.server.body_timeout
        raw = await read_body(receive, headers, limit=service.body_limit, patience=patience)
        return read_chat(
            raw,
            output=service.output_for(caller),
            request_id=identity,
            caller=caller.alias,
            budget_header=headers.get(BUDGET_HEADER),
            loops=_loops(headers.get(LOOPS_HEADER), caller),
        )

    def _sink(self, query: Query, course: Course, send: Send, headers: dict[str, str]) -> StreamSink | WholeSink:
        model = course.pool.config.model
        if not query.stream:
            return WholeSink(send, headers, model=model, output=query.output)
        return StreamSink(
            send,
            headers,
            model=model,
            output=query.output,
            include_usage=query.include_usage,
            silence=self._service.config.server.keep_alive_comment,
        )
