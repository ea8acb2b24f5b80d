"""A pool's part of thinkgate.yaml: its model, its workers, what is done about thinking and loops, and its patience.

Keys, types, ranges, defaults and what they mean; no wiring.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gateway.confighandoff import Disaggregation, HandOffKind, loopback
from gateway.configvalues import HeaderSecret, Name, Seconds, Strict, Tokens, WorkerUrl, by_url


class EngineKind(StrEnum):
    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMACPP = "llamacpp"
    OPENAI = "openai"
    EMBEDDED = "embedded"


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
    pace_window: Seconds = Field(
        default=10,
        description="Seconds of generating that are compared at a time, to find workers much slower than their pool.",
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
    weights: Annotated[dict[Name, Annotated[float, Field(gt=0, le=1_000)]], AfterValidator(by_url)] = Field(
        default_factory=dict[str, float],
        description="Share of the load by worker address, where the workers are not alike; 1 for those not named.",
    )
    disaggregation: Disaggregation | None = Field(
        default=None, description="Prefill workers in front of `workers`, which then decode. Unset: they do both."
    )
    gpus: Annotated[float, Field(ge=0, le=100_000)] | None = Field(
        default=None,
        description="GPUs of one worker, for `thinkgate_gpu_seconds_total`. Unset: 1, and 0 for `openai`, whose GPUs "
        "are not yours.",
    )
    worker_gpus: Annotated[dict[Name, Annotated[float, Field(ge=0, le=100_000)]], AfterValidator(by_url)] = Field(
        default_factory=dict[str, float],
        description="GPUs by worker address, where the workers are not alike; `gpus` for those not named.",
    )
    gpu_hour_price: Annotated[float, Field(ge=0, le=1_000_000)] | None = Field(
        default=None,
        description="What a GPU costs an hour, in any currency, for `thinkgate_gpu_cost_total`. Unset: none is told.",
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
        parts = self.disaggregation
        others = () if parts is None else (*(one.url for one in parts.prefill), *parts.encode)
        for key, named, known in (
            ("weights", self.weights, set(self.workers)),
            ("worker_gpus", self.worker_gpus, {*self.workers, *others}),
        ):
            if set(named) - known:
                raise ValueError(f"{key!r} names an address that is not one of the pool's 'workers'")
        return self

    @model_validator(mode="after")
    def _has_pairs(self) -> Self:
        """A hand-off that cannot work is an error here, and not a hang of 300 s at the first request."""
        parts = self.disaggregation
        if parts is None:
            return self
        wanted = EngineKind.SGLANG if parts.handoff is HandOffKind.SGLANG else EngineKind.VLLM
        if self.engine is not wanted:
            raise ValueError(
                f"the hand-off '{parts.handoff}' is for the engine '{wanted}', and the pool's is '{self.engine}'"
            )
        prefill = [one.url for one in parts.prefill]
        everyone = [*self.workers, *prefill, *parts.encode]
        twice = sorted({url for url in everyone if everyone.count(url) > 1})
        if twice:
            raise ValueError(f"{twice[0]} has two roles: a worker decodes, prefills or encodes")
        if strangers := sorted(set(parts.groups) - set(everyone)):
            raise ValueError(f"'groups' names {strangers[0]}, which is no worker of the pool")
        for one in parts.prefill:
            if parts.handoff is HandOffKind.NIXL_PUSH and one.engine_id is None:
                raise ValueError(f"{one.url} needs its 'engine_id': 'nixl-push' tells it to the decode workers")
            afar = [url for url in self.workers if not loopback(urlsplit(url).hostname or "")]
            if afar and loopback(one.host):
                raise ValueError(
                    f"{afar[0]} would take the 'kv_host' {one.host!r} of {one.url} for itself: name another"
                )
        if wanted is EngineKind.SGLANG and parts.encode:
            raise ValueError("SGLang's prefill workers find their encoders themselves: start them with --encoder-urls")
        if wanted is EngineKind.SGLANG and parts.without_prefill == "local":
            raise ValueError("SGLang's decode workers cannot prefill: 'without_prefill' must be 'refuse'")
        return self


def gpus_of(pool: Pool, url: str) -> float:
    """GPUs of the worker at this address."""
    usual = (0.0 if pool.engine is EngineKind.OPENAI else 1.0) if pool.gpus is None else pool.gpus
    return pool.worker_gpus.get(url, usual)
