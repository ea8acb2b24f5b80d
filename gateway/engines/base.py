"""What an engine's dialect must be able to say, and what all OpenAI-like engines say alike.

A dialect shapes requests; it sends nothing and keeps nothing. A new engine is one more file beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from budgets import Plan, without_thinking_fields
from gateway import output
from gateway.config import Hygiene
from gateway.edge import hygiene
from gateway.engines.cache import KvCache
from gateway.engines.capabilities import Ask, Capabilities, Path
from gateway.engines.load import Load
from parsers import Format, Start, read_reasoning, resolve_start

CHAT_PATH = "/v1/chat/completions"

_THOUGHT_KEYS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
"""Where clients put the thoughts of earlier assistant turns."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a pool knows of its model."""

    model: str
    """The name sent to the engine."""
    format: Format
    rules: Hygiene
    engine_splits: bool | None


@dataclass(frozen=True, slots=True)
class Call:
    """One request to an engine, and how its text has to be read."""

    path: str
    body: dict[str, Any]
    start: Start
    engine_splits: bool | None
    tokenize: tuple[dict[str, Any], ...] = ()
    """Bodies for /tokenize whose ids, one after the other, become this call's prompt, after those of `prompt_ids`."""
    prompt_ids: tuple[int, ...] = ()
    ids_field: str = "prompt"
    """Where the body takes them."""
    hides_ids: bool = False
    """Were token ids asked for by the gateway alone? Then the client is not shown them."""
    hides_usage: bool = False
    """The same for the running usage in every event."""
    misfiled: bool = False
    """Does the engine call an answer thought on this path? Then all it says is read as answer."""
    stops: tuple[str, ...] = ()
    """Stop strings that the gateway matches, on the answer alone; the engine is not told of them."""


@dataclass(frozen=True, slots=True)
class KnownIds:
    """The token ids a leg was given and of what it generated, as the engine told them, and all text that comes after
    them, markers and phrases included."""

    ids: tuple[int, ...]
    rest: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """What the next leg starts from: the thought so far with the phrase put after it, and the first words of the
    answer."""

    thought: str | None
    """None: there was none, and the answer stands alone."""
    answer: str = ""
    known: KnownIds | None = None
    """The same by token ids, where they are known: no template and no tokenizer can then come between."""
    is_open: bool = False
    """Does the thought go on? Then there is no answer yet."""


class Dialect(Protocol):
    """One engine's way of being asked."""

    @property
    def can_be_told_a_cap(self) -> bool:
        """Is there a field for a thinking cap at all? Whether a worker keeps to it is its capabilities' to say."""
        ...

    @property
    def has_slots(self) -> bool:
        """Is a prefix cached in the slot that ran it? Then what goes on from it waits until that slot is free."""
        ...

    @property
    def resuming(self) -> frozenset[Path]:
        """The paths on which a thought can be taken up again, and not only its answer."""
        ...

    async def probe(self, ask: Ask, profile: Profile, phrases: Sequence[str]) -> Capabilities:
        """What a worker can do, by asking it: two tokens are generated at most. `phrases` it counts, if it can."""
        ...

    async def load(self, ask: Ask) -> Load | None:
        """How busy a worker is, whoever made it so; None where it does not say."""
        ...

    async def kv_cache(self, ask: Ask) -> KvCache | None:
        """What its KV cache is made of; None where it is handed to nobody."""
        ...

    def chat(self, body: Mapping[str, Any], profile: Profile, plan: Plan) -> Call:
        """The first leg of a chat request. `body` is a client's, already checked; it is not changed."""
        ...

    def paths(self, body: Mapping[str, Any], record: Format) -> tuple[Path, ...]:
        """By which paths this request could go on after a cut with every promise kept, the most trusted first."""
        ...

    def refuses_cap(self, status: int, message: str) -> bool:
        """Does this refusal say that the engine will not be told a thinking cap?"""
        ...

    def onward(self, first: Call, prefix: Prefix, profile: Profile, limit: int | None, path: Path) -> Call:
        """The leg after `first` that goes on from `prefix`, by one of `paths`, for `limit` tokens at most."""
        ...


def shape_chat(
    body: Mapping[str, Any], profile: Profile, plan: Plan, *, thought_key: str | None, effort_in_kwargs: bool = False
) -> dict[str, Any]:
    """What every engine is sent: the client's body in the engine's words.

    Always streamed, since no engine reliably notices that a unary client has gone; always with usage, since a client
    that does not ask for it must not escape the ledger. `thought_key` is the name under which the engine reads the
    thoughts of earlier turns, None to leave them as they are; `effort_in_kwargs` says that only its template knows a
    reasoning effort.
    """
    shaped = {key: value for key, value in without_thinking_fields(body).items() if key not in output.FIELDS}
    shaped["model"] = profile.model
    shaped["stream"] = True
    options = shaped.get("stream_options")
    known = cast("dict[str, Any]", options) if isinstance(options, dict) else {}
    shaped["stream_options"] = {**known, "include_usage": True}
    if plan.limit is not None:
        name = "max_completion_tokens" if "max_completion_tokens" in shaped else "max_tokens"
        shaped.pop("max_tokens", None)
        shaped[name] = plan.limit
    hygiene.apply(shaped, profile.rules)
    if thought_key is not None:
        shaped["messages"] = [_with_thought_as(thought_key, message) for message in shaped["messages"]]
    if switches := profile.format.switch_kwargs(plan.thinks):
        kwargs = shaped.get("chat_template_kwargs")
        given = cast("dict[str, Any]", kwargs) if isinstance(kwargs, dict) else {}
        shaped["chat_template_kwargs"] = {**given, **_still_needed(switches, given, profile.format, plan)}
    if plan.thinks and plan.effort is not None and (word := profile.format.effort_for(plan.effort)) is not None:
        in_kwargs = effort_in_kwargs or "reasoning_effort" in profile.format.switch
        _tell_effort(shaped, word, in_kwargs=in_kwargs)
    if profile.format.needs_special_tokens and profile.engine_splits is False:
        shaped.setdefault("skip_special_tokens", False)  # else the markers never reach the text that is parsed here
    return shaped


def _tell_effort(shaped: dict[str, Any], word: str, *, in_kwargs: bool) -> None:
    """One word in one place: SGLang lets the template's own argument win over the field."""
    kwargs = shaped.get("chat_template_kwargs")
    given = dict(cast("dict[str, Any]", kwargs)) if isinstance(kwargs, dict) else {}
    given.pop("reasoning_effort", None)
    if in_kwargs:
        given["reasoning_effort"] = word
    else:
        shaped["reasoning_effort"] = word
    if given:
        shaped["chat_template_kwargs"] = given
    else:
        shaped.pop("chat_template_kwargs", None)


def _still_needed(
    switches: Mapping[str, object],
    given: Mapping[str, Any],
    record: Format,
    plan: Plan,
) -> dict[str, object]:
    """The switches, but for one that the client set to a value of its own which says the same: a level keeps it on."""
    if not plan.thinks:
        return dict(switches)
    off = record.switch_kwargs(False)
    return {name: value for name, value in switches.items() if name not in given or given[name] == off[name]}


def take_stops(shaped: dict[str, Any], plan: Plan) -> tuple[str, ...]:
    """The stop strings of a body that the gateway takes over, since the model thinks; they are taken out of it.

    They stay with the engine when the client wants them in the text, which only the engine can tell apart.
    """
    given = shaped.get("stop")
    stops = (
        (given,) if isinstance(given, str) else tuple(cast("list[object]", given)) if isinstance(given, list) else ()
    )
    wanted = shaped.get("include_stop_str_in_output") or shaped.get("no_stop_trim")
    if not plan.thinks or wanted or not stops or not all(isinstance(stop, str) and stop for stop in stops):
        return ()
    del shaped["stop"]
    return cast("tuple[str, ...]", stops)


def _with_thought_as(key: str, message: Mapping[str, Any]) -> Mapping[str, Any]:
    """An earlier turn with its thought under the name that the engine's template is given; one copy, one name."""
    if message.get("role") != "assistant" or not any(message.get(name) is not None for name in _THOUGHT_KEYS):
        return message
    thought = read_reasoning(message)
    renamed = {name: value for name, value in message.items() if name not in _THOUGHT_KEYS}
    return renamed if thought is None else {**renamed, key: thought}


def start_of(profile: Profile, plan: Plan) -> Start:
    return resolve_start(profile.format, thinking=plan.thinks)
