"""Who is calling: the key of a request, as far as keys are configured at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.config import ApiKey, ReasoningOutput
from gateway.edge.errors import forbidden, unauthorized
from gateway.edge.keys import KeyRing, read_bearer


@dataclass(frozen=True, slots=True)
class Home:
    """A key's default route, and the pool that serves it if not the route's own."""

    route: Literal["standard", "reasoning"]
    pool: str | None


@dataclass(frozen=True, slots=True)
class Caller:
    """`alias` is what logs and metrics may show."""

    alias: str
    is_admin: bool
    reasoning_output: ReasoningOutput | None = None
    home: Home | None = None
    """Where its requests to a routed name go; None leaves that to the classifier."""


ANYONE = Caller("anyone", is_admin=True)
"""Everybody, where no keys are configured; the config allows that on loopback only, unless told otherwise."""


class Gate:
    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._ring = KeyRing(keys)

    def admit(self, headers: Mapping[str, str]) -> Caller:
        """The caller. Raises ApiError (401), which says nothing of what was presented."""
        if not self._ring:
            return ANYONE
        presented = read_bearer(headers.get("authorization"))
        if presented is None:
            raise unauthorized("Send an API key as `Authorization: Bearer …`.")
        key = self._ring.find(presented)
        if key is None:
            raise unauthorized("This API key is not known here.")
        home = Home(key.route, key.pool) if key.route is not None else None
        return Caller(key.alias, key.admin, key.reasoning_output, home)

    def admit_admin(self, headers: Mapping[str, str]) -> Caller:
        """The caller, if it may administer. Raises ApiError (401, 403)."""
        caller = self.admit(headers)
        if not caller.is_admin:
            raise forbidden("This API key may not administer the gateway.")
        return caller
