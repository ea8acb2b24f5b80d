"""The source of a running gateway's configuration: read again and again, and watched by its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.configerrors import ConfigError
from gateway.configsource import Source

FILE = """
pools:
  one:
    model: m
    engine: vllm
    format: think
    workers: [http://10.0.0.7:8000]
    api_key: file:key
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "key").write_text("secret\n")
    (tmp_path / "thinkgate.yaml").write_text(FILE)
    return tmp_path


def rename(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def swap(path: Path, text: str) -> None:
    target = path.with_name(f"{path.name}-{len(list(path.parent.iterdir()))}")
    target.write_text(text)
    link = path.with_name("link")
    link.symlink_to(target)
    link.replace(path)


def rewrite(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.mark.parametrize("change", [rename, swap, rewrite])
@pytest.mark.parametrize("name", ["thinkgate.yaml", "key"])
def test_a_change_is_seen_once_it_is_done(folder: Path, name: str, change: Callable[[Path, str], None]) -> None:
    source = Source(folder / "thinkgate.yaml")
    source.load()
    assert [source.has_changed() for _ in range(3)] == [False, False, False]
    text = (folder / name).read_text()
    change(folder / name, text.replace("secret", "Secret").replace("0.7", "0.8"))
    assert [source.has_changed() for _ in range(3)] == [False, True, True], "the first look may have seen half of it"
    source.load()
    assert [source.has_changed() for _ in range(2)] == [False, False]


def test_one_that_is_still_being_written_is_waited_for(folder: Path) -> None:
    source = Source(folder / "thinkgate.yaml")
    source.load()
    for length in range(10, len(FILE), 20):
        (folder / "thinkgate.yaml").write_text(FILE[:length])
        assert not source.has_changed()


def test_the_same_content_written_again_is_no_change(folder: Path) -> None:
    source = Source(folder / "thinkgate.yaml")
    source.load()
    for change in (rename, swap, rewrite):
        change(folder / "thinkgate.yaml", FILE)
        assert [source.has_changed() for _ in range(2)] == [False, False]


def test_a_bad_one_is_read_once_and_a_secret_it_missed_is_waited_for(folder: Path) -> None:
    (folder / "key").unlink()
    source = Source(folder / "thinkgate.yaml")
    with pytest.raises(ConfigError, match="no such file"):
        source.load()
    assert [source.has_changed() for _ in range(3)] == [False, False, False]
    (folder / "key").write_text("secret\n")
    assert [source.has_changed() for _ in range(2)] == [False, True]
    assert source.load().pools["one"].api_key is not None


def test_the_command_line_holds_and_is_checked(folder: Path) -> None:
    source = Source(folder / "thinkgate.yaml", {"server": {"port": 0}, "logs": {"format": "json"}})
    config = source.load()
    assert (config.server.port, config.logs.format, config.server.host) == (0, "json", "127.0.0.1")
    with pytest.raises(ConfigError, match=r"1 problem\n  refusing to listen on 0\.0\.0\.0 without keys"):
        Source(folder / "thinkgate.yaml", {"server": {"host": "0.0.0.0"}}).load()
    assert Source(None, {"server": {"port": 1}}).load().server.port == 1


def test_what_is_no_file_is_no_trap(tmp_path: Path) -> None:
    source = Source(tmp_path)
    with pytest.raises(ConfigError):
        source.load()
    assert not source.has_changed()
