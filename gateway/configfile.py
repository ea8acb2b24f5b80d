"""thinkgate.yaml → `Config`: reading, `${VAR}` and `file:`, and every mistake reported at once.

No rule about a key's value (those are the models of `config`) and no YAML detail (`configyaml`). Whoever calls this
gets a valid `Config` or a `ConfigError` to print, nothing else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gateway import configyaml
from gateway.config import Config, embedded_default
from gateway.configerrors import ConfigError, Problem, explain, shown
from gateway.configschema import Place, Value, is_secret, json_schema, wants_text
from gateway.configyaml import Expanded, UnusableError

__all__ = ["ConfigError", "Problem", "json_schema", "load", "parse", "redacted"]

REDACTED = "[redacted]"
FILE_PREFIX = "file:"
MAX_SECRET_BYTES = 64 * 1024
_DOLLAR = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<stray>[A-Za-z_{]))")


def load(
    path: Path | None, env: Mapping[str, str] = os.environ, *, on_secret: Callable[[Path], object] | None = None
) -> Config:
    """The configuration in a file; without one, the engine inside. `on_secret` is told each file a secret is in."""
    if path is None:
        return embedded_default()
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror or type(error).__name__}"
    except UnicodeDecodeError:
        problem = "the file is not UTF-8 text"
    except ValueError:
        problem = "this is not a path"
    else:
        return parse(text, name=str(path), base=path.parent, env=env, on_secret=on_secret)
    raise ConfigError(str(path), [Problem("", None, problem, None)])


def parse(
    text: str,
    *,
    name: str,
    base: Path,
    env: Mapping[str, str],
    on_secret: Callable[[Path], object] | None = None,
) -> Config:
    """The configuration in a text. `name` is for messages; `file:` paths start at `base`."""
    document = configyaml.read(text, _Outside(env, base, on_secret).expand)
    problems = list(document.problems)
    if document.value is not None:
        try:
            # As JSON, because strict mode knows JSON's lists and strings for our tuples and enums, and so a quoted
            # number or a `yes` for a 1 is refused as it is by the schema.
            config = Config.model_validate_json(json.dumps(document.value), strict=True)
        except ValidationError as error:
            problems += explain(error, document.value, document.lines, document.spoiled)
        else:
            if not problems:
                return config
    # Raised out here so that pydantic's error, which holds the values, does not travel along as the context.
    raise ConfigError(name, problems)


def redacted(config: Config) -> dict[str, Any]:
    """The whole configuration, defaults included, as it may be shown: keys and their hashes are hidden."""
    return {key: _hide(value, (key,)) for key, value in config.model_dump(mode="json").items()}


def _hide(value: Value, place: Place) -> Value:
    if isinstance(value, dict):
        return {key: _hide(child, (*place, key)) for key, child in value.items()}
    if isinstance(value, list):
        return [_hide(child, (*place, index)) for index, child in enumerate(value)]
    return REDACTED if value is not None and is_secret(place) else value


class _Outside:
    """What a text may take from outside the file: environment variables, and files that hold a secret."""

    def __init__(self, env: Mapping[str, str], base: Path, on_secret: Callable[[Path], object] | None) -> None:
        self._env = env
        self._base = base
        self._on_secret = on_secret

    def expand(self, place: Place, text: str, plain: bool) -> Expanded:
        expanded = self._substitute(text) if "$" in text else text
        if expanded.startswith(FILE_PREFIX) and is_secret(place):
            # The path is shown as written, before substitution.
            return Expanded(self._secret(expanded.removeprefix(FILE_PREFIX).strip(), text), retype=False)
        variable = _DOLLAR.fullmatch(text)
        whole = plain and variable is not None and variable["name"] is not None
        return Expanded(expanded, retype=whole and (not expanded or not wants_text(place)))

    def _substitute(self, text: str) -> str:
        unset: list[str] = []

        def value_of(match: re.Match[str]) -> str:
            if match["stray"]:
                raise UnusableError("a `$` that begins no ${VARIABLE}", "write `$$` for a dollar sign")
            if match["name"] is None:
                return "$"
            value = self._env.get(match["name"])
            if match["default"] is not None:
                return value or match["default"]
            if value is None:
                unset.append(match["name"])
            return value or ""

        expanded = _DOLLAR.sub(value_of, text)
        if unset:
            names = ", ".join(f"`{name}`" for name in dict.fromkeys(unset))
            raise UnusableError(f"not set in the environment: {names}", f"`${{{unset[0]}:-…}}` would give a default")
        return expanded

    def _secret(self, path: str, written: str) -> str:
        source = f"`{shown(written)}`" if written.startswith(FILE_PREFIX) else "the `file:` path in the variable"
        try:
            file = self._base / path
            if self._on_secret is not None:
                self._on_secret(file)
            if not file.is_file():  # asked before opening: a pipe would block, a device never ends
                raise UnusableError(f"{source}: no such file", "the path starts at the configuration file's folder")
            with file.open("rb") as stream:
                content = stream.read(MAX_SECRET_BYTES + 1)
            secret = content.decode().strip()
        except OSError as error:
            raise UnusableError(f"{source}: cannot be read: {error.strerror or 'error'}") from None
        except ValueError:
            raise UnusableError(f"{source}: not a path, or not UTF-8 text") from None
        if len(content) > MAX_SECRET_BYTES or len(secret.splitlines()) != 1:
            raise UnusableError(f"{source}: must hold one line, the secret")
        return secret
