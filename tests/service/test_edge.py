"""What comes in and what may travel on: keys, headers, dangerous fields, unknown fields; and what logs may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import httpx
import pytest

from tests.doubles.server import Host
from tests.doubles.sglang import SglangDouble
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_complete, assert_error, chat, post, stream

ALICE, BOB = "tg-canary-alice-0123456789", "tg-canary-bob-0123456789"
POOL_KEY = "pool-secret-0123456789"
AS_ALICE = {"authorization": f"Bearer {ALICE}"}


def entry(alias: str, key: str, **more: Any) -> dict[str, Any]:
    return {"alias": alias, "hash": f"sha256:{sha256(key.encode()).hexdigest()}", **more}


@pytest.fixture(scope="module")
def locked(host: Host) -> Iterator[VllmDouble]:
    """An engine that wants a key of its own."""
    double = host.add(VllmDouble("locked", api_key=POOL_KEY))
    yield double
    host.remove(double)


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], vllm: VllmDouble, sglang: SglangDouble, locked: VllmDouble) -> Gateway:
    keys = [entry("alice", ALICE), entry("bob", BOB, reasoning_output="hidden"), entry("ops", "ops", admin=True)]
    pools = {"vllm": pool(vllm), "sglang": pool(sglang), "locked": pool(locked)}
    return gateway(config(pools, keys=keys)).wait_workers(3)


class TestKeys:
    @pytest.mark.parametrize(
        "header",
        [
            None,
            "",
            "Bearer",
            "Bearer wrong",
            f"Basic {ALICE}",
            ALICE,
            f"Bearer {ALICE}x",
            f"Bearer {ALICE} x",
        ],
    )
    async def test_without_the_right_one_it_is_401(self, served: Gateway, vllm: VllmDouble, header: str | None) -> None:
        headers = {} if header is None else {"authorization": header}
        response = await post(served.url, chat("v-model", "locked-out"), headers=headers)
        error = assert_error(response, 401, "authentication_error", "invalid_api_key")
        assert "canary" not in error["message"]
        assert vllm.of("locked-out") == []

    @pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
    async def test_every_door_asks(self, served: Gateway, path: str) -> None:
        assert_error(await post(served.url, {}, path), 401, "authentication_error")

    async def test_models_asks_too_and_health_does_not(self, served: Gateway) -> None:
        async with httpx.AsyncClient() as client:
            assert_error(await client.get(f"{served.url}/v1/models"), 401, "authentication_error")
            assert (await client.get(f"{served.url}/livez")).status_code == 200
            assert (await client.get(f"{served.url}/readyz")).status_code == 200

    async def test_the_right_one_passes_and_stays_here(self, served: Gateway, vllm: VllmDouble) -> None:
        """The double has no key, and holds any Authorization header against the gateway."""
        assert_complete(await stream(served.url, chat("v-model", "pass"), AS_ALICE), "pass")
        assert "authorization" not in vllm.of("pass")[0].headers

    async def test_the_pools_key_goes_to_its_engine(self, served: Gateway, locked: VllmDouble) -> None:
        assert_complete(await stream(served.url, chat("locked", "pool-key"), AS_ALICE), "pool-key")
        assert locked.of("pool-key")[0].headers["authorization"] == f"Bearer {POOL_KEY}"

    async def test_a_keys_own_way_to_show_thoughts(self, served: Gateway) -> None:
        told = await stream(served.url, chat("v-model", "bobs"), {"authorization": f"Bearer {BOB}"})
        assert told.thought == ""
        assert all("reasoning" not in delta for delta in told.deltas)
        assert told.answer.strip().startswith("Answer(")

    async def test_only_an_admin_reads_admin(self, served: Gateway) -> None:
        async with httpx.AsyncClient() as client:
            url = f"{served.url}/admin/workers"
            assert_error(await client.get(url), 401, "authentication_error")
            assert_error(await client.get(url, headers=AS_ALICE), 403, "permission_error")
            assert (await client.get(url, headers={"authorization": "Bearer ops"})).status_code == 200


DANGEROUS: dict[str, Any] = {
    "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "canary.example"},
    "ec_transfer_params": {"remote_host": "canary.example"},
    "bootstrap_host": "canary.example",
    "bootstrap_port": 8998,
    "bootstrap_room": 7,
    "bootstrap_pair_key": "canary",
    "custom_logit_processor": "canary",
    "logits_processors": ["canary"],
    "routed_dp_rank": 1,
    "data_parallel_rank": 1,
    "disagg_prefill_dp_rank": 1,
    "decode_tp_size": 2,
    "encoder_urls": ["http://canary.example"],
    "num_items_assigned": [1],
    "need_wait_for_mm_inputs": True,
    "vllm_xargs": {"kv_transfer_params": "canary"},
    "chat_template": "{{ canary }}",
    "lora_path": "/canary",
    "session_params": {"id": "canary"},
    "session_id": "canary",
    "rid": "canary",
    "request_id": "canary",
    "priority": -999,
    "cache_salt": "canary",
    "extra_key": "canary",
}


@pytest.mark.parametrize("target", ["v-model", "s-model"])
@pytest.mark.parametrize("field", DANGEROUS)
async def test_dangerous_fields_are_refused_or_taken_out(
    served: Gateway, vllm: VllmDouble, sglang: SglangDouble, target: str, field: str
) -> None:
    """A double that sees one, or the word planted in it, logs a violation."""
    key = f"danger-{field.replace('_', '-')}-{target}"
    response = await post(served.url, chat(target, key, body={field: DANGEROUS[field]}), headers=AS_ALICE)
    if response.status_code == 200:
        seen = (vllm if target == "v-model" else sglang).of(key)
        assert field not in seen[0].json
    else:
        error = assert_error(response, 400, "invalid_request_error")
        assert error["param"] == field or str(error["param"]).startswith(f"{field}.")


@pytest.mark.parametrize("target", ["v-model", "s-model"])
async def test_a_template_inside_the_template_arguments_is_refused(served: Gateway, target: str) -> None:
    body = {"chat_template_kwargs": {"chat_template": "{{ canary }}"}}
    response = await post(served.url, chat(target, "nested", body=body), headers=AS_ALICE)
    assert_error(response, 400, "invalid_request_error")


async def test_unknown_fields_reach_the_engine_untouched(served: Gateway, vllm: VllmDouble) -> None:
    extra = {
        "top_k": 7,
        "min_p": 0.05,
        "stop_token_ids": [1, 2],
        "x_new": {"deep": [1, 2.5, None, {"ä": "🙂"}], "empty": {}, "big": 2**53},
        "metadata": {"a": "b"},
        "chat_template_kwargs": {"custom": "yes"},
        "logit_bias": {"5": -100},
    }
    assert (await post(served.url, chat("v-model", "extra", body=extra), headers=AS_ALICE)).status_code == 200
    sent = vllm.of("extra")[0].json
    assert sent["chat_template_kwargs"]["custom"] == "yes"
    assert {name: sent[name] for name in extra if name != "chat_template_kwargs"} == {
        name: value for name, value in extra.items() if name != "chat_template_kwargs"
    }


async def test_messages_reach_the_engine_untouched(served: Gateway, vllm: VllmDouble) -> None:
    body = chat("v-model", "history")
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "assistant", "content": "four"},
    ]
    body["messages"] = history + body["messages"]
    assert (await post(served.url, body, headers=AS_ALICE)).status_code == 200
    assert vllm.of("history")[0].json["messages"] == body["messages"]


async def test_the_clients_headers_stay_here(served: Gateway, vllm: VllmDouble) -> None:
    """The doubles hold any header against the gateway that is not of the few that may travel."""
    headers = {
        **AS_ALICE,
        "cookie": "session=canary",
        "x-api-key": "canary",
        "api-key": "canary",
        "openai-organization": "canary",
        "x-forwarded-for": "10.1.2.3",
        "forwarded": "for=canary",
        "x-vllm-priority": "-9",
        "x-data-parallel-rank": "3",
        "x-override-rid": "canary",
        "te": "trailers",
        "user-agent": "canary/1.0",
    }
    assert_complete(await stream(served.url, chat("v-model", "heads"), headers), "heads")
    assert set(vllm.of("heads")[0].headers) <= {
        "host", "connection", "accept", "accept-encoding", "user-agent", "content-type", "content-length",
        "x-request-id", "traceparent", "tracestate",
    }  # fmt: skip


async def test_no_secret_and_no_prompt_in_logs_or_metrics(served: Gateway) -> None:
    await post(served.url, chat("v-model", "quiet", text="my private prompt"), headers=AS_ALICE)
    await post(served.url, chat("v-model", "quiet", status=500, text="my private prompt"), headers=AS_ALICE)
    await post(served.url, chat("canary-model", "quiet"), headers=AS_ALICE)
    await post(served.url, b'{"canary": ', headers={"authorization": f"Bearer {ALICE}x"})
    async with httpx.AsyncClient() as client:
        metrics = (await client.get(f"{served.url}/metrics")).text
    for place in (served.log_text(), metrics):
        assert "canary" not in place
        assert "private prompt" not in place
        assert POOL_KEY not in place
    assert "alice" in served.log_text()
