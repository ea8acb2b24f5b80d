"""A cluster as a test wants it: workers of one hand-off, their fabric, what its answers must be, and what must be left
of them: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.doubles.engine import Double
from tests.doubles.exchange import Exchange
from tests.doubles.pair.encoder import FakeEncoder
from tests.doubles.pair.fabric import KVFabric
from tests.doubles.pair.prompt import content_of, raw_media, read_prompt
from tests.doubles.pair.sglang_pair import FakeSglangDecode, FakeSglangPrefill
from tests.doubles.pair.vllm_decode import FakeVllmDecode
from tests.doubles.pair.vllm_prefill import Bootstrap, FakeVllmPrefill
from tests.doubles.server import PATIENCE, Host

HANDOFFS: Final = ("nixl", "nixl-push", "mooncake", "sglang")


class Cluster:
    """`handoff`: one of `HANDOFFS`. `prefill`, `decode`: settings of every worker of that role."""

    def __init__(
        self,
        host: Host,
        handoff: str = "nixl",
        *,
        prefills: int = 1,
        decodes: int = 1,
        encoders: int = 0,
        model: str = "double",
        lease: float = 30.0,
        prefill: dict[str, Any] | None = None,
        decode: dict[str, Any] | None = None,
    ) -> None:
        self.host, self.handoff, self.model = host, handoff, model
        self.fabric = KVFabric(lease=lease)
        self.encoders = [host.add(FakeEncoder(self.fabric, model)) for _ in range(encoders)]
        self.prefills: list[Any] = [self._prefill(i, prefill or {}) for i in range(prefills)]
        self.decodes: list[Any] = [self._decode(decode or {}) for _ in range(decodes)]

    def _prefill(self, i: int, settings: dict[str, Any]) -> Double:
        if self.handoff == "sglang":
            worker = FakeSglangPrefill(self.fabric, self.model, **settings)
            self.host.add(worker.bootstrap)
            return self.host.add(worker)
        more = {"kv_port": 5_600 + 100 * i, "encoders": bool(self.encoders), **settings}
        prefill = self.host.add(FakeVllmPrefill(self.fabric, self.model, handoff=self.handoff, **more))
        if self.handoff == "mooncake":
            prefill.bootstrap = self.host.add(Bootstrap(prefill))
            self.fabric.bootstraps[("127.0.0.1", prefill.bootstrap.port)] = prefill
        return prefill

    def _decode(self, settings: dict[str, Any]) -> Double:
        if self.handoff == "sglang":
            return self.host.add(FakeSglangDecode(self.fabric, self.model, **settings))
        more = {"encoders": bool(self.encoders), **settings}
        return self.host.add(FakeVllmDecode(self.fabric, self.model, handoff=self.handoff, **more))

    # What a test knows

    @property
    def engine(self) -> str:
        return "sglang" if self.handoff == "sglang" else "vllm"

    @property
    def prefill(self) -> Any:
        return self.prefills[0]

    @property
    def decode(self) -> Any:
        return self.decodes[0]

    @property
    def workers(self) -> list[Any]:
        return [*self.encoders, *self.prefills, *self.decodes]

    @property
    def addresses(self) -> list[dict[str, Any]]:
        """What a front door must be told of its workers."""
        return [{"url": worker.url, "role": worker.role, **self._more(worker)} for worker in self.workers]

    def _more(self, worker: Any) -> dict[str, Any]:
        if worker.role != "prefill":
            return {}
        if self.handoff == "sglang":
            return {"kv_host": worker.kv_host, "bootstrap_port": worker.bootstrap.port}
        told: dict[str, Any] = {"kv_host": worker.kv_host}
        if self.handoff == "nixl-push":
            told |= {"engine_id": worker.engines[0].id, "kv_port": worker.kv_port}
        if worker.bootstrap is not None:
            told["bootstrap_port"] = worker.bootstrap.port
        return told

    def key(self, body: dict[str, Any], prompt: int | None = None) -> str:
        """The key with which a right hand-off answers this body (of a batch: its prompt with this number)."""
        if prompt is not None:
            body = {**body, "prompt": body["prompt"][prompt]}
        seen = tuple(self.fabric.mark(f"seen.{content_of(part)}") for part in raw_media(body))
        return self.fabric.voice(read_prompt(body, seen))

    def legs(self, role: str, key: str = "") -> list[Exchange]:
        """Generations that workers of this role were asked for: all, or those of this key."""
        asked = [leg for worker in self.workers if worker.role == role for leg in worker.generations]
        return [leg for leg in asked if not key or leg.key == key]

    # What a test does

    def advance(self, seconds: float) -> None:
        """Let time pass for leases and time-outs."""
        self.host.run(self.fabric.clock.advance(seconds))

    async def idle(self, patience: float = PATIENCE) -> None:
        """Until no worker generates and no leg is in a room."""
        members = self.fabric.members

        def quiet() -> bool:
            return not self.fabric.rooms.open and not any(one.serving or one.active for one in members)

        async with asyncio.timeout(patience):
            await members[0].until(quiet, "no leg anywhere")

    async def settled(self, patience: float = PATIENCE, *, leases: bool = True) -> None:
        """Until nothing runs any more; then `assert_clean`."""
        await self.idle(patience)
        self.assert_clean(leases=leases)

    @property
    def violations(self) -> dict[str, list[str]]:
        found = {f"{worker.role} {worker.url}": list(worker.violations) for worker in self.workers}
        return {name: said for name, said in found.items() if said}

    def pardon(self, code: str) -> list[str]:
        """Take this violation out of every worker's log; there must be some."""
        found: list[str] = []
        for worker in self.workers:
            if any(said.startswith(f"{code}:") for said in worker.violations):
                found += worker.pardon(code)
        assert found, f"no violation {code!r} among {self.violations}"
        return found

    def assert_clean(self, *, leases: bool = True) -> None:
        """Nothing done wrong, nothing left: no block, no room, no generation. `leases`: those left run out first."""
        if leases:
            self.advance(self.fabric.lease + 1)
        assert not self.violations, self.violations
        assert not self.fabric.rooms.open, [room.key for room in self.fabric.rooms.open]
        running = [leg for worker in self.workers for leg in worker.active]
        assert not running, [(leg.double.url, leg.key) for leg in running]
        held = [(held.gateway_id, held.state) for held in self.fabric.held]
        assert not held, held
        assert all(engine.in_use == 0 for engine in self.fabric.engines)
        assert not any(self.fabric.prefilling.values()), self.fabric.prefilling
        assert not any(getattr(worker, "dead", False) for worker in self.decodes), "a decode engine was killed"

    def assert_private(self, told: bytes | str) -> None:
        """A client was told nothing of the inside."""
        text = told.decode() if isinstance(told, bytes) else told
        leaked = sorted(word for word in self.fabric.secrets if word in text)
        assert not leaked, leaked

    def close(self) -> None:
        for prefill in self.prefills:
            if prefill.bootstrap is not None:
                self.host.remove(prefill.bootstrap)
        for worker in self.workers:
            self.host.remove(worker)


@contextmanager
def cluster(host: Host, handoff: str = "nixl", **settings: Any) -> Iterator[Cluster]:
    """A cluster for the length of a block. What it did wrong and no test asked about is the host's to tell."""
    made = Cluster(host, handoff, **settings)
    try:
        yield made
    finally:
        left = made.violations
        made.close()
    assert not left, left
