"""The router's part of thinkgate.yaml: its knobs, and routes of one's own. Keys and what they mean; no wiring."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.configvalues import Name, Seconds, Strict


class UserRoute(Strict):
    """A route of your own, tried before the classifier's verdict, in the order of the file."""

    route: Literal["standard", "reasoning"] = Field(description="Where it leads.")
    pool: Name | None = Field(
        default=None, description="A pool (or a model, for its pool) to serve it instead of the route's own."
    )
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
    folder: str | None = Field(
        default=None,
        description="Folder of a fine-tuned router (`thinkgate router finetune`) instead of the shipped one.",
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
