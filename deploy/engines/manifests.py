"""The Kubernetes side of a recipe: a StatefulSet and a headless Service for each script, and a kustomization that
brings the scripts themselves into the cluster, so that no flag stands in two places. Nothing here knows a flag.
"""

from __future__ import annotations

from typing import Any

import yaml

from deploy.engines.recipes import CACHES, IMAGES, MODELS, PORTS, WORKERS, Worker

LAG = 15
"""Seconds in which gateways notice that a pod is leaving."""
LEASE = 30
"""Seconds that a prefill worker keeps a cache which no decode worker has fetched yet (vLLM's default)."""
HEADER = "# Made by `python -m deploy.engines` from recipes.py. Apply with `kubectl apply -k`.\n"


def manifest(recipe: str) -> str:
    """The text of a recipe's kubernetes.yaml."""
    things = [thing for one in WORKERS if one.recipe == recipe for thing in (_service(one), _stateful_set(one))]
    return HEADER + yaml.safe_dump_all(things, sort_keys=False, width=120)


def kustomization(recipe: str) -> str:
    """The text of a recipe's kustomization.yaml. The ConfigMap's name gets a hash: a changed script rolls its pods."""
    scripts = [one.script.name for one in WORKERS if one.recipe == recipe]
    told = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["kubernetes.yaml"],
        "configMapGenerator": [{"name": recipe, "files": scripts}],
    }
    return HEADER + yaml.safe_dump(told, sort_keys=False, width=120)


def _labels(worker: Worker) -> dict[str, str]:
    return {"app.kubernetes.io/name": worker.name, "app.kubernetes.io/part-of": worker.recipe}


def _service(worker: Worker) -> dict[str, Any]:
    """Headless: gateways speak to each pod. Pods that still load are told too, since gateways warm workers up."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": worker.name, "labels": _labels(worker)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _labels(worker),
            "ports": [{"name": "http", "port": PORTS[worker.engine], "targetPort": "http"}],
        },
    }


def _stateful_set(worker: Worker) -> dict[str, Any]:
    lag = LAG + LEASE if worker.role == "prefill" else LAG
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": worker.name, "labels": _labels(worker)},
        "spec": {
            "serviceName": worker.name,
            "replicas": 1,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": _labels(worker)},
            "template": {
                "metadata": {"labels": _labels(worker)},
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,  # variables of a service `vllm…` look like vLLM's own settings
                    "terminationGracePeriodSeconds": lag + worker.drain + 30,
                    "nodeSelector": {"nvidia.com/gpu.product": worker.gpu.product},
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [_container(worker, lag)],
                    "volumes": _volumes(worker),
                },
            },
        },
    }


def _container(worker: Worker, lag: int) -> dict[str, Any]:
    # SGLang's /health generates, and says 503 while a kernel compiles: a probe that asked it would kill a pod for that.
    alive = "/health" if worker.engine == "vllm" else "/v1/models"
    resources = {"nvidia.com/gpu": str(worker.gpus)} | ({"rdma/hca": "1"} if worker.rdma else {})
    capabilities = {"drop": ["ALL"]} | ({"add": ["IPC_LOCK"]} if worker.rdma else {})
    variables = CACHES[worker.engine] | worker.environment
    return {
        "name": "engine",
        "image": IMAGES[worker.engine],
        "command": ["bash", f"/recipe/{worker.script.name}"],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            *({"name": name, "value": value} for name, value in variables.items()),
        ],
        "ports": [{"name": "http", "containerPort": PORTS[worker.engine]}],
        "startupProbe": _probe("/v1/models", period=10, failures=worker.start // 10),
        "livenessProbe": _probe(alive, period=10, failures=6),
        "readinessProbe": _probe("/v1/models", period=5, failures=3),
        "lifecycle": {"preStop": {"sleep": {"seconds": lag}}},
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": capabilities},
        "volumeMounts": [
            {"name": "recipe", "mountPath": "/recipe", "readOnly": True},
            {"name": "models", "mountPath": MODELS},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - NCCL's, between the GPUs of a pod
            *([{"name": "embeddings", "mountPath": "/embeddings"}] if _shares_embeddings(worker) else []),
        ],
    }


def _volumes(worker: Worker) -> list[dict[str, Any]]:
    return [
        {"name": "recipe", "configMap": {"name": worker.recipe}},
        {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
        *(
            [{"name": "embeddings", "persistentVolumeClaim": {"claimName": "embeddings"}}]
            if _shares_embeddings(worker)
            else []
        ),
    ]


def _shares_embeddings(worker: Worker) -> bool:
    return worker.recipe == "vllm-epd" and worker.role != "decode"


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
