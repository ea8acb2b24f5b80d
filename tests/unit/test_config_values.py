"""What a file may say and what comes of it: types, variables, secrets in files, anchors, the default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.config import Config, EngineKind, embedded_default
from gateway.configfile import ConfigError, load, parse, redacted
from gateway.edge.keys import hash_key

POOL = """\
pools:
  reasoning:
    model: r1
    engine: vllm
    workers: [http://10.0.0.7:8000]
"""


def read(text: str, base: Path = Path(), **env: str) -> Config:
    return parse(text, name="thinkgate.yaml", base=base, env=env)


def refused(text: str, base: Path = Path(), **env: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, base, **env)
    return str(caught.value)


def api_key(config: Config) -> str | None:
    key = config.pools["reasoning"].api_key
    return None if key is None else key.get_secret_value()


def test_a_small_file_is_enough() -> None:
    config = read(POOL)
    assert config.pools["reasoning"].engine is EngineKind.VLLM
    assert config.pools["reasoning"].workers == ("http://10.0.0.7:8000",)
    assert config.server.port == 8080


def test_without_a_file_the_engine_inside_runs() -> None:
    assert load(None) == embedded_default()


def test_a_file_is_read_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "thinkgate.yaml"
    path.write_text("\ufeff" + POOL + "    api_key: file:secret\n", encoding="utf-8")  # as some editors save it
    (tmp_path / "secret").write_text("  s3cret\n")
    assert api_key(load(path)) == "s3cret"


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", "folder"])
def test_an_unreadable_file_is_a_config_error(tmp_path: Path, content: bytes | str | None) -> None:
    path = tmp_path / "thinkgate.yaml"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"thinkgate\.yaml: 1 problem\n  the file "):
        load(path)


def test_a_path_that_is_none_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="not a path"):
        load(Path("a\0b"))


@pytest.mark.parametrize(
    ("written", "env", "port"),
    [
        ("${PORT:-8081}", {}, 8081),
        ("${PORT:-8081}", {"PORT": "9000"}, 9000),
        ("${PORT:-8081}", {"PORT": ""}, 8081),
        ("${PORT}", {"PORT": "9000"}, 9000),
    ],
)
def test_a_whole_variable_has_the_type_that_yaml_gives_its_content(
    written: str, env: dict[str, str], port: int
) -> None:
    assert read(f"{POOL}server:\n  port: {written}\n", Path(), **env).server.port == port


def test_a_quoted_variable_is_text() -> None:
    assert "expected a whole number" in refused(f'{POOL}server:\n  port: "${{PORT}}"\n', PORT="9000")


def test_a_variable_inside_a_text() -> None:
    text = POOL.replace("[http://10.0.0.7:8000]", '["http://${HOST}:${PORT:-8000}"]')
    assert read(text, HOST="gpu1").pools["reasoning"].workers == ("http://gpu1:8000",)


def test_digits_stay_text_where_text_is_wanted() -> None:
    assert api_key(read(POOL + "    api_key: ${KEY}\n", KEY="0123")) == "0123"
    assert read(POOL + "    upstream_model: ${NAME}\n", NAME="on").pools["reasoning"].upstream_model == "on"


def test_an_empty_whole_variable_is_no_value() -> None:
    assert api_key(read(POOL + "    api_key: ${KEY:-}\n")) is None


def test_structure_never_comes_from_a_variable() -> None:
    assert "got text" in refused(POOL.replace("[http://10.0.0.7:8000]", "${WORKERS}"), WORKERS="[http://a:1]")


def test_a_variable_is_filled_in_once() -> None:
    assert api_key(read(POOL + "    api_key: ${A}\n", A="${B}$$", B="no")) == "${B}$$"


@pytest.mark.parametrize(
    ("written", "is_"), [("a$$b", "a$b"), ("$${A}", "${A}"), ("5$", "5$"), ("$5-or-$-5", "$5-or-$-5")]
)
def test_dollar_signs(written: str, is_: str) -> None:
    assert api_key(read(f"{POOL}    api_key: {written}\n", A="no")) == is_


@pytest.mark.parametrize("written", ["pa$word", "${1}", "${A", "x${}"])
def test_a_dollar_sign_that_begins_no_variable_is_refused(written: str) -> None:
    message = refused(f"{POOL}    api_key: {written}\n", A="no", word="no")
    assert "at pools.reasoning.api_key, line 6; write `$$` for a dollar sign" in message


def test_unset_variables_are_named_with_their_line() -> None:
    message = refused(POOL + '    api_key: "${A}${B}${A}"\n', C="")
    assert "not set in the environment: `A`, `B` at pools.reasoning.api_key, line 6" in message


def test_variables_are_not_filled_in_in_keys() -> None:
    assert "unknown key `${A}`" in refused(POOL + '"${A}": 1\n', A="server")


def test_a_hash_may_come_from_a_file_or_a_variable(tmp_path: Path) -> None:
    (tmp_path / "team").write_text(hash_key("one") + "\n")
    (tmp_path / "ops").write_text(hash_key("three") + "\n")
    keys = 'keys: [{alias: a, hash: "file:team"}, {alias: b, hash: "${B}"}, {alias: c, hash: "${C}"}]\n'
    config = read(POOL + keys, tmp_path, B=hash_key("two"), C="file:ops")
    assert [key.hash for key in config.keys] == [hash_key("one"), hash_key("two"), hash_key("three")]


def test_file_is_only_text_where_no_secret_is_expected() -> None:
    assert read(POOL + "    upstream_model: file:nothing\n").pools["reasoning"].upstream_model == "file:nothing"


@pytest.mark.parametrize("content", ["", "\n", "one\ntwo", "x" * 70_000])
def test_a_secret_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "secret").write_text(content)
    message = refused(POOL + "    api_key: file:secret\n", tmp_path)
    assert "`file:secret`: must hold one line, the secret at pools.reasoning.api_key, line 6" in message


def test_secrets_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    for written in (
        "file:missing",
        "file:pipe",
        "file:bytes",
        "file:.",
        '"file:"',
        '"file:a\\0b"',
        f"file:{'x' * 5000}",
    ):
        assert "at pools.reasoning.api_key, line 6" in refused(f"{POOL}    api_key: {written}\n", tmp_path)


def test_anchors_aliases_and_merge_keys() -> None:
    text = """\
pools:
  a: &a
    model: a
    engine: vllm
    workers: &workers [http://a:1]
    thinking: {max_cap: 10}
  b:
    <<: *a
    model: b
  c:
    <<: [{model: c}, *a]
    workers: *workers
"""
    pools = read(text).pools
    assert [pool.model for pool in pools.values()] == ["a", "b", "c"]
    assert {pool.thinking.max_cap for pool in pools.values()} == {10}
    assert pools["c"].workers == ("http://a:1",)


def test_numbers_and_dates_are_what_yaml_says_or_text() -> None:
    config = read(POOL.replace("r1", "2026-01-01") + "server: {port: 0x50, drain: 1_0.5}\n")
    assert config.server.port == 80
    assert config.server.drain == 10.5
    assert config.pools["reasoning"].model == "2026-01-01"


def test_shown_without_secrets_and_with_defaults() -> None:
    keys = f"keys: [{{alias: team, hash: {hash_key('x')}}}]\n"
    shown = redacted(read(POOL + "    api_key: s3cret\n" + keys))
    assert shown["pools"]["reasoning"]["api_key"] == "[redacted]"
    assert shown["keys"][0] == {
        "alias": "team",
        "hash": "[redacted]",
        "admin": False,
        "reasoning_output": None,
        "route": None,
        "pool": None,
    }
    assert shown["server"]["port"] == 8080
    assert redacted(read(POOL))["pools"]["reasoning"]["api_key"] is None


def test_a_format_of_ones_own_is_named_by_a_pool(tmp_path: Path) -> None:
    own = "formats:\n  mine: {open: ['<t>'], close: ['</t>'], switch: [deep]}\n"
    config = read(own + POOL + "    format: mine\n", tmp_path)
    assert config.pools["reasoning"].format == "mine"
    record = config.own_formats()["mine"]
    assert (record.open, record.close, record.switch_kwargs(True)) == (("<t>",), ("</t>",), {"deep": True})


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("    format: qwen33\n", "unknown reasoning format 'qwen33'; nearest: qwen3"),
        ("    format: mine\nformats: {mine: {opn: ['<t>']}}\n", "unknown key 'opn'; did you mean 'open'?"),
        ("    format: mine\nformats: {mine: {base: qwem3}}\n", "qwem3"),
        ("    format: mine\nformats: {mine: {open: 3}}\n", "'open'"),
    ],
)
def test_a_format_that_is_not_one_is_refused_with_what_would_be_right(written: str, told: str) -> None:
    assert told in refused(POOL + written)
