"""A legacy completion for several prompts, or several answers, as requests for one each; and their answers as one.

Pure. Choices are numbered as OpenAI numbers them: all of the first prompt, then all of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from gateway.edge.errors import bad_request

Object = dict[str, Any]

MOST = 1_024
"""Answers that one request may ask for: each is a request of its own to two workers."""


def choices_of(body: Object) -> int:
    """Answers to each prompt."""
    choices = body.get("n")
    return choices if isinstance(choices, int) and choices > 1 else 1


def singles(body: Object) -> list[Object]:
    """One body for each choice that is asked for, in their order; the body itself where that is one. Raises ApiError
    (400) for too many."""
    prompts, count = _prompts(body.get("prompt")), choices_of(body)
    if len(prompts) == 1 and count == 1:
        return [body]
    if len(prompts) * count > MOST:
        raise bad_request(f"`prompt` and `n` ask for more than {MOST} answers.", param="prompt", code="invalid_value")
    seed = body.get("seed")
    alike = {name: value for name, value in body.items() if name != "n"}
    return [
        {**alike, "prompt": prompt, **({"seed": seed + place} if isinstance(seed, int) else {})}
        for prompt in prompts
        for place in range(count)
    ]


def _prompts(prompt: object) -> list[object]:
    """A list of numbers is one prompt, in tokens."""
    if not isinstance(prompt, list) or not prompt or isinstance(prompt[0], int):
        return [prompt]
    return cast("list[object]", prompt)


def whole_of(answers: Sequence[bytes], each: int) -> bytes:
    """Unary answers as one; `each` of them in a row are to the same prompt."""
    parts = [msgspec.json.decode(answer, type=Object) for answer in answers]
    choices = [{**choice, "index": index} for index, part in enumerate(parts) for choice in part.get("choices") or ()]
    usage = usage_of([part.get("usage") for part in parts], each)
    return msgspec.json.encode({**parts[0], "choices": choices, "usage": usage})


def usage_of(usages: Sequence[object], each: int) -> Object | None:
    """The sum, number by number, of each prompt once; None where an answer told none."""
    known = [cast("Object", usage) for usage in usages if isinstance(usage, dict)]
    if len(known) < len(usages) or not known:
        return None
    total = {
        name: _sum([usage.get(name) for usage in (known[::each] if name.startswith("prompt_") else known)])
        for name in known[0]
    }
    if isinstance(prompt := total.get("prompt_tokens"), int) and isinstance(
        told := total.get("completion_tokens"), int
    ):
        total["total_tokens"] = prompt + told
    return total


def _sum(values: Sequence[object]) -> object:
    """Of numbers, or of objects of numbers; None where some are missing."""
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) == len(values):
        return sum(numbers)
    inner = [cast("Object", value) for value in values if isinstance(value, dict)]
    if len(inner) < len(values):
        return None
    return {name: _sum([one.get(name) for one in inner]) for name in inner[0]}


class Joiner:
    """Events of several streams as those of one: one id, one usage at the end."""

    def __init__(self, streams: int, each: int) -> None:
        self._usages: list[object] = [None] * streams
        self._each = each
        self._head: Object = {}

    def event(self, index: int, event: bytes) -> bytes | None:
        """An event of stream `index`; None for its usage, which waits for the others."""
        fields = msgspec.json.decode(event, type=Object)
        self._head = self._head or {name: fields.get(name) for name in ("id", "object", "created", "model")}
        usage = fields.pop("usage", None)
        if usage is not None:
            self._usages[index] = usage
        choices = cast("list[Object]", fields.get("choices") or [])
        if not choices:
            return None
        return msgspec.json.encode({**fields, **self._head, "choices": [{**one, "index": index} for one in choices]})

    def end(self) -> bytes | None:
        """The usage of all, if all told theirs."""
        usage = usage_of(self._usages, self._each)
        return None if usage is None else msgspec.json.encode({**self._head, "choices": [], "usage": usage})
