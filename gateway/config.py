"""thinkgate.yaml as strict models: every key, its type, its range, its default and what it means.

No file reading, no environment look-up and no wiring here: `configfile` turns YAML into these models, `app` turns
these models into rooms. A field without a default is one that nobody else can know.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from parsers import BadFormat, Format, UnknownFormat, format_from_mapping, lookup

KEY_HASH_PATTERN = r"^sha256:[0-9a-f]{64}$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$"


def _worker_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its own words would quote the value, and with it a password
        is_address, parts = False, urlsplit("")
    if not is_address:
        raise ValueError("a worker is an http:// or https:// address, for example http://10.0.0.7:8000")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError("a worker's address carries no query, fragment or password (a key goes to the pool's api_key)")
    return value.rstrip("/").removesuffix("/v1")


def _header_value(value: SecretStr) -> SecretStr:
    secret = value.get_secret_value()
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("a key is one word of printable ASCII")
    return value


def _by_url(weights: dict[str, float]) -> dict[str, float]:
    return {_worker_url(url): weight for url, weight in weights.items()}


WorkerUrl = Annotated[str, AfterValidator(_worker_url)]
HeaderSecret = Annotated[SecretStr, AfterValidator(_header_value)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Tokens = Annotated[int, Field(ge=0, le=10_000_000)]


class Strict(BaseModel):
    """An unknown key is an error: a typo must never become a silent default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EngineKind(StrEnum):
    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMACPP = "llamacpp"
    OPENAI = "openai"
    EMBEDDED = "embedded"


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
    drain: Seconds = Field(default=600, description="Seconds running streams may go on after SIGTERM.")

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


class Timeouts(Strict):
    """Patience with an engine. Thinking takes minutes: only `total` limits a healthy stream from end to end."""

    connect: Seconds = Field(default=5, description="Seconds to open a connection to a worker.")
    queue: Annotated[float, Field(ge=0, le=86_400)] = Field(
        default=5, description="Seconds a request waits for a worker to become ready before it is refused (503)."
    )
    first_token: Seconds = Field(
        default=600, description="Seconds from sending a request to its first event (queueing included)."
    )
    idle: Seconds = Field(default=120, description="Seconds without a byte from the engine, once it has begun.")
    total: Seconds = Field(default=3600, description="Seconds for a whole request, all its legs.")
    thought: Seconds | None = Field(
        default=None,
        description="Seconds of a request after which its thought is cut, so that an answer still comes. "
        "Unset: nine tenths of `total`.",
    )


class Health(Strict):
    """How a pool's workers are watched."""

    interval: Seconds = Field(default=2, description="Seconds between two polls of a worker.")
    timeout: Seconds = Field(default=2, description="Seconds a poll may take.")
    failures: int = Field(default=3, ge=1, le=100, description="Polls failed in a row that take a ready worker out.")
    canary: bool | None = Field(
        default=None,
        description="Must a worker generate a few tokens before it is ready? Unset: not for `openai`, where it costs.",
    )
    warm_up: Seconds = Field(
        default=1800,
        description="Seconds a worker may load and compile before it is called ejected. It may still come.",
    )
    slow_start: Annotated[float, Field(ge=0, le=86_400)] = Field(
        default=60, description="Seconds over which a worker that got ready comes to its full share; 0: at once."
    )


class SelectionPolicy(StrEnum):
    """Who serves a request, of the workers that could."""

    AFFINITY = "affinity"
    PRESSURE = "pressure"
    ROTATION = "rotation"


class Caps(Strict):
    """Thinking caps in tokens by class of difficulty; between two classes the cap is interpolated."""

    trivial: Tokens = Field(default=256, description="Complexity 0: greetings, look-ups.")
    simple: Tokens = Field(default=1_024, description="Complexity 0.25: one-step questions; also effort `low`.")
    moderate: Tokens = Field(default=4_096, description="Complexity 0.5: several steps; also effort `medium`.")
    hard: Tokens = Field(default=16_384, description="Complexity 0.75: competition maths; also effort `high`.")
    expert: Tokens = Field(default=32_768, description="Complexity 1: proofs, long plans; also `xhigh` and `max`.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.trivial <= self.simple <= self.moderate <= self.hard <= self.expert:
            raise ValueError("caps must not fall: trivial <= simple <= moderate <= hard <= expert")
        return self


class Thinking(Strict):
    """What a pool's model does about thinking, and how far it may go."""

    enabled: bool = Field(default=True, description="false: this pool answers without thinking.")
    can_disable: bool = Field(
        default=True, description="false: it thinks whether asked or not; an off gets the shortest thought."
    )
    max_cap: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=32_768, description="No request thinks longer than this many tokens, whatever it asks for."
    )
    caps: Caps = Field(default_factory=Caps, description="Caps by difficulty, when the client named no number.")
    answer_reserve: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=256, description="Tokens of `max_tokens` that thinking may never eat; at least a tenth is kept anyway."
    )
    native_cap: bool | None = Field(
        default=None,
        description="Tell the engine the cap as well? It is counted anyway. Unset: where the workers can hold one.",
    )
    closing_phrase: str = Field(
        default="\n\nConsidering the limited time, I will give the answer based on the thinking so far.\n",
        description="Said at the end of a thought that was cut, before its close marker.",
    )
    min_tokens: Tokens = Field(
        default=0,
        description="Tokens of thought before which the model is told to think on (never more than the cap). 0: off.",
    )
    think_on_phrase: str = Field(
        default="\n\nWait, let me check this again.\n", description="Said where a thought is too short (`min_tokens`)."
    )
    answer_lead_in: str = Field(
        default="", description="First words of the answer after a cut; helps very small models."
    )


class LoopAction(StrEnum):
    """What is done about text that loops."""

    OFF = "off"
    OBSERVE = "observe"
    RESCUE = "rescue"


class Loops(Strict):
    """What is done about thoughts and answers that go round in circles."""

    action: LoopAction = Field(
        default=LoopAction.RESCUE,
        description="`rescue` cuts a loop out of a thought and goes on to the answer, and ends an answer that loops; "
        "`observe` only counts; `off` does not look.",
    )
    patience: Annotated[float, Field(ge=0.5, le=20)] = Field(
        default=1.0, description="Multiplies all limits of the detector: 2 waits for twice as many copies."
    )
    answer_finish: Literal["length", "stop"] = Field(
        default="length", description="`finish_reason` of an answer that was ended because it looped."
    )


class Hygiene(Strict):
    """Rules a model's makers give for prompts. Applied to what the client sent, never to what it did not ask for."""

    fold_system_prompt: bool = Field(
        default=False, description="Move system messages into the first user turn (DeepSeek-R1)."
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        default=None, description="Used when the client gives none."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="Used when the client gives none."
    )


R1_HYGIENE = Hygiene(fold_system_prompt=True, temperature=0.6, top_p=0.95)
"""DeepSeek's usage recommendations for R1 and its distills (model card, "Usage Recommendations")."""


class Pool(Strict):
    """The workers of one model."""

    model: Name = Field(description="The name clients use for this model; also the one sent to the engine.")
    upstream_model: str | None = Field(default=None, description="The engine's own name for it, where that differs.")
    aliases: tuple[Name, ...] = Field(default=(), description="Other names clients may use.")
    engine: EngineKind = Field(description="The dialect the workers speak.")
    workers: tuple[WorkerUrl, ...] = Field(
        default=(), description="Base addresses, without /v1. Empty only for `embedded`, or with `discover`."
    )
    discover: WorkerUrl | None = Field(
        default=None,
        description="An http:// address whose host name is looked up every 5 s: each IP address found is a worker "
        "(a headless service). Beside `workers`, or instead.",
    )
    api_key: HeaderSecret | None = Field(
        default=None, description="Bearer key the workers want. The client's own key never travels."
    )
    format: Name | None = Field(
        default=None, description="How the model marks its thoughts; found from the model's name if unset."
    )
    engine_splits: bool | None = Field(
        default=None,
        description="Does the engine itself separate thoughts from the answer? Unset: seen from the stream.",
    )
    context_window: Annotated[int, Field(ge=16)] | None = Field(
        default=None, description="Tokens of prompt and output together."
    )
    thinking: Thinking = Field(default_factory=Thinking, description="Switch and budget of thinking.")
    loops: Loops = Field(default_factory=Loops, description="What is done about runaway text.")
    hygiene: Literal["auto", "none"] | Hygiene = Field(
        default="auto",
        description="Prompt rules; `auto` knows DeepSeek-R1 and its distills by name, `none` leaves all as sent.",
    )
    timeouts: Timeouts = Field(default_factory=Timeouts, description="Patience with the engine, in seconds.")
    health: Health = Field(default_factory=Health, description="Polling of the workers.")
    selection: SelectionPolicy = Field(
        default=SelectionPolicy.AFFINITY,
        description="`affinity`: a conversation stays where its prefix is cached, while that worker has no more than "
        "its share; `pressure`: the worker with more room in its KV cache, of two drawn; `rotation`: one by one.",
    )
    weights: Annotated[dict[Name, Annotated[float, Field(gt=0, le=1_000)]], AfterValidator(_by_url)] = Field(
        default_factory=dict[str, float],
        description="Share of the load by worker address, where the workers are not alike; 1 for those not named.",
    )
    max_connections: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1024, description="Connections to one worker."
    )
    idle_connection: Seconds = Field(
        default=3,
        description="Seconds an unused connection is kept; below the 5 s after which vLLM and uvicorn close theirs.",
    )
    tls_verify: bool = Field(default=True, description="Check the certificates of https workers.")

    @model_validator(mode="after")
    def _has_workers(self) -> Self:
        if self.engine is EngineKind.EMBEDDED and (self.workers or self.discover):
            raise ValueError("an embedded pool has no workers of its own: thinkgate starts the engine")
        if self.discover is not None and not self.discover.startswith("http://"):
            raise ValueError("'discover' is an http:// address: no certificate would fit the addresses it leads to")
        if self.engine is not EngineKind.EMBEDDED and not self.workers and not self.discover:
            raise ValueError("a pool needs at least one worker, for example workers: [http://10.0.0.7:8000]")
        if set(self.weights) - set(self.workers):
            raise ValueError("'weights' names an address that is not one of the pool's 'workers'")
        return self


class RouteTarget(Strict):
    """A model name that is not a model: the router picks one of two pools for each request."""

    standard: Name = Field(description="Pool for simple requests.")
    reasoning: Name = Field(description="Pool for requests that need thinking.")


class UserRoute(Strict):
    """A route of your own, tried before the classifier's verdict, in the order of the file."""

    route: Literal["standard", "reasoning"] = Field(description="Where it leads.")
    pool: Name | None = Field(default=None, description="A pool to serve it instead of the route's own.")
    keywords: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Whole words, any of which matches, in any case."
    )
    regex: str | None = Field(default=None, description="Regular expression searched in the last user turn.")
    utterances: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="What people say who belong here; three or more. The threshold is fitted."
    )
    negative_utterances: tuple[str, ...] = Field(default=(), description="What sounds alike and does not belong here.")
    threshold: Annotated[float, Field(ge=-1, le=1)] | None = Field(
        default=None, description="Similarity from which utterances match; unset fits it."
    )

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        if not (self.keywords or self.regex or self.utterances):
            raise ValueError("a route of your own needs keywords, a regex or utterances")
        return self


class Router(Strict):
    """The classifier's knobs. At most one of `threshold`, `max_missed_reasoning`, `target_reasoning_share` is set."""

    mode: Literal["fast", "balanced", "accurate"] = Field(
        default="balanced",
        description="`fast`: words alone; `balanced`: the encoder where words leave doubt; `accurate`: always.",
    )
    threshold: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.5, description="Probability of needing thought from which a request goes to the reasoning pool."
    )
    max_missed_reasoning: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Share of the requests that need thought which may go to the standard pool."
    )
    target_reasoning_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Share of all requests to go to the reasoning pool."
    )
    deadline: Seconds = Field(
        default=0.025, description="Seconds to wait for the encoder; then the lexical verdict counts."
    )
    cache_size: Annotated[int, Field(ge=0, le=10_000_000)] = Field(default=8_192, description="Decisions kept.")
    noise_tags: tuple[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")], ...] = Field(
        default=(), description="Tags whose blocks are dropped from user turns, beside those of the known harnesses."
    )
    routes: dict[Name, UserRoute] = Field(
        default_factory=dict[str, UserRoute], description="Routes of your own, by name."
    )
    head: str | None = Field(default=None, description="Path of a retrained head; unset takes the shipped one.")
    shadow_head: str | None = Field(
        default=None, description="Path of a head that decides too, is counted, and has no effect."
    )
    backend: Literal["onnx", "sentence-transformers"] = Field(
        default="onnx", description="What runs the encoder; the second needs the extra `train`."
    )
    encoder: str | None = Field(
        default=None, description="Folder of a sentence-transformers model of your own; needs a `head` fitted for it."
    )

    @model_validator(mode="after")
    def _has_one_knob(self) -> Self:
        if self.max_missed_reasoning is not None and self.target_reasoning_share is not None:
            raise ValueError("set max_missed_reasoning or target_reasoning_share, not both")
        if "threshold" in self.model_fields_set and (self.max_missed_reasoning or self.target_reasoning_share):
            raise ValueError("threshold is set by the other knob: remove one of them")
        if (self.backend == "sentence-transformers") is not (self.encoder is not None):
            raise ValueError("backend: sentence-transformers and encoder (a folder) go together")
        return self


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
        for name, route in self.router.routes.items():
            if route.pool is not None and route.pool not in self.pools:
                raise ValueError(f"the route {name!r} in 'router' names the pool {route.pool!r}, which does not exist")
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
