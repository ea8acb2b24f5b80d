"""What every door of the API needs, in one place: config, gate, pools, router, ledger; and a request's way to a Plan.

Built once by `app`. It decides nothing itself: it asks the rooms in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from budgets import Intent, IntentError, Mode, Plan, make_plan
from gateway.closing import Closing
from gateway.config import Config, ReasoningOutput
from gateway.edge.auth import Caller, Gate, Home
from gateway.ledger import Ledger
from gateway.observe.metrics import Metrics
from gateway.observe.pools import PoolMetrics
from gateway.observe.trace import Routed, tracer_of
from gateway.opinions import Opinions
from gateway.pools import Pool, Registry, Worker
from gateway.query import Query, of_intent
from gateway.routing import Routing
from router import Decision, Explanation, Route, Tier


@dataclass(frozen=True, slots=True)
class Course:
    """Where a request goes and under what plan."""

    pool: Pool
    decision: Decision
    plan: Plan


class Service:
    def __init__(self, config: Config, metrics: Metrics, registry: Registry, routing: Routing) -> None:
        self.config = config
        self.metrics = metrics
        self.registry = registry
        self.routing = routing
        self.gate = Gate(config.keys)
        self.tracer = tracer_of(config.tracing)
        self.opinions = Opinions(metrics)
        self.ledger = Ledger(metrics, config.logs.loop_samples, self.opinions.remember)
        self.listener = PoolMetrics(metrics)
        for pool in registry.pools.values():
            self.open(pool)
        metrics.before_scrape.append(self._refresh)
        self.retired: list[Pool] = []
        """Pools that are given to no request any more, and still serve those they were given to."""
        self.closing = Closing()

    def open(self, pool: Pool) -> None:
        """Let it be seen from its first moment."""
        pool.listener = self.listener
        pool.account(self.listener.used)
        self.ledger.expect(pool.name)
        if pool.apart is not None:
            self.listener.expect_hand_offs(pool.name)
        for part in pool.parts:
            for worker in part.workers:
                self.listener.show(pool.name, worker)

    def swap(self, config: Config, registry: Registry, routing: Routing) -> None:
        """Another configuration for all requests that come from now on. Its pools are told by the caller."""
        self.config, self.registry, self.routing = config, registry, routing
        self.gate = Gate(config.keys)
        self.ledger.keep_samples(config.logs.loop_samples)

    def _refresh(self) -> None:
        shown = [pool for pool in self.retired if pool.listener is not None]  # a replaced one's are its successor's
        for pool in (*self.registry.pools.values(), *shown):
            for worker in (worker for part in pool.parts for worker in part.workers):
                self.listener.refresh(pool.name, worker)

    @property
    def body_limit(self) -> int:
        """Bytes."""
        return int(self.config.server.body_limit_mib * 1024 * 1024)

    def output_for(self, caller: Caller) -> ReasoningOutput:
        return caller.reasoning_output or self.config.reasoning_output

    async def chart(self, query: Query, home: Home | None = None) -> Course:
        """Decision and Plan of a request; `home`: the default route of its key. Raises ApiError."""
        registry = self.registry  # the configuration may be another when the router has decided
        choice = registry.find(query.model)
        explicit = _explicit(query.intent)
        if choice.is_routed and explicit is not None:
            pool = choice.reasoning if explicit.route is Route.REASONING else choice.standard
            decision = explicit
            if decision.route is Route.REASONING and query.intent.cap is None and query.intent.level is None:
                # The client wants thought and left open how much: the classifier still grades the difficulty.
                decision = _with_complexity(explicit, await self._judge(query))
        elif choice.is_routed:
            decision = _at_home(await self._judge(query), home)
            pool = choice.reasoning if decision.route is Route.REASONING else choice.standard
            if decision.target is not None:
                pool = registry.find(decision.target).standard
        else:
            pool = choice.standard
            decision = await self._for_named(query, pool)
        try:
            plan = make_plan(
                query.intent,
                pool.policy(query.body),
                complexity=decision.complexity,
                limit=query.limit,
                room=_room(pool, query),
            )
        except IntentError as error:
            raise of_intent(error) from error
        return Course(pool, decision, plan)

    async def _judge(self, query: Query) -> Decision:
        return await self.routing.judge(query.messages, has_tools=bool(query.body.get("tools")))

    async def explain(self, query: Query) -> Explanation:
        """What the classifier says of a request, and why; off the event loop. Raises ApiError (503)."""
        return await self.routing.explain(query.messages, has_tools=bool(query.body.get("tools")))

    async def _for_named(self, query: Query, pool: Pool) -> Decision:
        """A model named outright needs no route; only a cap left open needs a grade."""
        thinks = pool.config.thinking.enabled and bool(pool.profile.format.open)
        route = Route.REASONING if thinks else Route.STANDARD
        named = Decision(route, 0.0, 1.0, float(thinks), Tier.RULE, ("the model was named",))
        intent = query.intent
        if not thinks or intent.mode is Mode.OFF or intent.cap is not None or intent.level is not None:
            return named
        return _with_complexity(named, await self._judge(query))

    def note_departure(self, pool: Pool, worker: Worker, seconds: float, has_gone: bool) -> None:
        """A worker's aborted legs are gone, or were given up on."""
        if has_gone:
            self.metrics.abort_seconds.labels(pool.name).observe(seconds)
        elif worker in pool.workers:  # of one that was removed no series may come back
            self.metrics.aborts_lingering.labels(pool.name, worker.name).inc()

    def note_pace(self, pool: str, ratio: float) -> None:
        """How fast a pool generates, compared with its usual pace."""
        self.metrics.pool_pace.labels(pool).set(ratio)

    @property
    def is_ready(self) -> bool:
        """May a load balancer send requests? One ready worker will do: a pool that is down answers for itself."""
        return not self.closing.has_begun and any(pool.is_ready for pool in self.registry.pools.values())

    def close(self) -> None:
        self.routing.close()
        self.registry.close()
        for pool in self.retired:
            pool.close()


def decision_headers(course: Course) -> Mapping[str, str]:
    """What a client may see of a decision."""
    cap = course.plan.cap
    return {
        "x-thinkgate-route": course.decision.route,
        "x-thinkgate-pool": course.pool.name,
        "x-thinkgate-model": course.pool.config.model,
        "x-thinkgate-tier": course.decision.tier,
        "x-thinkgate-complexity": f"{course.decision.complexity:.3f}",
        "x-thinkgate-confidence": f"{course.decision.confidence:.3f}",
        "x-thinkgate-thinking-cap": "none"
        if cap is None
        else f"{cap}; how={course.plan.how}; source={course.plan.source}",
    }


def routed_as(course: Course) -> Routed:
    """What a trace may tell of a decision."""
    decision, plan = course.decision, course.plan
    return Routed(
        model=course.pool.config.model,
        route=decision.route,
        pool=course.pool.name,
        tier=decision.tier,
        complexity=decision.complexity,
        cap=plan.cap,
        how=plan.how,
    )


CHARACTERS_A_TOKEN = 3
"""Of a prompt whose tokens nobody has counted: few, so that the room left is rather under- than overestimated."""


def _room(pool: Pool, query: Query) -> int | None:
    """Tokens that the context has left for thought and answer, as far as a context is known at all."""
    context = pool.context
    if context is None:
        return None
    characters = sum(_text_length(message.get("content")) for message in query.messages)
    return max(2, context - characters // CHARACTERS_A_TOKEN)


def _text_length(content: object) -> int:
    """Characters of text; an image's data is not text, and how many tokens it costs only its model knows."""
    if isinstance(content, str):
        return len(content)
    if not isinstance(content, list):
        return 0
    parts = (cast("dict[str, object]", part) for part in cast("list[object]", content) if isinstance(part, dict))
    texts = (part.get("text") for part in parts)
    return sum(len(text) for text in texts if isinstance(text, str))


def _explicit(intent: Intent) -> Decision | None:
    """A client that says how to think has routed itself."""
    if intent.mode is Mode.OFF:
        return Decision(Route.STANDARD, 0.0, 1.0, 0.0, Tier.RULE, (f"thinking is off by `{intent.source}`",))
    if intent.mode is Mode.ON:
        return Decision(Route.REASONING, 0.0, 1.0, 1.0, Tier.RULE, (f"thinking is asked for by `{intent.source}`",))
    return None


def _at_home(decision: Decision, home: Home | None) -> Decision:
    """A key's default route, where no route of the operator's said otherwise; how hard the ask is stays."""
    if home is None or decision.rule is not None:
        return decision
    reasons = ("the default route of this key", *decision.reasons)
    return Decision(
        Route(home.route), decision.complexity, 1.0, decision.p_reasoning, Tier.RULE, reasons, target=home.pool
    )


def _with_complexity(decision: Decision, graded: Decision) -> Decision:
    return Decision(
        decision.route,
        graded.complexity,
        decision.confidence,
        decision.p_reasoning,
        decision.tier,
        (*decision.reasons, *graded.reasons),
    )
