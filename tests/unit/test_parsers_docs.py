"""The page about formats against the records, its examples against the code."""

import re
from dataclasses import fields
from pathlib import Path

import yaml

from parsers import Format, format_from_mapping, lookup
from parsers.cases import read_cases
from parsers.formatdocs import written_anew

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_records() -> None:
    assert written_anew(PAGE) == PAGE, "write it anew: python -m parsers.formatdocs docs/formats.md"


def test_every_option_is_explained_with_its_default() -> None:
    options = PAGE.partition("## The options")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in options.splitlines() if line.startswith("| `")]
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(explained) == len(set(explained))
    assert set(explained) == {field.name for field in fields(Format)}


def test_the_yaml_examples_are_formats() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    records = [format_from_mapping(data) for block in blocks for data in yaml.safe_load(block)]
    assert [record.id for record in records] == ["hy3_new_suffix", "house", "kolibri"]
    assert records[0].switch == lookup("hy_v3").switch


def test_the_count_of_the_example_is_right() -> None:
    count = re.search(r"qwen3\.jsonl\n(\d+) passed", PAGE)
    assert count is not None
    file = ROOT / "tests" / "parsers" / "cases" / "qwen3.jsonl"
    cases = read_cases(file.read_text(encoding="utf-8").splitlines())
    assert int(count.group(1)) == len(cases)
