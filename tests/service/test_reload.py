"""A configuration that changes under traffic: by signal, by call, by itself; and a bad one, which changes nothing."""

from __future__ import annotations

import asyncio
import copy
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic, time
from typing import Any

import httpx
import pytest
import yaml

from gateway.edge.keys import hash_key
from tests.doubles.script import Script
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import LOOK_AGAIN, PATIENCE, Gateway, config, pool
from tests.service.talk import Stream, assert_complete, assert_error, chat, stream

ADMIN = {"authorization": "Bearer tg-admin"}
USER = {"authorization": "Bearer tg-user"}
KEYS = [
    {"alias": "admin", "hash": hash_key("tg-admin"), "admin": True},
    {"alias": "user", "hash": hash_key("tg-user")},
]
RELOADS = "thinkgate_config_reloads_total"
SUCCESSFUL = "thinkgate_config_last_reload_successful"


class Live:
    """A gateway, and its file as it stands now. Each test has its own pools' doubles."""

    def __init__(self, served: Gateway, settings: dict[str, Any]) -> None:
        self.served = served
        self.url = served.url
        self.settings = settings

    def write(self, settings: dict[str, Any] | str) -> None:
        """As an editor does: the new file takes the old one's name."""
        text = settings if isinstance(settings, str) else yaml.safe_dump(settings, sort_keys=False)
        fresh = self.served.file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.served.file)

    def edited(self) -> dict[str, Any]:
        return copy.deepcopy(self.settings)

    async def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        async with httpx.AsyncClient(timeout=30) as client:
            return await client.request(method, f"{self.url}{path}", **{"headers": ADMIN, **more})

    async def reload(self, settings: dict[str, Any] | str) -> dict[str, Any]:
        """By the admin call, which must succeed."""
        self.write(settings)
        answer = await self.call("POST", "/admin/reload")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        """By pool and address."""
        found = (await self.call("GET", "/admin/workers")).json()["data"]
        return {(row["pool"], row["url"]): row for row in found}

    async def until_row(self, name: str, url: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = monotonic() + PATIENCE
        while not holds(row := (await self.rows()).get((name, url), {})):
            assert monotonic() < deadline, row
            await asyncio.sleep(LOOK_AGAIN)
        return row

    async def until_logged(self, text: str, times: int = 1) -> None:
        deadline = monotonic() + PATIENCE
        while self.served.stderr_text().count(text) < times:
            assert monotonic() < deadline, self.served.stderr_text()[-3000:]
            await asyncio.sleep(LOOK_AGAIN)

    async def tell(self, model: str, key: str, headers: dict[str, str] = USER, **controls: Any) -> Stream:
        return await stream(self.url, chat(model, key, **controls), headers)

    @asynccontextmanager
    async def flight(self, double: VllmDouble, key: str, think: int = 60, **more: Any) -> AsyncIterator[None]:
        """A flight over what is done inside, in the midst of its thought; in the end it has told its exact text."""
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.tell(double.model, key, think=think, stall_after=20, **more))
            exchange = await double.wait_for(key, tokens=20)
            yield
            assert not running.done()
            exchange.release()
        assert_complete(running.result(), key, think=think)


@pytest.fixture(scope="module")
def models(host: Host) -> Iterator[dict[str, list[VllmDouble]]]:
    """Two workers of each of two models, and one of a third."""
    found = {"m-one": 2, "m-two": 2, "m-new": 1}
    doubles = {name: [host.add(VllmDouble(name)) for _ in range(count)] for name, count in found.items()}
    yield doubles
    for double in (double for some in doubles.values() for double in some):
        host.remove(double)


@pytest.fixture
def live(gateway: Callable[..., Gateway], models: dict[str, list[VllmDouble]]) -> Iterator[Live]:
    """One worker of each of two models. Ends with its test: so many at once would only poll."""
    pools = {"one": pool(models["m-one"][0]), "two": pool(models["m-two"][0])}
    settings = config(pools, keys=KEYS, logs={"level": "info"})
    served = gateway(settings).wait_workers(2)
    yield Live(served, settings)
    served.stop()


class TestWaysToAsk:
    async def test_by_a_call(self, live: Live, models: dict[str, list[VllmDouble]]) -> None:
        changed = live.edited()
        changed["pools"]["one"]["aliases"] = ["also-one"]
        changed["server"]["body_limit_mib"] = 1
        told = await live.reload(changed)
        assert told == {
            "object": "thinkgate.reload",
            "changed": ["server.body_limit_mib", "pools.one.aliases"],
            "needs_restart": [],
            "pools": {"one": {"fate": "changed"}},
        }
        assert_complete(await live.tell("also-one", "aliased"), "aliased")
        assert (await live.served.metrics()).value(RELOADS, outcome="applied") == 1
        large = await live.call("POST", "/v1/chat/completions", content=b"x" * 2_000_000, headers=USER)
        assert_error(large, 413, "invalid_request_error", "request_too_large")
        again = (await live.call("POST", "/admin/reload")).json()
        assert again == {"object": "thinkgate.reload", "changed": [], "needs_restart": []}
        assert (await live.served.metrics()).value(RELOADS, outcome="unchanged") == 1

    async def test_by_a_signal_and_by_the_file_itself(self, live: Live) -> None:
        """Symlinks as Kubernetes swaps them: the file's own name and its target's stay as they are."""
        folder = live.served.file.parent
        for version in ("v1", "v2"):
            (folder / version).mkdir()
        (folder / "v1" / "thinkgate.yaml").write_text(live.served.file.read_text())
        (folder / "data").symlink_to("v1")
        live.served.file.unlink()
        live.served.file.symlink_to(Path("data") / "thinkgate.yaml")
        changed = live.edited()
        changed["pools"]["one"]["aliases"] = ["swapped"]
        (folder / "v2" / "thinkgate.yaml").write_text(yaml.safe_dump(changed))
        (folder / "data.new").symlink_to("v2")
        (folder / "data.new").replace(folder / "data")
        before = time()
        await live.served.wait_metric(RELOADS, {"outcome": "applied"}, lambda value: value == 1)
        assert_complete(await live.tell("swapped", "by-itself"), "by-itself")
        stamp = "thinkgate_config_last_reload_success_timestamp_seconds"
        assert before - 1 <= (await live.served.metrics()).value(stamp) <= time()

        live.served.process.send_signal(signal.SIGHUP)
        await live.served.wait_metric(RELOADS, {"outcome": "unchanged"}, lambda value: value == 1)
        await live.until_logged("SIGHUP")

    async def test_a_secret_beside_the_file_is_watched_too(
        self, gateway: Callable[..., Gateway], host: Host, tmp_path: Path
    ) -> None:
        locked = host.add(VllmDouble("locked", api_key="sesame"))
        try:
            (tmp_path / "key").write_text("first\n")
            settings = config({"locked": {**pool(locked), "api_key": f"file:{tmp_path / 'key'}"}}, keys=KEYS)
            live = Live(gateway(settings), settings)
            await live.until_row("locked", locked.url, lambda row: "401" in row["reason"])
            locked.violations.clear()
            (tmp_path / "key").write_text("sesame\n")
            await live.until_row("locked", locked.url, lambda row: row["ready"])
            assert_complete(await live.tell("locked", "with-the-second"), "with-the-second")
            assert "sesame" not in live.served.stderr_text()
            locked.violations.clear()
        finally:
            host.remove(locked)

    async def test_only_administrators_may(self, live: Live) -> None:
        for headers, status in ((USER, 403), ({}, 401)):
            assert (await live.call("POST", "/admin/reload", headers=headers)).status_code == status

    async def test_without_a_file_there_is_nothing_to_reload(
        self, gateway: Callable[..., Gateway], tmp_path: Path
    ) -> None:
        pytest.importorskip("xllamacpp")
        served = gateway(None)
        served.process.send_signal(signal.SIGHUP)
        live = Live(served, {})
        await live.until_logged("there is nothing to reload")
        assert_error(await live.call("POST", "/admin/reload"), 400, "invalid_request_error", "nothing_to_reload")


class TestBadFiles:
    async def test_keep_the_old_one_and_say_why_with_the_lines(
        self, live: Live, models: dict[str, list[VllmDouble]]
    ) -> None:
        good = live.served.file.read_text()
        bad = good.replace("engine: vllm", "engine: vlm", 1) + "surprise: 1\n"
        async with live.flight(models["m-one"][0], "over-a-bad-file"):
            live.write(bad)
            await live.served.wait_metric(SUCCESSFUL, {}, lambda value: value == 0)
            answer = await live.call("POST", "/admin/reload")
            error = assert_error(answer, 422, "invalid_request_error", "invalid_config")
            lines = bad.splitlines()
            assert f"line {next(n for n, line in enumerate(lines, 1) if 'engine: vlm' in line)}" in error["message"]
            assert f"unknown key `surprise`, line {len(lines)}" in error["message"]
            assert_complete(await live.tell("m-two", "meanwhile"), "meanwhile")
        told = live.served.stderr_text()
        assert told.count("configuration not reloaded") == 2, "once for the file, once for the call"
        assert told.count("unknown key `surprise`") == 2
        assert (await live.served.metrics()).value(RELOADS, outcome="failed") == 2

        live.write(good)
        await live.served.wait_metric(SUCCESSFUL, {}, lambda value: value == 1)
        assert live.served.stderr_text().count("configuration not reloaded") == 2

    async def test_nobody_is_let_in_by_a_restart_that_has_not_come(
        self, gateway: Callable[..., Gateway], models: dict[str, list[VllmDouble]]
    ) -> None:
        """The file says loopback without keys; the socket is open to the world as long as the process runs."""
        settings = config({"one": pool(models["m-one"][0])}, keys=KEYS, server={"host": "0.0.0.0"})
        live = Live(gateway(settings).wait_workers(1), settings)
        opened = live.edited()
        opened["server"]["host"] = "127.0.0.1"
        opened["keys"] = []
        live.write(opened)
        error = assert_error(await live.call("POST", "/admin/reload"), 422, "invalid_request_error", "invalid_config")
        assert "refusing to listen on 0.0.0.0 without keys" in error["message"]
        assert (await live.tell("m-one", "no-key", headers={})).status == 401

    async def test_a_file_that_is_gone_changes_nothing(self, live: Live) -> None:
        live.served.file.unlink()
        await live.served.wait_metric(RELOADS, {"outcome": "failed"}, lambda value: value == 1)
        await live.until_logged("the file cannot be read")
        assert_complete(await live.tell("m-one", "without-a-file"), "without-a-file")

    async def test_what_needs_a_restart_is_named_and_the_rest_holds(self, live: Live) -> None:
        changed = live.edited()
        changed["server"] |= {"drain": 7, "host": "127.0.0.2", "port": 1}
        changed["embedded"] = {"threads": 2}
        changed["pools"]["one"]["aliases"] = ["rest"]
        told = await live.reload(changed)
        assert told["changed"] == ["pools.one.aliases"]
        # The port is the command line's: what the file says of it never counts.
        assert told["needs_restart"] == ["server.host", "server.drain", "embedded.threads"]
        assert_complete(await live.tell("rest", "the-rest"), "the-rest")
        await live.until_logged("server.drain")

    @pytest.mark.embedded
    async def test_another_embedded_pool_has_the_engine_that_runs(self, gateway: Callable[..., Gateway]) -> None:
        pytest.importorskip("xllamacpp")
        inside = {"model": "small", "engine": "embedded", "format": "think", "thinking": {"enabled": False}}
        settings: dict[str, Any] = {"keys": KEYS, "pools": {"one": inside}}
        live = Live(gateway(settings).wait_workers(1), settings)
        changed = live.edited()
        changed["pools"]["two"] = {**inside, "model": "small-too"}
        await live.reload(changed)
        await live.served.wait_metric("thinkgate_worker_ready", {"pool": "two"}, lambda value: value == 1)
        said = {"model": "small-too", "max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}]}
        assert (await live.call("POST", "/v1/chat/completions", json=said, headers=USER)).status_code == 200

    async def test_the_first_embedded_pool_is_refused(self, live: Live) -> None:
        changed = live.edited()
        changed["pools"]["inside"] = {"model": "small", "engine": "embedded", "format": "think"}
        live.write(changed)
        error = assert_error(await live.call("POST", "/admin/reload"), 422, "invalid_request_error", "invalid_config")
        assert "needs a restart at pools.inside.engine" in error["message"]


class TestKeysAndLogs:
    async def test_a_revoked_key_is_refused_and_what_it_began_goes_on(
        self, live: Live, models: dict[str, list[VllmDouble]]
    ) -> None:
        changed = live.edited()
        changed["keys"] = [*KEYS[:1], {"alias": "new", "hash": hash_key("tg-new")}]
        async with live.flight(models["m-one"][0], "began-with-it"):
            told = await live.reload(changed)
            assert told["changed"] == ["keys.user", "keys.new"]
            assert (await live.tell("m-one", "revoked")).status == 401
            key = {"authorization": "Bearer tg-new"}
            assert_complete(await live.tell("m-one", "granted", headers=key), "granted")
        assert live.served.stderr_text().count("now=warming") == 2, "nobody has warmed up again"

    async def test_the_level_of_the_logs_changes(self, live: Live) -> None:
        changed = live.edited()
        changed["logs"]["level"] = "error"
        await live.reload(changed)
        assert_complete(await live.tell("m-one", "unheard"), "unheard")
        await live.served.wait_grounded()
        assert "configuration reloaded" not in live.served.stderr_text()
        assert " flight " not in live.served.stderr_text()
        await live.reload(live.settings)
        assert_complete(await live.tell("m-one", "heard"), "heard")
        await live.until_logged("outcome=answered")


class TestSettings:
    async def test_hold_for_new_requests_and_not_for_those_that_fly(
        self, live: Live, models: dict[str, list[VllmDouble]]
    ) -> None:
        [double] = models["m-one"][:1]
        changed = live.edited()
        changed["pools"]["one"]["thinking"] = {"max_cap": 10}
        async with live.flight(double, "uncapped"):
            await live.reload(changed)
            capped = await live.tell("m-one", "capped", think=60)
            assert capped.headers["x-thinkgate-thinking-cap"].startswith("10;")
            assert capped.extension["thinking"]["ended_by"] == "cap"
        rows = await live.rows()
        assert rows["one", double.url]["ready"]
        assert live.served.stderr_text().count("now=warming") == 2

    async def test_of_the_router_hold_at_once(self, live: Live, models: dict[str, list[VllmDouble]]) -> None:
        changed = live.edited()
        changed["router"] = {"routes": {"mine": {"route": "reasoning", "keywords": ["crocodile"]}}}
        asked = {"model": "auto", "messages": [{"role": "user", "content": "A crocodile, please."}]}
        before = (await live.call("POST", "/v1/route", json=asked)).json()
        told = await live.reload(changed)
        assert told["changed"] == ["router.routes.mine"]
        after = (await live.call("POST", "/v1/route", json=asked)).json()
        assert (before["route"], after["route"]) == ("standard", "reasoning")

        changed["router"]["routes"]["mine"] = {"route": "reasoning", "regex": "("}
        live.write(changed)
        error = assert_error(await live.call("POST", "/admin/reload"), 422, "invalid_request_error", "invalid_config")
        assert "at router" in error["message"]
        assert (await live.call("POST", "/v1/route", json=asked)).json()["route"] == "reasoning"


class TestWorkers:
    async def test_come_by_way_of_the_canary_and_go_by_way_of_a_drain(
        self, live: Live, models: dict[str, list[VllmDouble]]
    ) -> None:
        first, second = models["m-one"]
        changed = live.edited()
        changed["pools"]["one"]["workers"] = [first.url, second.url]
        async with live.flight(first, "over-it-all"):
            second.default = Script(status=503)  # its kernels are still compiled
            try:
                assert (await live.reload(changed))["pools"]["one"]["workers_added"] == [second.url]
                await live.until_row("one", second.url, lambda row: "503" in row.get("reason", ""))
                for number in range(5):
                    assert_complete(await live.tell("m-one", f"early-{number}"), f"early-{number}")
                    assert not second.of(f"early-{number}")
            finally:
                second.default = Script()
            await live.until_row("one", second.url, lambda row: row["ready"])

            changed["pools"]["one"]["workers"] = [second.url]
            assert (await live.reload(changed))["pools"]["one"]["workers_drained"] == [first.url]
            assert (await live.rows())["one", first.url]["state"] == "draining"
            for number in range(5):
                assert_complete(await live.tell("m-one", f"late-{number}"), f"late-{number}")
                assert second.of(f"late-{number}")
            await live.reload(live.settings)  # it is wanted again before it has gone
            assert (await live.rows())["one", first.url]["state"] == "draining"
            await live.reload(changed)
        await live.until_row("one", first.url, lambda row: row == {})
        worker = first.url.split("//")[1]
        metrics = await live.served.metrics()
        assert not [labels for _, labels, _ in metrics.samples if labels.get("worker") == worker]
        await live.reload(live.settings)
        await live.until_row("one", first.url, lambda row: row.get("ready", False))

    async def test_all_replaced_at_once_cost_no_cut_thought_its_answer(
        self, live: Live, models: dict[str, list[VllmDouble]]
    ) -> None:
        """The only worker drains when the cap comes, and its successor is not ready: the answer comes from where the
        thought was."""
        first, second = models["m-one"]
        second.default = Script(status=503)
        try:
            changed = live.edited()
            changed["pools"]["one"]["thinking"] = {"native_cap": False}
            await live.reload(changed)
            running = asyncio.create_task(
                stream(
                    live.url,
                    chat("m-one", "cut-late", think=60, stall_after=20, times=1, body={"thinking_budget": 40}),
                    USER,
                )
            )
            exchange = await first.wait_for("cut-late", tokens=20)
            changed["pools"]["one"]["workers"] = [second.url]
            await live.reload(changed)
            exchange.release()
            told = await running
            assert told.errors == []
            assert told.done
            assert told.extension["thinking"]["ended_by"] == "cap"
            assert told.extension["legs"] == 2
            assert len(first.of("cut-late")) == 2
        finally:
            second.default = Script()
        await live.until_row("one", first.url, lambda row: row == {})

    async def test_of_an_administrator_are_left_alone(self, live: Live, models: dict[str, list[VllmDouble]]) -> None:
        first, second = models["m-one"]
        await live.call("POST", "/admin/workers", json={"pool": "one", "url": second.url})
        await live.until_row("one", second.url, lambda row: row["ready"])
        await live.call("POST", "/admin/workers/drain", json={"pool": "one", "worker": first.url})
        await live.until_row("one", first.url, lambda row: row["state"] == "gone")
        changed = live.edited()
        changed["pools"]["one"]["timeouts"]["idle"] = 29
        changed["pools"]["two"]["aliases"] = ["beside"]
        await live.reload(changed)
        rows = await live.rows()
        assert rows["one", second.url]["ready"], "it was taken in by hand, and the file says nothing of it"
        assert rows["one", first.url]["state"] == "gone", "it was drained by hand, and the file says what it said"
        assert_complete(await live.tell("m-one", "by-hand"), "by-hand")

        # Named and then not named any more, it is the file's and leaves with it.
        changed["pools"]["one"]["workers"] = [first.url, second.url]
        assert (await live.reload(changed))["pools"]["one"]["workers_added"] == [second.url]
        assert (await live.rows())["one", second.url]["ready"]
        changed["pools"]["one"]["workers"] = [first.url]
        await live.reload(changed)
        await live.until_row("one", second.url, lambda row: row == {})

    async def test_a_new_name_leads_to_workers_and_none_to_none(
        self, live: Live, models: dict[str, list[VllmDouble]]
    ) -> None:
        first, second = models["m-one"]
        changed = live.edited()
        changed["pools"]["one"]["discover"] = f"http://localhost:{second.port}"
        await live.reload(changed)
        await live.until_row("one", second.url, lambda row: row.get("ready", False))
        await live.reload(live.settings)
        await live.until_row("one", second.url, lambda row: row == {})
        assert (await live.rows())["one", first.url]["ready"]


class TestPools:
    async def test_a_new_one_is_watched_and_served_and_one_that_disappears_drains(
        self, live: Live, models: dict[str, list[VllmDouble]]
    ) -> None:
        [new], [leaver] = models["m-new"], models["m-two"][:1]
        changed = live.edited()
        changed["pools"]["new"] = pool(new)
        changed["routes"]["auto"] = {"standard": "one", "reasoning": "new"}
        del changed["pools"]["two"]
        async with live.flight(leaver, "to-the-end"):
            told = await live.reload(changed)
            assert told["pools"] == {
                "two": {"fate": "removed", "workers_drained": [leaver.url]},
                "new": {"fate": "added", "workers_added": [new.url]},
            }
            assert (await live.tell("m-two", "too-late")).status == 404
            assert (await live.rows())["two", leaver.url]["state"] == "draining"
            await live.until_row("new", new.url, lambda row: row["ready"])
            assert_complete(await live.tell("m-new", "newcomer"), "newcomer")
        await live.until_logged("pool closed")
        assert set(await live.rows()) == {("one", models["m-one"][0].url), ("new", new.url)}
        metrics = await live.served.metrics()
        assert not [labels for _, labels, _ in metrics.samples if labels.get("pool") == "two"]
        ready = (await live.call("GET", "/readyz")).json()["pools"]
        assert ready == {"one": True, "new": True}

    async def test_another_model_under_the_same_name_is_another_pool(
        self, live: Live, models: dict[str, list[VllmDouble]]
    ) -> None:
        [old], [new] = models["m-two"][:1], models["m-new"]
        changed = live.edited()
        changed["pools"]["two"] = pool(new)
        async with live.flight(old, "of-the-old"):
            assert (await live.reload(changed))["pools"]["two"]["fate"] == "replaced"
            await live.until_row("two", new.url, lambda row: row["ready"])
            assert_complete(await live.tell("m-new", "of-the-new"), "of-the-new")
            assert (await live.rows())["two", old.url]["state"] == "draining"
        await live.until_logged("pool closed")
        assert ("two", old.url) not in await live.rows()
        metrics = await live.served.metrics()
        assert metrics.value("thinkgate_worker_ready", pool="two") == 1
        assert metrics.value("thinkgate_requests_total", pool="two") == 2, "the name lives on, and so do its counts"
        gone = old.url.split("//")[1]
        assert not [labels for _, labels, _ in metrics.samples if labels.get("worker") == gone]
        # Every GPU-second has an owner, also those that the old workers spent after nobody was shown them.
        pending, busy, booked, nobodys = (
            metrics.value(f"thinkgate_gpu_{name}", pool="two")
            for name in ("pending_seconds", "busy_seconds_total", "seconds_total", "seconds_unattributed_total")
        )
        assert pending == pytest.approx(0, abs=1e-6)
        assert busy == pytest.approx(booked + nobodys)


class TestManyInARow:
    async def test_leak_nothing(self, live: Live, models: dict[str, list[VllmDouble]]) -> None:
        """Thirty, under traffic: keys, settings, workers and a pool change to and fro."""
        first, second = models["m-one"]
        other = live.edited()
        other["keys"] = [*KEYS, {"alias": "third", "hash": hash_key("tg-third")}]
        other["pools"]["one"] |= {"workers": [first.url, second.url], "timeouts": {"idle": 25}, "selection": "rotation"}
        other["pools"]["new"] = pool(models["m-new"][0])
        other["router"] = {"threshold": 0.4}

        process = Path(f"/proc/{live.served.process.pid}")

        async def steady(closed: int) -> tuple[int, int, set[tuple[str | None, str | None]]]:
            """Descriptors, threads, and whose series there are, once all that drained is gone."""
            await live.served.wait_grounded()
            await live.until_row("one", second.url, lambda row: row == {})
            await live.until_logged("pool closed", closed)
            found = {
                (labels.get("pool"), labels.get("worker")) for _, labels, _ in (await live.served.metrics()).samples
            }
            return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir())), found

        async def traffic(lane: int, stop: asyncio.Event) -> int:
            number = 0
            while not stop.is_set():
                key = f"lane-{lane}-{number}"
                assert_complete(await live.tell(("m-one", "m-two")[lane % 2], key, delay_ms=2), key)
                number += 1
            return number

        async def to_and_fro(times: int) -> None:
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                lanes = [group.create_task(traffic(lane, stop)) for lane in range(4)]
                for _ in range(times):
                    await live.reload(other)
                    await live.reload(live.settings)
                stop.set()
            assert sum(lane.result() for lane in lanes) > 0

        await to_and_fro(1)
        files, threads, series = await steady(1)
        assert {pool for pool, _ in series} == {None, "one", "two"}
        await to_and_fro(15)
        after = await steady(16)
        brief = models["m-new"][0]  # a poll may have been under way when its pool was gone
        brief.violations[:] = [said for said in brief.violations if not said.startswith("cut-request:")]
        assert after[0] <= files + 4, "connections of the last requests may lie idle"
        assert after[1] <= threads + 2, "asyncio's own threads for files come as they are needed"
        assert after[2] == series
        assert (await live.served.metrics()).value("thinkgate_requests_total", outcome="failed") == 0
