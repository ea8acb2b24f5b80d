"""Two gateway processes on one machine behind one scrape: counters add up, gauges become one view."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import chat, stream


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_either_process_answers_for_both(gateway: Callable[..., Gateway], host: Host, tmp_path: Path) -> None:
    double = host.add(VllmDouble("m-model"))
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    one, other = (gateway(config({"vllm": pool(double)}), env=env) for _ in range(2))
    for each in (one, other):
        await each.wait_metric("thinkgate_worker_ready", {}, lambda value: value == 1)
    for number in range(3):
        assert (await stream(one.url, chat("m-model", f"one-{number}"))).done
    assert (await stream(other.url, chat("m-model", "other-0"))).done
    client = httpx.AsyncClient(timeout=30)
    for each in (one, other):
        await each.wait_grounded()
        now = await each.metrics()
        assert now.value("thinkgate_requests_total", outcome="answered") == 4
        assert now.value("thinkgate_time_to_first_token_seconds_count") == 4
        ready = [value for name, labels, value in now.samples if name == "thinkgate_worker_ready"]
        assert ready == [1], "one worker, however many processes look at it"
        text = (await client.get(f"{each.url}/metrics")).text
        assert "pid=" not in text
        assert "# HELP thinkgate_requests_total Requests that have ended" in text
        if shutil.which("promtool") is not None:
            check = ["promtool", "check", "metrics"]
            done = await asyncio.to_thread(subprocess.run, check, input=text, capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    await double.wait_idle()

    # What runs is the sum of both, and the gauges of a process go with it.
    held = [chat("m-model", f"held-{number}", stall_after=4) for number in range(2)]
    async with client.stream("POST", f"{one.url}/v1/chat/completions", json=held[0]):
        async with client.stream("POST", f"{other.url}/v1/chat/completions", json=held[1]):
            await one.wait_metric("thinkgate_flights_in_flight", {}, lambda value: value == 2)
        await one.wait_metric("thinkgate_flights_in_flight", {}, lambda value: value == 1)
        await one.wait_metric("thinkgate_worker_tokens_in_flight", {}, lambda value: value > 0)
    await client.aclose()
    other.stop()
    await one.wait_grounded()
    left = names_in(tmp_path)
    assert not [name for name in left if name.startswith("gauge_live") and f"_{other.process.pid}." in name]
    assert f"counter_{other.process.pid}.db" in left, "what it has counted stays counted"
    assert (await one.metrics()).value("thinkgate_requests_total", outcome="answered") == 4
    host.remove(double)


async def test_the_gauges_of_a_killed_process_are_taken_away(
    gateway: Callable[..., Gateway], host: Host, tmp_path: Path
) -> None:
    double = host.add(VllmDouble("k-model"))
    dead = tmp_path / "gauge_livesum_4194305.db"  # beyond the largest process id of Linux
    await asyncio.to_thread(dead.write_bytes, b"")
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    one = gateway(config({"vllm": pool(double)}), env=env)
    await one.wait_metric("thinkgate_worker_ready", {}, lambda value: value == 1)
    assert dead.name not in names_in(tmp_path)
    host.remove(double)
