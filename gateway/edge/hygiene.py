"""What may travel from a client's body to an engine, and the prompt rules of some models.

Unknown fields pass untouched: engines have many. The few that could hurt another request or the engine itself are
refused or taken out here, and only here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from gateway.config import R1_HYGIENE, Hygiene
from gateway.edge.errors import ApiError, bad_request

FORBIDDEN = frozenset(
    {
        # Hand-off of KV between workers: lets a client dial hosts, read blocks of others, or kill a vLLM engine core.
        "kv_transfer_params",
        "ec_transfer_params",
        "bootstrap_host",
        "bootstrap_port",
        "bootstrap_room",
        "bootstrap_pair_key",
        "pair_key",
        "decode_tp_size",
        "disagg_prefill_dp_rank",
        "encoder_urls",
        "num_items_assigned",
        "need_wait_for_mm_inputs",
        # Code execution: SGLang unpickles the one, vLLM imports the classes named in the other.
        "custom_logit_processor",
        "logits_processors",
        # Placement and identity inside the cluster are the gateway's to give.
        "routed_dp_rank",
        "data_parallel_rank",
        "rid",
        "request_id",
        # A template from a client runs in the engine.
        "chat_template",
        "lora_path",
        # Another client's open session in the engine.
        "session_params",
    }
)
"""Refused with 400: whoever sends them means them, and silence would be worse."""

STRIPPED = frozenset({"priority", "cache_salt", "extra_key", "session_id"})
"""Taken out in silence: scheduling and cache belong to the operator; an answer is the same without them."""

_R1_NAMES = ("deepseek-r1", "deepseek_r1", "r1-distill")


def checked(body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the body that may travel on. Raises ApiError (400, `forbidden_field`) on a dangerous field."""
    for field in body:
        if field in FORBIDDEN:
            raise _forbidden(field)
    for outer, inner in (
        ("vllm_xargs", {"kv_transfer_params", "ec_transfer_params"}),
        ("chat_template_kwargs", {"chat_template"}),
    ):
        nested = body.get(outer)
        if isinstance(nested, Mapping):
            for field in inner & set(cast("Mapping[str, Any]", nested)):
                raise _forbidden(f"{outer}.{field}")
    return {key: value for key, value in body.items() if key not in STRIPPED}


def hygiene_for(model: str, setting: Hygiene | str) -> Hygiene:
    """A pool's rules: its own, or those known for the model's name."""
    if isinstance(setting, Hygiene):
        return setting
    name = model.lower()
    return R1_HYGIENE if setting == "auto" and any(mark in name for mark in _R1_NAMES) else Hygiene()


def apply(body: dict[str, Any], rules: Hygiene) -> None:
    """Apply a model's prompt rules to a body, in place. Messages are replaced, never changed."""
    if rules.fold_system_prompt:
        body["messages"] = fold_system(body["messages"])
    if rules.temperature is not None and body.get("temperature") is None:
        body["temperature"] = rules.temperature
    if rules.top_p is not None and body.get("top_p") is None:
        body["top_p"] = rules.top_p


def fold_system(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """System and developer messages moved to the front of the first user turn; the order of all else is kept."""
    system = [message for message in messages if message.get("role") in {"system", "developer"}]
    if not system:
        return list(messages)
    text = "\n\n".join(part for message in system if (part := _text_of(message.get("content"))))
    rest = [message for message in messages if message.get("role") not in {"system", "developer"}]
    for place, message in enumerate(rest):
        if message.get("role") == "user":
            rest[place] = {**message, "content": _with_prefix(text, message.get("content"))}
            return rest
    return [{"role": "user", "content": text}, *rest]


def _with_prefix(text: str, content: object) -> object:
    if not text:
        return content
    if isinstance(content, list):
        return [{"type": "text", "text": text + "\n\n"}, *cast("list[object]", content)]
    return f"{text}\n\n{content}" if content else text


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts: list[str] = []
    for part in cast("list[object]", content):
        text = cast("Mapping[str, object]", part).get("text") if isinstance(part, Mapping) else None
        if isinstance(text, str):
            parts.append(text)
    return "\n".join(parts)


def _forbidden(field: str) -> ApiError:
    return bad_request(f"`{field}` may not be sent through this gateway.", param=field, code="forbidden_field")
