"""The hand-offs by their names in thinkgate.yaml, behind one interface. A new one is a file and a line here."""

from __future__ import annotations

from typing import Protocol

from gateway.confighandoff import Disaggregation, HandOffKind, PrefillWorker
from gateway.pools.handoff.base import Pair, Transfer
from gateway.pools.handoff.look import Get
from gateway.pools.handoff.pull import PullWay
from gateway.pools.handoff.push import MooncakeWay, NixlPushWay
from gateway.pools.handoff.sglang import SglangWay


class Way(Protocol):
    """How one pool hands off."""

    can_be_local: bool
    """Can a decode worker prefill by itself?"""
    takes_strangers: bool
    """Is a prefill worker's address all that has to be known of it?"""

    async def look(self, get: Get, source: PrefillWorker) -> str | None:
        """Why a prefill worker cannot hand anything off, beside what its health says; None if it can."""
        ...

    def transfer(self, pair: Pair) -> Transfer: ...


def way_of(settings: Disaggregation) -> Way:
    match settings.handoff:
        case HandOffKind.NIXL:
            return PullWay(settings.lease)
        case HandOffKind.NIXL_PUSH:
            return NixlPushWay()
        case HandOffKind.MOONCAKE:
            return MooncakeWay()
        case HandOffKind.SGLANG:
            return SglangWay()
