"""Where a running gateway's configuration comes from, to be read as often as it is asked for: a file, and what the
command line says instead.

Blocking, as files are: whoever has an event loop calls it from a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gateway import configfile
from gateway.config import Config
from gateway.configchanges import validated
from gateway.configerrors import ConfigError, Problem

MAX_READ = 1024 * 1024
"""Bytes of a file that are looked at for a change: more than a configuration or a secret may have."""


class Source:
    """`file`: None for the engine inside. `overrides`: by section (`server`, `logs`), keys that the file does not
    decide. They are checked like the file: a public address without keys is refused here too."""

    def __init__(self, file: Path | None, overrides: Mapping[str, Mapping[str, object]] | None = None) -> None:
        self.file = file
        self._overrides = overrides or {}
        self._known = b""
        self._seen = b""
        self._secrets: dict[Path, bytes] = {}
        """Digests of the files that the last reading has looked for a secret in."""

    @property
    def name(self) -> str:
        return "the command line" if self.file is None else str(self.file)

    def load(self) -> Config:
        """What holds now. Raises ConfigError."""
        # Before it is read: what is written meanwhile is a change, which may turn out to be none.
        before = _digest(self.file)
        secrets: dict[Path, bytes] = {}
        try:
            config = configfile.load(self.file, on_secret=lambda path: secrets.setdefault(path, _digest(path)))
        finally:
            self._secrets = secrets
            self._known = _join(before, secrets.values())
        if not self._overrides:
            return config
        fields: dict[str, Any] = {name: getattr(config, name) for name in Config.model_fields}
        for section, keys in self._overrides.items():
            fields[section] = {**fields[section].model_dump(), **keys}
        try:
            return validated(fields)
        except ValueError as error:
            problem = Problem("", None, str(error), None)
        raise ConfigError(self.name, [problem])

    def has_changed(self) -> bool:
        """Has somebody written something else than was last read, and is done with it? Asked again and again: what
        differs from the last look as well may be half written. By content, since times and inodes tell little where a
        ConfigMap is swapped by a symlink, or an editor renames."""
        found = _join(_digest(self.file), [_digest(path) for path in self._secrets])
        is_done, self._seen = found == self._seen, found
        return is_done and found != self._known


def _join(first: bytes, others: Iterable[bytes]) -> bytes:
    return b"".join((first, *others))


def _digest(file: Path | None) -> bytes:
    return blake2b(b"" if file is None else _content(file), digest_size=16).digest()


def _content(file: Path) -> bytes:
    try:
        if not file.is_file():  # asked before opening: a pipe would block
            return b""
        with file.open("rb") as stream:
            return stream.read(MAX_READ)
    except (OSError, ValueError) as error:
        return type(error).__name__.encode()
