"""A wrong file: every problem at once, in words, with its place and line, and without any value."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import NAME_PATTERN
from gateway.configfile import ConfigError, parse
from gateway.configschema import Place, at, keys_at, phrase

POOL = """\
pools:
  reasoning:
    model: r1
    engine: vllm
    workers: [http://10.0.0.7:8000]
"""
CANARY = "canary-7f3a"


def error_of(text: str, **env: str) -> ConfigError | None:
    try:
        parse(text, name="thinkgate.yaml", base=Path(), env=env)
    except ConfigError as error:
        return error
    return None


def refused(text: str) -> ConfigError:
    error = error_of(text)
    assert error is not None
    return error


def problems(text: str) -> list[str]:
    return [str(problem) for problem in refused(text).problems]


def test_the_message_is_a_list_in_the_order_of_the_file() -> None:
    error = refused(POOL.replace("vllm", "vlm").replace("workers", "worker"))
    assert str(error).splitlines() == [
        "thinkgate.yaml: 2 problems",
        "  expected one of `vllm`, `sglang`, `llamacpp`, `openai`, `embedded` at pools.reasoning.engine, line 4; "
        "did you mean `vllm`?",
        "  unknown key `worker` at pools.reasoning, line 5; did you mean `workers`?",
    ]
    assert error.problems[1].path == "pools.reasoning"
    assert error.problems[1].line == 5
    assert error.problems[1].hint == "did you mean `workers`?"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "missing key `pools`; it is a mapping, not empty"),
        ("# nothing\n", "missing key `pools`; it is a mapping, not empty"),
        ("- a", "the file must be a mapping, with keys such as `pools:`, line 1"),
        ("pools: {}", "empty; at least one entry is needed at pools, line 1"),
        ("pools:", "expected a mapping, not empty, got nothing at pools, line 1; give a value, or leave the key out"),
        (
            POOL.replace("    engine: vllm\n", ""),
            "missing key `engine` at pools.reasoning, line 2; it is one of `vllm`,",
        ),
        (POOL.replace("engine", "engin"), "unknown key `engin` at pools.reasoning, line 4; did you mean `engine`?"),
        (POOL + "    max_cap: 5", "unknown key `max_cap` at pools.reasoning, line 6; did you mean `thinking.max_cap`?"),
        (POOL + "logs: {zzz: 1}", "unknown key `zzz` at logs, line 6; known keys: format, level"),
        (POOL.replace("[http://10.0.0.7:8000]", "[ftp://a]"), "a worker is an http:// or https:// address"),
        (POOL.replace("[http://10.0.0.7:8000]", "http://a"), "expected a list, got text at pools.reasoning.workers"),
        (POOL.replace("[http://10.0.0.7:8000]", "[]"), "a pool needs at least one worker"),
        (POOL.replace("reasoning:", "my pool:"), 'not usable as a name at pools["my pool"], line 2'),
        (
            POOL + "server: {port: 70000}",
            "expected a whole number, at least 0 and at most 65535 at server.port, line 6",
        ),
        (POOL + 'server: {port: "80"}', "got text at server.port, line 6; if it stands in quotes, take them off"),
        (POOL + "server: {drain: .nan}", "not a number or a truth value that can be used here at server.drain, line 6"),
        (
            POOL + "server: {port: !!int x}",
            "not a number or a truth value that can be used here at server.port, line 6",
        ),
        (POOL + "    thinking: {caps: {hard: 1}}", "caps must not fall"),
        (
            POOL + "    hygiene: {topp: 1}",
            "unknown key `topp` at pools.reasoning.hygiene, line 6; did you mean `top_p`?",
        ),
        (POOL + "keys: [{alias: a, hash: x}]", "expected `sha256:` and 64 hex digits at keys[0].hash, line 6"),
        (POOL + "    api_key: 12", "expected text (a secret), got a whole number at pools.reasoning.api_key, line 6;"),
    ],
)
def test_one_problem(text: str, problem: str) -> None:
    [found] = problems(text)
    assert problem in found


@pytest.mark.parametrize("word", ["on", "off", "yes", "no"])
def test_words_that_yaml_reads_as_true_or_false(word: str) -> None:
    [found] = problems(POOL.replace("r1", word))
    assert "got true/false at pools.reasoning.model, line 3; YAML reads on, off, yes, no" in found
    assert found.endswith("put the word in quotes")
    [found] = problems(f"{POOL}  {word}: {{}}\n")
    assert found == "a key that YAML reads as true/false at pools, line 6; put the key in quotes"
    assert "got true/false at server.port" in problems(f"{POOL}server: {{port: {word}}}")[0]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (POOL + "  b: {model: r1, engine: vllm, workers: [http://b]}", "pools.b.model, line 6"),
        (POOL + "routes:\n  auto:\n    standard: reasoning\n    reasoning: gone", "routes.auto.reasoning, line 9"),
        (POOL + "server:\n  host: 0.0.0.0", "server.host, line 7"),
        (POOL + f"keys: [&k {{alias: a, hash: 'sha256:{'0' * 64}'}}, *k]", "keys[1].alias, line 6"),
    ],
)
def test_rules_between_keys_point_at_the_best_place(text: str, place: str) -> None:
    [found] = problems(text)
    assert found.endswith(f" at {place}")


def test_what_follows_from_a_problem_is_not_reported() -> None:
    found = problems(POOL + "    api_key: ${NOPE}\nserver: {port: !x 1, host: 1}\n")
    assert len(found) == 3
    assert "not set in the environment: `NOPE`" in found[0]
    assert "tags" in found[1]
    assert "got a whole number at server.host" in found[2]


def test_a_key_that_stands_twice_names_both_lines() -> None:
    assert problems(POOL + "    model: x\n") == [
        "the key `model` stands twice, on lines 3 and 6 at pools.reasoning.model, line 6"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: b: c", "a value that contains `: ` needs quotes"),
        ("a:\n\tb: c", "line 2; indent with spaces, not tabs"),
        ("a: @b", "a value that begins with `@` needs quotes"),
        ("x: 1\ny: [${A}]", "line 2; inside [ ] and { }, `${VAR}` needs quotes"),
        ("a: 1\n---\nb: 1", "another document, line 2"),
        ("a: 1\nb: \0", "a character that YAML does not allow, line 2"),
        ('a: "\\UFFFFFFFF"', "an escape or a number that does not exist, line 1"),
        ('a: "\\ud800"', "text that is not Unicode at a, line 1"),
        ('"\\ud800": 1', "a key that is not Unicode text, line 1"),
        ("? [a]\n: 1", "a list or a mapping as a key, line 1"),
        ("1: 2", "a key that YAML reads as a number, line 1; put the key in quotes"),
        ("a: {!x b: 1}", "tags (`!…`) are not used here at a, line 1"),
        ("a: !!python/object:os.system x", "tags (`!…`) are not used here at a, line 1"),
        ("a: !!set {x}", "tags (`!…`) are not used here at a, line 1"),
        ("a: {<<: 1}", "`<<` takes an alias of a mapping"),
        ("a: &a [*a]", "an alias that contains itself at a[0], line 1"),
        ("a: &a {<<: *a}", "an alias that contains itself at a, line 1"),
        ("[" * 5000, "nested deeper than 32 levels, line 1"),
        ("#" * 300_000, "the file is larger than 256 KiB"),
        (f"a: {'1:' * 50_000}1", "not a number or a truth value that can be used here at a, line 1"),
    ],
)
def test_yaml_that_is_refused(text: str, problem: str) -> None:
    assert problem in str(refused(text))


@pytest.mark.parametrize(
    ("first", "rest"),
    [("a0: &a0 [x]", "[{}]"), ("a0: &a0 {x: 1}", "{{<<: [{}]}}")],
)
def test_an_alias_bomb_is_refused(first: str, rest: str) -> None:
    layers = [f"a{n}: &a{n} " + rest.format(",".join([f"*a{n - 1}"] * 10)) for n in range(1, 12)]
    assert problems("\n".join([first, *layers])) == ["more than 20000 values, with the aliases unfolded"]


@pytest.mark.parametrize(
    "written",
    [f"*{CANARY}", f"!{CANARY} x", f"!{CANARY}!x y", f"&{CANARY}", f'"{CANARY}', f"{{{CANARY}", f"[{CANARY}, [x]",
     f"{CANARY}: x: y", f"%{CANARY}", f"pa${CANARY}", f"${{{CANARY}", f"@{CANARY}", f"'{CANARY}' {CANARY}"],
)  # fmt: skip
def test_a_secret_that_yaml_stumbles_over_is_not_shown(written: str) -> None:
    assert "canary" not in str(refused(f"{POOL}    api_key: {written}\n    max_cap: 1\n"))


def _places(place: Place = ()) -> list[Place]:
    """Every place of the schema, through one pool, one key, one route and the first entry of each list."""
    names: dict[Place, str] = {("pools",): "reasoning", ("routes",): "auto"}
    steps: list[str | int] = [*keys_at(place), *([names[place]] if place in names else [])]
    steps += [0 for leaf in at(place) if leaf.get("type") == "array"]
    inner = [found for step in steps for found in _places((*place, step))]
    return [*([place] if place else []), *inner]


def _with_value(tree: Any, place: Place, value: Any) -> Any:
    if not place:
        return value
    if place[0] == 0:
        return [_with_value({}, place[1:], value)]
    return {**tree, place[0]: _with_value(tree.get(place[0], {}), place[1:], value)}


def _is_named_on_purpose(place: Place) -> bool:
    """Names of models, pools and keys, and the address to bind, are told in messages: they are not secrets."""
    patterns = {leaf.get("pattern") for leaf in at(place)}
    return NAME_PATTERN in patterns or place == ("server", "host")


@pytest.mark.parametrize("place", [place for place in _places() if not _is_named_on_purpose(place)])
@pytest.mark.parametrize("value", [CANARY, f"http://[{CANARY}]", f"http://u:{CANARY}@\u2100", [CANARY], [[CANARY]]])
def test_no_value_is_ever_shown(place: Place, value: Any) -> None:
    text = json.dumps(_with_value(yaml.safe_load(POOL), place, value))
    for written in (text, text.replace(CANARY, "${CANARY}")):
        error = error_of(written, CANARY=CANARY)
        if error is not None:
            assert CANARY not in "".join(traceback.format_exception(error))
            assert error.__context__ is None


def test_every_place_is_tried_above() -> None:
    assert ("pools", "reasoning", "thinking", "caps", "hard") in _places()
    assert ("keys", 0, "hash") in _places()
    assert all(phrase(at(place)) for place in _places())


def test_a_long_or_odd_value_makes_no_long_or_odd_message() -> None:
    for host in ("-" * 200_000, "a\nb"):
        [found] = problems(json.dumps({**yaml.safe_load(POOL), "server": {"host": host}}))
        assert len(found) < 400
        assert found.isprintable()


def test_many_problems_are_found_soon() -> None:
    pools = {f"p{number}": {"model": "m", "engine": "vllm"} for number in range(2000)}
    assert len(problems(json.dumps({"pools": pools}))) == 2000
