"""docs/sizing.md: its tables are what `budgets.kv` computes, its numbers those of the code, its example runs."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO

import pytest

from benchmarks.peers.cost import A_REQUEST, A_TOKEN, FLAT_OUT, HELD, IDLE, OPEN
from budgets.kv import DoesNotFit, Dtype, Gpus, capacity, find
from deploy.engines import sizing
from deploy.engines.recipes import DISTILL, H100, L4, WORKERS
from deploy.engines.sizing import OVERHEADS, PAGE, SETUPS, Setup, held, with_tables
from gateway.config import Pool as PoolConfig
from gateway.config import Timeouts
from gateway.confighandoff import Disaggregation
from gateway.observe import metricsdocs
from gateway.orders import SECOND_THOUGHT
from tests.pages import ROOT

TEXT = PAGE.read_text(encoding="utf-8")
FLAT = " ".join(TEXT.split())
PEERS = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
BENCH = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
FAQ = " ".join((ROOT / "docs" / "faq.md").read_text(encoding="utf-8").split())


def test_the_tables_are_what_is_computed() -> None:
    assert with_tables(TEXT) == TEXT, "run `make docs`"


def test_a_page_without_a_place_for_them_is_refused() -> None:
    with pytest.raises(ValueError, match="tokens"):
        with_tables("no marks")


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: f"{setup.model}-{setup.gpus}-{setup.gpu.name}")
def test_what_is_advised_fits(setup: Setup) -> None:
    tokens, at_once = held(setup, sizing.LENGTHS[-1])
    assert tokens > 0
    assert at_once >= 1


def test_what_does_not_fit_is_told_as_none() -> None:
    too_big = Setup(DISTILL + "32B", L4)
    assert held(too_big, 2_048) == (0, 0)
    gpus = Gpus(1, L4.memory, sizing.UTILISATION, OVERHEADS[1])
    with pytest.raises(DoesNotFit):
        capacity(find(too_big.model), gpus, precision=too_big.precision, dtype=too_big.dtype, sequence=2_048)


def test_the_guesses_are_those_of_the_recipes() -> None:
    for worker in WORKERS:
        if worker.engine == "vllm" and worker.utilisation == sizing.UTILISATION and "epd" not in worker.recipe:
            assert worker.overhead == OVERHEADS[worker.gpus], worker.name
    told = re.search(r"\((\d\.\d) GiB on one GPU, (\d) on two, (\d) on four, (\d) on eight\)", FLAT)
    assert told is not None
    assert [float(guess) for guess in told.groups()] == list(OVERHEADS.values())


def test_the_example_runs_and_says_what_the_table_says() -> None:
    [example] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(example, "docs/sizing.md", "exec"), {})
    tokens, sequences = map(int, printed.getvalue().split())
    setup = Setup(DISTILL + "32B", H100, 2, dtype=Dtype.FP8)
    assert held(setup, 16_384) == (round(tokens, 2 - len(str(tokens))), sequences)


@pytest.mark.parametrize(
    "told",
    [
        f"the table has {held(Setup(DISTILL + '32B', H100, 2, dtype=Dtype.FP8), 32_768)[1]} that may use 32,768 tokens",
        f"and {held(Setup(DISTILL + '32B', H100, 2, dtype=Dtype.FP8), 8_192)[1]} that may use 8,192",
        f"holds {WORKERS[-1].held().sequences} of {WORKERS[-1].sequence:,} tokens on an L4",
        f"`timeouts.queue` ({Timeouts().queue:g} s)",
        f"`timeouts.first_token` ({Timeouts().first_token:g} s)",
        f"`max_connections` ({PoolConfig.model_fields['max_connections'].default:,})",
        f"`disaggregation.local_below` ({Disaggregation.model_fields['local_below'].default} tokens)",
    ],
)
def test_a_number_is_that_of_the_code(told: str) -> None:
    assert told in FLAT


def test_series_it_names_exist() -> None:
    assert set(re.findall(r"`(thinkgate_\w+)", TEXT)) <= set(metricsdocs.families())


def peers(row: str) -> dict[str, str]:
    """A row of what it costs in docs/peers.md, by gateway, without what stands in brackets."""
    section = PEERS.split("## What it costs\n")[1].split("\n## ")[0]
    table = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:1] == "|"
    ]
    [cells] = [cells for cells in table if cells[0] == row]
    return {name: cell.partition(" (")[0].replace(",", "") for name, cell in zip(table[0][1:], cells[1:], strict=True)}


def test_what_the_gateway_costs_is_what_was_measured() -> None:
    """The figures of benchmarks/README.md, and of docs/peers.md, rounded."""
    table = BENCH.split("## The data path")[1].split("\n## ")[0]
    paced, flat, unary = (float(row.split("|")[2].replace(",", "")) for row in table.splitlines() if "CPU µs a" in row)
    as_vllm = [float(peers(row)["thinkgate"]) for row in (A_TOKEN, FLAT_OUT, A_REQUEST)]
    assert f"(the usual case) | {paced:.0f} µs | {as_vllm[0]:.0f} µs |" in TEXT
    assert f"many events a read | {flat:.0f} µs | {as_vllm[1]:.0f} µs |" in TEXT
    assert f"16 tokens | {unary / 1000:.1f} ms | {as_vllm[2] / 1000:.1f} ms |" in TEXT
    seconds = f"{25 * as_vllm[0] / 1000:.1f} ms"
    assert f"{25 * paced / 1000:.0f} ms of CPU a second from a plain OpenAI engine and {seconds} from a vLLM" in FLAT
    fill = 1e6 / (25 * as_vllm[0])
    assert f"some {fill // 10 * 10:.0f} of those fill a core" in FLAT
    half = f"{fill / 2 // 10 * 10:.0f}"
    assert f"{half} such streams" in FLAT
    assert f"one for each {half} streams" in FLAT
    assert (
        f"costs {as_vllm[0]:.0f} µs of CPU where each comes alone, {as_vllm[1]:.0f} µs where many come together" in FAQ
    )
    assert f"{seconds} of CPU a second" in FAQ


def test_the_ratios_with_vllm_s_dialect_are_those_of_the_comparison() -> None:
    costs = [peers(row) for row in (A_TOKEN, FLAT_OUT, A_REQUEST)]
    ratios = ", ".join(f"{float(cost['thinkgate']) / float(cost['plain']):.2f}" for cost in costs)
    assert f"ratios {ratios}." in BENCH


def test_how_much_more_than_its_cap_a_thought_may_take() -> None:
    assert "a model that thinks again gets a quarter more" in FLAT
    assert SECOND_THOUGHT == 4


def test_what_the_gateway_weighs_is_what_was_measured() -> None:
    """The rows of docs/peers.md."""
    idle, more = (peers(row)["thinkgate"] for row in (IDLE, HELD))
    assert f"{idle} MiB idle" in TEXT
    assert f"{float(more):.0f} MiB more with {OPEN} streams open" in FLAT
