"""The vocabulary that flows between the rooms: what one generation streams, typed, one kind each.

No bytes of HTTP and no engine's spelling: `reading` makes deltas of an engine's bytes, `api.emit` bytes of deltas.
"""

from __future__ import annotations

import msgspec

from parsers import Field


class Extras(msgspec.Struct, gc=False, omit_defaults=True, frozen=True):
    """What an engine hangs on a choice besides text. Carried along untouched, as JSON."""

    logprobs: msgspec.Raw | None = None
    token_ids: msgspec.Raw | None = None
    stop_reason: msgspec.Raw | None = None
    matched_stop: msgspec.Raw | None = None


class Begin(msgspec.Struct, gc=False):
    """A choice has started (the role chunk)."""

    index: int


class Text(msgspec.Struct, gc=False):
    """A piece of one field, reasoning or content.

    `raw` is the engine's event where it says just this, under the key `raw_key`; then its bytes can travel as they are.
    `ids` are the token ids that came with it, as far as the engine tells them.
    """

    index: int
    field: Field
    text: str
    tokens: int | None = None
    extras: Extras | None = None
    raw: bytes | None = None
    raw_key: str = ""
    ids: list[int] | None = None


class ToolCalls(msgspec.Struct, gc=False):
    """Fragments of tool calls, as the engine wrote them: a JSON array."""

    index: int
    calls: msgspec.Raw
    extras: Extras | None = None


class Finish(msgspec.Struct, gc=False):
    """A choice has ended, as the engine says."""

    index: int
    reason: str
    extras: Extras | None = None


class Usage(msgspec.Struct, gc=False):
    """The engine's own account of a leg, in tokens."""

    prompt: int
    completion: int
    cached: int | None = None
    is_running: bool = False
    """Told beside a choice: a total so far, to be replaced by the next."""


class Opaque(msgspec.Struct, gc=False):
    """An event that carries nothing we know (logprobs of a withheld token, an engine's extension). Passed on."""

    raw: bytes


Delta = Begin | Text | ToolCalls | Finish | Usage | Opaque
