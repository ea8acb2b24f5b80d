"""What differs between two configurations: keys by their path, and those that only a restart can change.

Pure, and silent about values: any value may be a secret. What a difference means for a pool is `pools.changes`'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

from gateway.config import ApiKey, Config
from gateway.configerrors import path_of
from gateway.configschema import Place

FIXED: Final[Sequence[Place]] = (
    ("server", "host"),
    ("server", "port"),
    ("server", "drain"),
    ("embedded",),
    ("tracing",),
)
"""What stays as it was when the process began: its socket, what its end was told, its engine's child process, and where
its spans go."""


def changed_keys(old: Config, new: Config) -> list[str]:
    """The keys that differ, as messages name them, in the order of the tables; a client key by its alias."""
    return [path_of(place) for place in _differences(old, new, ())]


def pinned(wanted: Config, running: Config) -> tuple[Config, list[str]]:
    """`wanted` as far as it can be had without a restart, and the keys that cannot.

    Raises ValueError where the two do not go together: no keys, for a socket that the world can reach.
    """
    fixed = [place for place in FIXED if _at(wanted, place) != _at(running, place)]
    if not fixed:
        return wanted, []
    server = wanted.server.model_copy(update={place[-1]: _at(running, place) for place in fixed if len(place) > 1})
    fields = {name: getattr(wanted, name) for name in Config.model_fields}
    mixed = {**fields, "server": server, "embedded": running.embedded, "tracing": running.tracing}
    return validated(mixed), [key for place in fixed for key in _paths(wanted, running, place)]


def validated(fields: dict[str, Any]) -> Config:
    """A Config of parts that are fine each for itself. Raises ValueError with one sentence."""
    try:
        return Config.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = f" at {path_of(first['loc'])}" if first["loc"] else ""
        raise ValueError(f"{first['msg'].removeprefix('Value error, ')}{where}") from None


def _paths(wanted: Config, running: Config, place: Place) -> list[str]:
    return [path_of(found) for found in _differences(_at(running, place), _at(wanted, place), place)]


def _at(config: Config, place: Place) -> Any:
    found: Any = config
    for step in place:
        found = getattr(found, str(step))
    return found


def _differences(old: Any, new: Any, place: Place) -> list[Place]:
    before, after = _parts(old), _parts(new)
    if before is None or after is None or type(old) is not type(new):
        return [] if old == new else [place]
    found: list[Place] = []
    for name in {**before, **after}:
        below = (*place, name)
        if name in before and name in after:
            found += _differences(before[name], after[name], below)
        else:
            found.append(below)
    if not found and list(before) != list(after):
        return [place]  # the order counts: of routes, of what /v1/models lists
    return found


def _parts(value: Any) -> dict[str, Any] | None:
    """What has names inside; None of a value that changes as a whole."""
    if isinstance(value, ApiKey):
        return None
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if isinstance(value, tuple):
        entries = cast("tuple[object, ...]", value)
        keys = [entry for entry in entries if isinstance(entry, ApiKey)]
        return {key.alias: key for key in keys} if len(keys) == len(entries) else None
    return None
