"""Traces of a real gateway, as a collector gets them: the spans of a request, their order, and the engine's part."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.doubles.collector import Collector, Span, collecting
from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import chat, post, stream

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SERVER, CLIENT = 2, 3


class Traced:
    """A gateway that traces; its spans are there once it has ended."""

    def __init__(self, gateway: Callable[..., Gateway], double: VllmDouble, collector: Collector, **more: Any) -> None:
        tracing = {"endpoint": collector.url, "headers": {"authorization": "Bearer to-the-collector"}, **more}
        self.double = double
        self.collector = collector
        settings = pool(double, thinking={"native_cap": False})
        self.gateway = gateway(config({"vllm": settings}, tracing=tracing)).wait_workers(1)

    async def spans_of(self, name: str) -> list[Span]:
        await asyncio.to_thread(self.gateway.stop)
        return self.collector.named(name)


async def test_a_cut_flight_from_the_edge_to_its_second_leg(gateway: Callable[..., Gateway], host: Host) -> None:
    double = host.add(VllmDouble("t-model"))
    with collecting() as collector:
        traced = Traced(gateway, double, collector)
        body = chat("t-model", "traced", think=60, body={"thinking_budget": 20})
        told = await stream(traced.gateway.url, body, {"traceparent": PARENT, "x-request-id": "by-the-client"})
        assert told.done
        [root] = await traced.spans_of("chat t-model")
        assert (root.trace, root.parent, root.kind) == (TRACE, "00f067aa0ba902b7", SERVER)
        route, queue, leg, onward = collector.under(root)
        assert [one.name for one in (route, queue, leg, onward)] == ["route", "queue", "leg", "continuation"]
        assert [one.name for one in collector.under(leg)] == ["prefill", "decode"]
        assert [one.name for one in collector.under(onward)] == ["prefill", "decode"]
        assert leg.events == [("cut", {"thinkgate.cut.reason": "cap"})]
        assert (leg.attributes["thinkgate.leg.end"], onward.attributes["thinkgate.leg.end"]) == (
            "abandoned",
            "finished",
        )
        assert root.attributes["gen_ai.operation.name"] == "chat"
        assert root.attributes["gen_ai.request.model"] == "t-model"
        assert root.attributes["thinkgate.outcome"] == "cut_answered"
        assert root.attributes["thinkgate.thinking.ended_by"] == "cap"
        usage = told.usages[0]
        assert root.attributes["gen_ai.usage.output_tokens"] == usage["completion_tokens"]
        assert (leg.kind, leg.attributes["server.port"]) == (CLIENT, double.port)
        assert leg.attributes["gen_ai.provider.name"] == "vllm"
        for one in (route, queue, leg, onward):
            assert root.start <= one.start <= one.end <= root.end
        assert leg.end <= onward.start
        # Each leg's engine hangs under that leg's own span.
        first, second = double.of("traced")
        assert first.headers["traceparent"] == f"00-{TRACE}-{leg.id}-01"
        assert second.headers["traceparent"] == f"00-{TRACE}-{onward.id}-01"
        assert collector.headers["authorization"] == "Bearer to-the-collector"
        assert collector.resources[0]["service.name"] == "thinkgate"
    host.remove(double)


async def test_errors_and_foreign_nonsense(gateway: Callable[..., Gateway], host: Host) -> None:
    double = host.add(VllmDouble("t-model"))
    with collecting() as collector:
        traced = Traced(gateway, double, collector)
        url = traced.gateway.url
        await stream(url, chat("t-model", "broken", error_first=500), {"traceparent": "00-nonsense-01"})
        await post(url, {"model": "secret-model-name", "messages": [{"role": "user", "content": "x"}]})
        roots = [*await traced.spans_of("chat t-model"), *collector.named("chat")]
        assert [(one.attributes["error.type"], one.is_error) for one in roots] == [
            ("engine_error", True),
            ("model_not_found", False),
        ]
        assert [one.parent for one in roots] == ["", ""]
        assert b"secret-model-name" not in collector.raw
    host.remove(double)


async def test_what_is_not_sampled_is_not_sent_and_says_so_to_the_engine(
    gateway: Callable[..., Gateway], host: Host
) -> None:
    double = host.add(VllmDouble("t-model"))
    with collecting() as collector:
        traced = Traced(gateway, double, collector, sample=0)
        await stream(traced.gateway.url, chat("t-model", "unseen"))
        await stream(traced.gateway.url, chat("t-model", "asked-for"), {"traceparent": PARENT})
        [root] = await traced.spans_of("chat t-model")
        assert root.trace == TRACE, "the client's own wish counts"
        flags = double.of("unseen")[0].headers["traceparent"].rpartition("-")[2]
        assert int(flags, 16) & 1 == 0, "the bit that says sampled"
    host.remove(double)


async def test_a_collector_that_is_down_costs_no_request(gateway: Callable[..., Gateway], host: Host) -> None:
    double = host.add(VllmDouble("t-model"))
    with collecting() as collector:
        pass
    traced = Traced(gateway, double, collector)
    assert (await stream(traced.gateway.url, chat("t-model", "untold"))).done
    await asyncio.to_thread(traced.gateway.stop)
    assert "to-the-collector" not in traced.gateway.log_text()
    host.remove(double)


async def test_off_by_default_and_then_nothing_of_it_is_imported(served: Gateway, vllm: VllmDouble) -> None:
    assert (await stream(served.url, chat("v-model", "untraced"), {"traceparent": PARENT})).done
    assert "traceparent" not in vllm.of("untraced")[0].headers
    look = (
        "import sys, gateway.cli, gateway.server; print([name for name in sys.modules if 'opentelemetry.sdk' in name])"
    )
    found = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", look], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr
