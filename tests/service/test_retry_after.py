"""A full engine's `retry-after`, in every form it may have, becomes a number that clients obey and workers can bear."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.doubles.server import Host
from tests.doubles.vllm import VllmDouble
from tests.harness import Gateway, config, pool
from tests.service.talk import assert_error, chat, post
from tests.service.test_impostors import on_host, turncoat

FORMS = {
    "seconds": ("7", "7"),
    "fraction": ("2.5", "3"),
    "ten-years": ("315360000", "60"),
    "negative": ("-5", "5"),
    "nan": ("NaN", "5"),
    "past": ("Wed, 21 Oct 2015 07:28:00 GMT", "1"),
    "future": ("Fri, 31 Dec 9999 23:59:59 GMT", "60"),
}
UNTOLD = {"negative", "nan"}


@pytest.fixture(scope="module")
def served(gateway: Callable[..., Gateway], host: Host, vllm: VllmDouble) -> Iterator[Gateway]:
    answers = {
        name: f"HTTP/1.1 503 Service Unavailable\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n".encode()
        for name, (value, _) in FORMS.items()
    }
    with on_host(host, {name: turncoat(said) for name, said in answers.items()}) as urls:
        pools = {
            name: {**pool(vllm, model=name, upstream_model="life"), "workers": [url]} for name, url in urls.items()
        }
        yield gateway(config(pools)).wait_workers(len(pools))


@pytest.mark.parametrize("name", FORMS)
async def test_what_the_client_and_the_worker_get_of_it(served: Gateway, name: str) -> None:
    answer = await post(served.url, chat(name, f"full-{name}"))
    assert_error(answer, 503, "server_error", "engine_busy")
    assert answer.headers["retry-after"] == FORMS[name][1]
    async with httpx.AsyncClient() as client:
        rows = (await client.get(f"{served.url}/admin/workers")).json()["data"]
    [row] = [row for row in rows if row["pool"] == name]
    assert row["ready"], "it is full, and well"
    assert row["paused_for"] <= (1 if name in UNTOLD else int(FORMS[name][1]))
