"""`.ci/run` with a machine of its own: a folder of programs that only say what they were called with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.image import ROOT

SCRIPT: Final = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
POLICY: Final = "/usr/sbin/policy-rc.d"
SERVERS: Final = ":/usr/sbin:/usr/local/sbin"
PROGRAMS: Final = dict(re.findall(r"^  (\w+):([\w-]+)$", SCRIPT, re.MULTILINE))
REAL: Final = ("bash", "dirname", "rm", "mv", "chmod", "cat")


class Machine:
    """`user`: its number, 0 for root. `packages`: what its apt-get has; each brings its program."""

    def __init__(self, folder: Path, *, user: int = 1000, packages: set[str] | None = None) -> None:
        self._folder, self._bin = folder, folder / "bin"
        (folder / ".ci").mkdir()
        self._bin.mkdir()
        self.policy = folder / "policy-rc.d"
        changed = SCRIPT.replace(POLICY, str(self.policy)).replace(SERVERS, "")
        assert str(self.policy) in changed
        (folder / ".ci" / "run").write_text(changed, encoding="utf-8")
        for name in REAL:
            (self._bin / name).symlink_to(shutil.which(name) or name)
        self.install("id", f"echo {user}")
        self.install("make", 'echo "make $*"')
        if packages is not None:
            known = "\n".join(
                f'{package}) printf "#!/bin/sh\\n" >{self._bin}/{program}; chmod +x {self._bin}/{program} ;;'
                for program, package in PROGRAMS.items()
                if package in packages
            )
            choice = f'case "$one" in\n{known}\n-*|install|update) ;;\n*) exit 100 ;;\nesac'
            self.install("apt-get", f"cat {self.policy}\nfor one in $*; do {choice}; done")

    def install(self, program: str, text: str = "") -> None:
        file = self._bin / program
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def run(self, **more: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._bin / "bash"), str(self._folder / ".ci" / "run")]
        env = {"PATH": str(self._bin), "HOME": os.devnull} | more
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_it_knows_what_tests_skip_without() -> None:
    assert {"nginx", "haproxy", "promtool", "node", "npm", "curl", "openssl", "jq"} == set(PROGRAMS)


def test_with_all_programs_it_tests(folder: Path) -> None:
    machine = Machine(folder)
    for program in PROGRAMS:
        machine.install(program)
    told = machine.run()
    assert (told.returncode, told.stdout, told.stderr) == (0, "make train-extra\nmake test\n", "")


@pytest.mark.parametrize("user", [0, 1000])
def test_without_one_it_fails_and_names_it(folder: Path, user: int) -> None:
    """Nobody may install anything; or the index has not got it."""
    machine = Machine(folder, user=user, packages=set() if user == 0 else None)
    for program in set(PROGRAMS) - {"jq"}:
        machine.install(program)
    told = machine.run()
    assert told.returncode == 1
    assert "jq is missing (Debian package jq)" in told.stderr
    assert "make" not in told.stdout
    allowed = machine.run(THINKGATE_CI_WITHOUT="nginx jq")
    assert allowed.returncode == 0
    assert "without jq: the tests that need it will skip" in allowed.stdout
    assert "make test\n" in allowed.stdout


def test_torch_is_installed_unless_named(folder: Path) -> None:
    machine = Machine(folder)
    for program in PROGRAMS:
        machine.install(program)
    told = machine.run(THINKGATE_CI_WITHOUT="torch")
    assert told.returncode == 0
    assert told.stdout.splitlines() == ["without torch: the tests that need it will skip, and say so", "make test"]
    machine.install("make", "exit 3")
    assert machine.run().returncode != 0


@pytest.mark.parametrize("before", ["", "#!/bin/sh\nexit 0 # the owner's\n"], ids=["none", "the owner's"])
def test_what_is_missing_is_installed_and_no_service_starts(folder: Path, before: str) -> None:
    machine = Machine(folder, user=0, packages=set(PROGRAMS.values()))
    if before:
        machine.policy.write_text(before)
    told = machine.run()
    assert told.returncode == 0, told.stderr
    assert "exit 101" in told.stdout, "said while packages were installed"
    assert told.stdout.endswith("make test\n")
    assert (machine.policy.read_text() if machine.policy.exists() else "") == before
    assert not list(folder.glob("policy-rc.d.*"))
