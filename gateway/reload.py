"""Takes over a changed configuration while requests are served: read, checked, swapped in; or the old one stays.

Everything that can fail or takes time comes first, off the event loop. The swap is one step between two requests: those
that come later see only the new configuration, those that have begun go on under the old. Also the one who closes a
pool that is no longer named, once nothing runs there. What differs is `configchanges`' and `pools.changes`' to say.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from time import time
from typing import Any

import structlog

from gateway.config import Config, EngineKind
from gateway.configchanges import changed_keys, pinned
from gateway.configerrors import ConfigError, Problem
from gateway.configsource import Source
from gateway.observe.logs import configure_logs
from gateway.pools import Pool, Registry
from gateway.pools.changes import Change, Fate, changes
from gateway.pools.turnover import disband, is_over, look, turn_over
from gateway.pools.watches import Watches
from gateway.routing import Routing
from gateway.service import Service
from router import RouterUnavailable

log = structlog.get_logger("thinkgate.reload")

INTERVAL = 1.0
"""Seconds between two looks at the file, and at what still drains. Reading a small file takes microseconds, works on
every file system, and needs no notion of how a change was made."""


class By(StrEnum):
    """Who wanted it."""

    SIGNAL = "SIGHUP"
    ADMIN = "/admin/reload"
    FILE = "the file has changed"


class NothingToReload(Exception):
    """thinkgate runs without a configuration file."""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it, without values. `needs_restart`: keys that stay as they are until the process starts anew."""

    changed: tuple[str, ...]
    pools: dict[str, Change]
    needs_restart: tuple[str, ...]

    def shown(self) -> dict[str, Any]:
        """For the administrator and the log."""
        shown: dict[str, Any] = {"changed": list(self.changed), "needs_restart": list(self.needs_restart)}
        for name, change in self.pools.items():
            if change.fate is not Fate.KEPT:
                workers = {"workers_added": list(change.came), "workers_drained": list(change.left)}
                told = {kind: urls for kind, urls in workers.items() if urls}
                shown.setdefault("pools", {})[name] = {"fate": change.fate.value, **told}
        return shown


class Reloader:
    def __init__(self, service: Service, source: Source) -> None:
        self._service = service
        self._source = source
        self._watches: Watches | None = None
        self._asked = asyncio.Event()
        self._lock = asyncio.Lock()
        self._has_engine = any(pool.engine is EngineKind.EMBEDDED for pool in service.config.pools.values())
        self._note_success()

    def ask(self) -> None:
        """Reload soon; for a signal. Several in a row are one."""
        self._asked.set()

    async def run(self, watches: Watches) -> None:
        """Until cancelled: reload when asked to and when the file changes, and see off what drains."""
        self._watches = watches
        while True:
            try:
                async with asyncio.timeout(INTERVAL):
                    await self._asked.wait()
            except TimeoutError:
                await self._tend()
            else:
                self._asked.clear()
                await self._try(By.SIGNAL)

    async def reload(self, by: By) -> Report:
        """Raises ConfigError, or NothingToReload: then all is as it was."""
        if self._source.file is None:
            raise NothingToReload
        async with self._lock:
            try:
                report = await self._reload()
            except ConfigError as error:
                self._note_failure()
                lines = [str(problem) for problem in error.problems]
                log.error("configuration not reloaded, the old one stays in force", by=by, problems=lines)
                raise
            except Exception:
                self._note_failure()
                raise
            self._note_success()
            outcome = "applied" if report.changed else "unchanged"
            self._service.metrics.reloads.labels(outcome).inc()
            write = log.warning if report.needs_restart else log.info
            write("configuration reloaded", by=by, outcome=outcome, **report.shown())
            return report

    async def _tend(self) -> None:
        """What there is to do when nobody asks. What nobody has thought of must not end the gateway."""
        try:
            for pool in self._service.registry.pools.values():
                look(pool)
            for pool in [pool for pool in self._service.retired if is_over(pool)]:
                self._close(pool)
            has_changed = self._source.file is not None and await asyncio.to_thread(self._source.has_changed)
        except Exception:
            log.exception("what drains, or the file, cannot be looked at")
            return
        if has_changed:
            await self._try(By.FILE)

    async def _try(self, by: By) -> None:
        try:
            await self.reload(by)
        except NothingToReload:
            log.warning("there is nothing to reload: thinkgate was started without a configuration file", by=by)
        except ConfigError:
            return  # it was told
        except Exception:
            log.exception("reload failed, the old configuration stays in force", by=by)

    async def _reload(self) -> Report:
        running = self._service.config
        wanted = await asyncio.to_thread(self._source.load)
        try:
            new, needs_restart = pinned(wanted, running)
        except ValueError as error:
            raise self._refusal("", str(error)) from None
        for name, pool in new.pools.items():
            if pool.engine is EngineKind.EMBEDDED and not self._has_engine:
                raise self._refusal(f"pools.{name}.engine", "the first embedded pool needs a restart")
        changed = changed_keys(running, new)
        routing = self._service.routing
        if any(key.split(".")[0] == "router" for key in changed):
            routing = await self._renewed(routing, running, new)
        pools = self._swap(new, routing, changed) if changed else {}
        return Report(tuple(changed), pools, tuple(needs_restart))

    async def _renewed(self, routing: Routing, running: Config, new: Config) -> Routing:
        try:
            return await asyncio.to_thread(routing.renewed, running.router, new.router)
        except (RouterUnavailable, ValueError) as error:
            raise self._refusal("router", str(error)) from None

    def _refusal(self, path: str, message: str) -> ConfigError:
        return ConfigError(self._source.name, [Problem(path, None, message, None)])

    def _swap(self, new: Config, routing: Routing, changed: list[str]) -> dict[str, Change]:
        """One step of the event loop."""
        service, own = self._service, new.own_formats()
        old = service.registry.pools
        found = changes(service.config, new)
        pools: dict[str, Pool] = {}
        for name, config in new.pools.items():
            fate = found[name].fate
            crew = old[name].crew if fate is Fate.CHANGED else None
            pools[name] = old[name] if fate is Fate.KEPT else Pool(name, config, own, crew)
        service.swap(new, Registry(new, pools), routing)
        for name, change in found.items():
            if change.fate in {Fate.REMOVED, Fate.REPLACED}:
                self._retire(old[name])
            if change.fate in {Fate.ADDED, Fate.REPLACED}:
                self._open(pools[name])
            if change.fate is Fate.CHANGED:
                self._succeed(pools[name], old[name], change)
        if any(key.split(".")[0] == "logs" for key in changed):
            configure_logs(new.logs)
        return found

    @property
    def _running_watches(self) -> Watches:
        assert self._watches is not None, "reloads begin with `run`"
        return self._watches

    def _succeed(self, pool: Pool, before: Pool, change: Change) -> None:
        """Other settings over the same workers, as far as they stay. Whom the pool's name leads to stays as well."""
        named = self._running_watches.named(before)
        pool.succeed(before)
        self._running_watches.renew(pool)
        left = set(change.left) - named if pool.config.discover is not None else {*change.left, *named}
        turn_over(pool, change.came, sorted(left - set(pool.config.workers)))

    def _open(self, pool: Pool) -> None:
        """A new pool. An old one of the same name that still drains makes room in the metrics."""
        for old in self._service.retired:
            if old.name == pool.name and old.listener is not None:
                for worker in (worker for part in old.parts for worker in part.workers):
                    old.listener.removed(old.name, worker)
                old.listener = None
        self._service.open(pool)
        self._running_watches.start(pool)

    def _retire(self, pool: Pool) -> None:
        """It is given to no request any more. Its workers stay as they are for those that have begun: they may need
        another leg, on another of its workers."""
        pool.crew.awaited.clear()
        self._running_watches.retire(pool)
        self._service.retired.append(pool)
        log.info("pool retired", pool=pool.name, requests=pool.crew.guests)

    def _close(self, pool: Pool) -> None:
        service = self._service
        self._running_watches.stop(pool)
        service.retired.remove(pool)
        names = [worker.name for part in pool.parts for worker in part.workers]
        disband(pool)
        successor = service.registry.pools.get(pool.name)
        if successor is not None:
            for name in names:
                if all(part.find(name) is None for part in successor.parts):
                    service.metrics.forget(pool=pool.name, worker=name)
        elif not any(other.name == pool.name for other in service.retired):
            service.metrics.forget(pool=pool.name)
        log.info("pool closed", pool=pool.name)

    def _note_success(self) -> None:
        self._service.metrics.reload_succeeded.set(1)
        self._service.metrics.reloaded_at.set(time())

    def _note_failure(self) -> None:
        self._service.metrics.reload_succeeded.set(0)
        self._service.metrics.reloads.labels("failed").inc()
