"""What another configuration means for each pool: whether it stays, under which settings, and with which workers.

Pure. Who comes and goes is what differs between the two files: a worker that an administrator took in or drained is in
neither, and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.config import Config
from gateway.config import Pool as PoolConfig


class Fate(StrEnum):
    """What becomes of a pool."""

    KEPT = "kept"
    """Nothing has changed."""
    CHANGED = "changed"
    """Other settings or other workers; those that stay keep their states."""
    REPLACED = "replaced"
    """Another engine, model or trust under the same name: no worker of the old one is known to serve it."""
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """`came` and `left`: addresses of workers that the file names now, or no more."""

    fate: Fate
    came: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def changes(old: Config, new: Config) -> dict[str, Change]:
    """Of every pool that either of them has."""
    found: dict[str, Change] = {}
    for name in {**old.pools, **new.pools}:
        before, after = old.pools.get(name), new.pools.get(name)
        if after is None:
            assert before is not None
            found[name] = Change(Fate.REMOVED, left=before.workers)
        elif before is None:
            found[name] = Change(Fate.ADDED, came=after.workers)
        elif _served(before) != _served(after):
            found[name] = Change(Fate.REPLACED, came=after.workers, left=before.workers)
        elif before == after and _format(old, before) == _format(new, after):
            found[name] = Change(Fate.KEPT)
        else:
            came = tuple(url for url in after.workers if url not in before.workers)
            left = tuple(url for url in before.workers if url not in after.workers)
            found[name] = Change(Fate.CHANGED, came, left)
    return found


def _served(pool: PoolConfig) -> tuple[object, ...]:
    """What a worker has proved of itself when it is ready, and what its connections stand on."""
    return pool.engine, pool.upstream_model or pool.model, pool.tls_verify, pool.disaggregation


def _format(config: Config, pool: PoolConfig) -> object:
    """The user's own record of a pool's format, which may change under its name."""
    return None if pool.format is None else config.formats.get(pool.format)
