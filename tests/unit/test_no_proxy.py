"""Tests speak to loopback, whatever proxy the shell that started them has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.doubles.vllm import VllmDouble

ASK = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1] + '/health', timeout=10).status)"


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY"])
def test_what_they_start_asks_no_proxy(vllm: VllmDouble, name: str) -> None:
    env = os.environ | {name: "http://127.0.0.1:9"}
    told = subprocess.run([sys.executable, "-c", ASK, vllm.url], env=env, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (0, "200\n"), told.stderr
