"""`disaggregation` in thinkgate.yaml: what cannot work is an error with its line, not a hang of the first request."""

from __future__ import annotations

import pytest

from gateway.config import EngineKind
from gateway.confighandoff import HandOffKind, loopback
from tests.unit.test_config_errors import error_of, problems

APART = """\
pools:
  reasoning:
    model: r1
    engine: vllm
    workers: [http://10.0.1.1:8000]
    disaggregation:
      handoff: nixl
      prefill:
        - url: http://10.0.2.1:8000
"""
SGLANG = APART.replace("vllm", "sglang").replace("nixl", "sglang")
PUSH = APART.replace("handoff: nixl", "handoff: nixl-push")


@pytest.mark.parametrize(
    "text",
    [
        APART,
        SGLANG,
        PUSH + "          engine_id: p-1\n",
        APART.replace("nixl", "mooncake"),
        APART.replace("        - url: http://10.0.2.1:8000", "        - http://10.0.2.1:8000/v1"),
        APART.replace("10.0.2.1", "127.0.0.1") + "          kv_host: 10.0.2.1\n",
        APART.replace("10.0.2.1", "127.0.0.1").replace("10.0.1.1", "localhost"),
        APART + "      encode: [http://10.0.3.1:8000]\n",
        APART + "      groups: {http://10.0.1.1:8000/v1: a, http://10.0.2.1:8000: a}\n",
        APART + "      without_prefill: local\n      if_missing: refuse\n      local_below: 0\n      lease: 480\n",
    ],
)
def test_what_can_work_is_taken(text: str) -> None:
    assert error_of(text) is None


@pytest.mark.parametrize(
    ("text", "named", "place"),
    [
        (APART.replace("10.0.2.1", "127.0.0.1"), "127.0.0.1", "url, line 9"),
        (SGLANG + "          kv_host: localhost\n", "localhost", "kv_host, line 10"),
        (SGLANG + "          kv_host: 0.0.0.0\n", "0.0.0.0", "kv_host, line 10"),
    ],
)
def test_epd18_a_loopback_address_for_workers_elsewhere_is_refused_with_its_line(
    text: str, named: str, place: str
) -> None:
    [said] = problems(text)
    assert f"http://10.0.1.1:8000 would take the 'kv_host' '{named}' of http://" in said
    assert said.endswith(f"at pools.reasoning.disaggregation.prefill[0].{place}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (APART.replace("vllm", "sglang"), "the hand-off 'nixl' is for the engine 'vllm', and the pool's is 'sglang'"),
        (SGLANG.replace("engine: sglang", "engine: vllm"), "the hand-off 'sglang' is for the engine 'sglang'"),
        (APART.replace("vllm", "llamacpp"), "and the pool's is 'llamacpp'"),
        (PUSH, "http://10.0.2.1:8000 needs its 'engine_id'"),
        (APART.replace("10.0.2.1", "10.0.1.1"), "http://10.0.1.1:8000 has two roles"),
        (APART + "      encode: [http://10.0.1.1:8000]\n", "http://10.0.1.1:8000 has two roles"),
        (APART + "      groups: {http://10.0.9.9:1: a}\n", "'groups' names http://10.0.9.9:1"),
        (SGLANG + "      encode: [http://10.0.3.1:8000]\n", "SGLang's prefill workers find their encoders themselves"),
        (SGLANG + "      without_prefill: local\n", "SGLang's decode workers cannot prefill"),
        (APART.replace("nixl", "moriio"), "expected one of `nixl`, `nixl-push`, `mooncake`, `sglang`"),
        (APART.replace("        - url: http://10.0.2.1:8000", "        []"), "disaggregation.prefill"),
        (APART + "          bootstrap_port: 0\n", "bootstrap_port, line 10"),
        (APART + "          kv_hosts: a\n", "did you mean `kv_host`?"),
        (APART + "      locals_below: 1\n", "did you mean `local_below`?"),
        (APART + "      if_missing: hang\n", "if_missing, line 10"),
    ],
)
def test_what_cannot_work_is_refused_in_words(text: str, problem: str) -> None:
    assert problem in "\n".join(problems(text))


def test_every_hand_off_is_some_engines() -> None:
    assert {kind.value for kind in HandOffKind} == {"nixl", "nixl-push", "mooncake", "sglang"}
    assert {EngineKind.VLLM, EngineKind.SGLANG} < set(EngineKind)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::"])
def test_these_are_the_machine_itself(name: str) -> None:
    assert loopback(name)


@pytest.mark.parametrize("name", ["10.0.0.1", "fe80::1", "node-1", "localhost.example", ""])
def test_these_are_not(name: str) -> None:
    assert not loopback(name)
