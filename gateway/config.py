"""thinkgate.yaml as strict models: every key, its type, its range, its default and what it means.

No file reading, no environment look-up and no wiring here: `configfile` turns YAML into these models, `app` turns
these models into rooms. A field without a default is one that nobody else can know. The parts of a pool and of the
router have files of their own, and are met here all the same.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gateway.configpool import (
    R1_HYGIENE,
    Caps,
    EngineKind,
    Health,
    Hygiene,
    LoopAction,
    Loops,
    Pool,
    SelectionPolicy,
    Thinking,
    Timeouts,
)
from gateway.configrouter import Router, UserRoute
from gateway.configvalues import KEY_HASH_PATTERN, NAME_PATTERN, HttpUrl, LineSecret, Name, Seconds, Strict
from parsers import BadFormat, Format, UnknownFormat, format_from_mapping, lookup

__all__ = [
    "KEY_HASH_PATTERN",
    "NAME_PATTERN",
    "R1_HYGIENE",
    "ApiKey",
    "Caps",
    "Config",
    "Embedded",
    "EngineKind",
    "Health",
    "Hygiene",
    "LogFormat",
    "Logs",
    "LoopAction",
    "Loops",
    "Pool",
    "ReasoningOutput",
    "RouteTarget",
    "Router",
    "SelectionPolicy",
    "Server",
    "Thinking",
    "Timeouts",
    "Tracing",
    "UserRoute",
    "embedded_default",
]


class ReasoningOutput(StrEnum):
    """Under which name the thoughts reach the client."""

    REASONING_CONTENT = "reasoning_content"
    REASONING = "reasoning"
    BOTH = "both"
    INLINE = "inline"
    HIDDEN = "hidden"


class Server(Strict):
    """The listening socket and what every request must keep to."""

    host: str = Field(
        default="127.0.0.1",
        max_length=253,
        description="Address to bind. Anything but loopback needs keys (or `allow_open`).",
    )
    port: int = Field(default=8080, ge=0, le=65_535, description="TCP port; 0 takes a free one and prints it.")
    allow_open: bool = Field(default=False, description="Allow a non-loopback address without keys.")
    body_limit_mib: float = Field(
        default=32, gt=0, le=1024, description="Largest request body, in MiB, counted as it arrives."
    )
    body_timeout: Seconds = Field(default=60, description="Seconds a client may take to send its whole body.")
    keep_alive_comment: float = Field(
        default=15,
        ge=0,
        le=300,
        description="Seconds of silence before a `: keep-alive` comment in a stream; 0 sends none.",
    )
    drain: Seconds = Field(
        default=600, description="Seconds that what runs may go on after SIGTERM; then it gets one error."
    )

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


class ApiKey(Strict):
    """One client key. Only its hash is kept; `thinkgate keys new` makes both."""

    alias: Name = Field(description="The name that logs and metrics show instead of the key.")
    hash: str = Field(
        repr=False, pattern=KEY_HASH_PATTERN, description="`sha256:` and 64 hex digits, from `thinkgate keys new`."
    )
    admin: bool = Field(default=False, description="May this key read /admin?")
    reasoning_output: ReasoningOutput | None = Field(
        default=None, description="Overrides `reasoning_output` for this key."
    )
    route: Literal["standard", "reasoning"] | None = Field(
        default=None,
        description="Where its requests to a routed name go. Only the client's own words about thinking and "
        "`router.routes` come before it; the classifier still grades how hard they are. Unset: the classifier decides.",
    )
    pool: Name | None = Field(
        default=None, description="A pool (or a model, for its pool) to serve those instead of the route's own."
    )

    @model_validator(mode="after")
    def _pool_has_a_route(self) -> Self:
        if self.pool is not None and self.route is None:
            raise ValueError("a key's 'pool' needs its 'route'")
        return self


class RouteTarget(Strict):
    """A model name that is not a model: the router picks one of two pools for each request."""

    standard: Name = Field(description="Pool for simple requests.")
    reasoning: Name = Field(description="Pool for requests that need thinking.")


class Embedded(Strict):
    """The engine inside: llama.cpp in a child process, for trying thinkgate without a GPU."""

    gguf: str | None = Field(
        default=None, description="Path of a GGUF file; unset takes the small model from the package."
    )
    chat_template: str | None = Field(
        default=None, description="Path of a Jinja template; unset takes ours, or the file's own."
    )
    threads: Annotated[int, Field(ge=1, le=256)] = Field(default=1, description="CPU threads for decode.")
    context: Annotated[int, Field(ge=256, le=1_000_000)] = Field(
        default=2_048, description="Tokens a request may span."
    )
    parallel: Annotated[int, Field(ge=1, le=64)] = Field(default=2, description="Requests decoded at the same time.")


class LogFormat(StrEnum):
    PRETTY = "pretty"
    JSON = "json"


class Logs(Strict):
    """What the process prints. Never a prompt, a key or a body."""

    format: LogFormat = Field(default=LogFormat.PRETTY, description="`pretty` for people, `json` for collectors.")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe line that is printed."
    )
    loop_samples: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=0, description="Loops found that `/admin/loops` remembers, by fingerprint, without text; 0: none."
    )


class Tracing(Strict):
    """Spans for OpenTelemetry; needs `pip install thinkgate[otel]`. Never a prompt, a key or a body."""

    endpoint: HttpUrl | None = Field(
        default=None,
        description="Where spans go, as OTLP over HTTP: `http://collector:4318/v1/traces`. Unset: no traces.",
    )
    headers: dict[Name, LineSecret] = Field(
        default_factory=dict[str, LineSecret], description="Headers for the collector, such as its key."
    )
    sample: float = Field(
        default=1, ge=0, le=1, description="Part of the requests that are traced, where the client did not say."
    )
    service: Name = Field(default="thinkgate", description="`service.name` of the spans.")


class Config(Strict):
    """The whole of thinkgate.yaml."""

    server: Server = Field(default_factory=Server, description="The listening socket.")
    keys: tuple[ApiKey, ...] = Field(default=(), description="Client keys. None: no key is asked for (loopback only).")
    pools: Annotated[dict[Name, Pool], Field(min_length=1)] = Field(description="Pools by name.")
    routes: dict[Name, RouteTarget] = Field(default_factory=dict[str, RouteTarget], description="Routed model names.")
    router: Router = Field(default_factory=Router, description="The classifier.")
    reasoning_output: ReasoningOutput = Field(
        default=ReasoningOutput.REASONING_CONTENT, description="Name under which clients get the thoughts."
    )
    formats: dict[Name, dict[str, Any]] = Field(
        default_factory=dict[str, dict[str, Any]],
        description="Reasoning formats of your own, by name; what each may hold stands in docs/formats.md.",
    )
    embedded: Embedded = Field(default_factory=Embedded, description="The engine inside.")
    logs: Logs = Field(default_factory=Logs, description="What is printed.")
    tracing: Tracing = Field(default_factory=Tracing, description="Spans for OpenTelemetry.")

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        owners: dict[str, str] = {}
        for pool_name, pool in self.pools.items():
            for name in {pool.model, pool_name, *pool.aliases}:
                if (other := owners.setdefault(name, pool_name)) != pool_name:
                    raise ValueError(f"the model name {name!r} belongs to two pools, {other!r} and {pool_name!r}")
        for route, target in self.routes.items():
            if route in owners:
                raise ValueError(f"the route {route!r} has the name of a model of pool {owners[route]!r}")
            for pool_name in (target.standard, target.reasoning):
                if pool_name not in self.pools:
                    raise ValueError(f"the route {route!r} names the pool {pool_name!r}, which does not exist")
        aliases = [key.alias for key in self.keys]
        if len(set(aliases)) != len(aliases):
            raise ValueError("two 'keys' have the same alias")
        if len({key.hash for key in self.keys}) != len(self.keys):
            raise ValueError("two 'keys' have the same hash")
        return self

    @model_validator(mode="after")
    def _targets_exist(self) -> Self:
        known = {name for pool_name, pool in self.pools.items() for name in (pool_name, pool.model, *pool.aliases)}
        for name, route in self.router.routes.items():
            if route.pool is not None and route.pool not in known:
                raise ValueError(f"the route {name!r} in 'router' names the pool {route.pool!r}, which does not exist")
        for key in self.keys:
            if key.pool is not None and key.pool not in known:
                raise ValueError(f"the key {key.alias!r} names the pool {key.pool!r}, which does not exist")
        return self

    @model_validator(mode="after")
    def _formats_are_known(self) -> Self:
        own = self.own_formats()
        for pool_name, pool in self.pools.items():
            if pool.format is not None and pool.format not in own:
                try:
                    lookup(pool.format)
                except UnknownFormat as error:
                    raise ValueError(f"the 'format' of the pool {pool_name!r}: {error}") from error
        return self

    def own_formats(self) -> dict[str, Format]:
        """The user's formats by name. Raises ValueError naming the key that is wrong."""
        found: dict[str, Format] = {}
        for name, data in self.formats.items():
            try:
                found[name] = format_from_mapping({"id": name, **data})
            except (BadFormat, UnknownFormat) as error:
                raise ValueError(f"the format {name!r} in 'formats': {error}") from error
        return found

    @model_validator(mode="after")
    def _safe_to_listen(self) -> Self:
        if not (self.server.is_loopback or self.keys or self.server.allow_open):
            raise ValueError(
                f"refusing to listen on {self.server.host} without keys: run `thinkgate keys new`, "
                "or set server.allow_open: true"
            )
        return self


def embedded_default() -> Config:
    """What runs without a file: the engine inside, as both pools, on 127.0.0.1:8080."""
    demo_thinking = Thinking(
        max_cap=512,
        caps=Caps(trivial=64, simple=128, moderate=128, hard=192, expert=256),
        answer_reserve=96,
        closing_phrase="\n\nI have thought enough and will answer now.\n",
        answer_lead_in="The answer is",
    )
    return Config(
        pools={
            "standard": Pool(
                model="smollm2", engine=EngineKind.EMBEDDED, format="think", thinking=Thinking(enabled=False)
            ),
            "reasoning": Pool(
                model="smollm2-thinking", engine=EngineKind.EMBEDDED, format="think", thinking=demo_thinking
            ),
        },
        routes={"auto": RouteTarget(standard="standard", reasoning="reasoning")},
    )
