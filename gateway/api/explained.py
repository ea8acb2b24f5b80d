"""The shape of a routing decision told in full: what `POST /v1/route` answers and `thinkgate explain --json` prints.

Every field is documented here, once; the OpenAPI schema is made from it. Probabilities are 0..1. Nothing is decided.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from router import Explanation


class PlanTold(BaseModel):
    """What will be enforced."""

    how: str = Field(description="`off` (no thought), `cut`, `native` or `none`: by what means the thought is held.")
    thinking_cap: int | None = Field(description="Most thinking tokens; null where there is no thought, or no cap.")
    answer_reserve: int = Field(description="Tokens kept for the answer.")
    max_tokens: int | None = Field(description="Most tokens of thought and answer together, as the client set it.")
    source: str = Field(description="What decided the cap: a field of the request, or `complexity`, `max_cap`, ….")


class HistoryTold(BaseModel):
    """What the turns before the last one did."""

    effect: Literal["none", "read", "held up", "go-ahead"] = Field(
        description="`none`; `read` beside the last turn; `held up`: a short follow-up took a share of the turn "
        "before, raised at once and released slowly; `go-ahead`: the turn it approves was judged instead."
    )
    p_without: float = Field(description="Calibrated probability of the last turn alone.")
    p_before: float | None = Field(description="Probability of the turn before, where it could count.")


class ExemplarTold(BaseModel):
    """A shipped prompt that lies near."""

    similarity: float = Field(description="Cosine, -1..1.")
    label: Literal["simple", "reasoning"]
    text: str


class FeatureTold(BaseModel):
    """A count of words or marks."""

    name: str
    adds: float = Field(description="To the logit of a model of words alone; positive speaks for reasoning.")


class SentenceTold(BaseModel):
    """One sentence of the ask."""

    text: str
    p_falls_by: float = Field(description="What the calibrated probability loses without this sentence.")


class ExplanationTold(BaseModel):
    """The classifier's verdict and all that went into it."""

    route: Literal["standard", "reasoning"]
    target: str | None = Field(description="The pool or model that one of `router.routes` names.")
    rule: str | None = Field(description="Which of `router.routes` matched.")
    tier: str = Field(description="What decided: `rule`, `cheap` or `encoder`.")
    complexity: float = Field(description="How hard the ask is, 0..1.")
    confidence: float = Field(description="Probability that the route is right.")
    p_reasoning: float = Field(description="Probability in force: after calibration, history and policy.")
    p_raw: float = Field(description="As the encoder's head gives it, before calibration.")
    p_calibrated: float = Field(description="Calibrated, before history, system prompt and script moved it.")
    p_cheap: float = Field(description="The cheap tier's, calibrated.")
    threshold: float = Field(description="The probability from which an ask goes to reasoning.")
    margin: float = Field(description="`p_reasoning` minus `threshold`.")
    history: HistoryTold
    clipped: bool = Field(description="Was the ask longer than what is looked at?")
    reasons: list[str] = Field(description="In words, strongest first; no text of the user.")
    exemplars: list[ExemplarTold] = Field(description="The five nearest shipped prompts, nearest first.")
    features: list[FeatureTold] = Field(description="The six lexical features that weigh most, strongest first.")
    sentences: list[SentenceTold] = Field(description="What each sentence adds; empty for a single one.")

    @classmethod
    def of(cls, explanation: Explanation) -> ExplanationTold:
        return cls.model_validate(explanation.as_json())


class RouteTold(BaseModel):
    """What thinkgate would do with a chat request, and why."""

    object: Literal["thinkgate.route"] = "thinkgate.route"
    model: str = Field(description="As asked for.")
    route: Literal["standard", "reasoning"] = Field(description="The route in force.")
    pool: str = Field(description="The pool that would serve it.")
    pool_model: str = Field(description="That pool's model.")
    tier: str = Field(
        description="What decided: `rule` (the client's own words about thinking, a named model, a rule, a route of "
        "the operator's, the key's default), `cheap`, `encoder`, `lexical` (in haste) or `default` (no time at all)."
    )
    complexity: float
    confidence: float
    p_reasoning: float
    reasons: list[str]
    plan: PlanTold
    explanation: ExplanationTold = Field(
        description="What the classifier says of the ask, also where something stronger decided."
    )


def read_aloud(told: ExplanationTold) -> str:
    """An explanation as lines for a terminal."""
    head = f"{told.route} ({told.tier}; confidence {told.confidence:.2f}, complexity {told.complexity:.2f})"
    lines = [head, *(f"  - {reason}" for reason in told.reasons), "", "probability of needing reasoning"]
    lines += [
        f"  {name:<24}{value:.3f}"
        for name, value in (
            ("words alone", told.p_cheap),
            ("encoder, raw", told.p_raw),
            ("calibrated", told.p_calibrated),
            ("in force", told.p_reasoning),
            ("threshold", told.threshold),
        )
    ]
    lines.append(f"  {'margin':<24}{told.margin:+.3f}")
    lines.append(_history(told.history))
    if told.clipped:
        lines.append("only the head and the tail of the text were looked at")
    lines += ["", "words and marks that weigh most (+ speaks for reasoning)"]
    lines += [f"  {feature.adds:+.2f}  {feature.name}" for feature in told.features]
    if told.sentences:
        lines += ["", "what each sentence adds"]
        lines += [f"  {sentence.p_falls_by:+.3f}  {sentence.text}" for sentence in told.sentences]
    lines += ["", "nearest shipped prompts"]
    lines += [f"  {one.similarity:.2f}  {one.label:<10}{one.text}" for one in told.exemplars]
    return "\n".join(lines)


def _history(history: HistoryTold) -> str:
    alone = f"the last turn alone has {history.p_without:.3f}"
    before = "" if history.p_before is None else f", the turn before it {history.p_before:.3f}"
    return f"history: {history.effect} ({alone}{before})"
