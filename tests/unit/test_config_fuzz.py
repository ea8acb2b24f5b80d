"""Whatever the text: a configuration or a `ConfigError`, soon."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.configfile import ConfigError, parse, redacted

EXAMPLES = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[2] / "deploy" / "examples").glob("*.yaml"))
]
SNIPPETS = st.one_of(
    st.text(alphabet="!&*#:-?[]{},|>'\"%@`$<=~ \t\n\\0a1.", max_size=8),
    st.sampled_from(
        ["<<: ", "*a", "&a ", "${A}", "${A:-", "$$", "file:", "!!int ", "!!float ", "!!bool ", "!!map ", "!!binary ",
         "---\n", "...\n", "\ufeff", "\ud800", "\x00", "\x85", "\u2028", ".nan", "-.inf", "0b_", "0x_", "1:1", "1e999",
         "on", "~", "? ", "%YAML 9.9\n", "%TAG ! x\n", '"\\UFFFFFFFF"', "9" * 100, "2001-99-99", "=", "null"]
    ),
    st.text(max_size=5),
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(EXAMPLES))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(SNIPPETS) + text[end:]
    return text


def loads_or_says_why(text: str) -> None:
    env = {"A": "1", "TEAM_KEY_HASH": "sha256:" + "0" * 64, "PORT": "\udcff"}
    try:
        redacted(parse(text, name="thinkgate.yaml", base=Path("/nowhere"), env=env))
    except ConfigError as error:
        message = str(error).splitlines()
        problems = error.problems
    else:
        return
    assert problems
    assert len(message) == 1 + len(problems)


@settings(max_examples=250, deadline=5000)
@given(mutated())
def test_a_mutated_file_loads_or_is_refused(text: str) -> None:
    loads_or_says_why(text)


@settings(max_examples=250, deadline=5000)
@given(st.one_of(st.text(max_size=200), st.lists(SNIPPETS, max_size=20).map("".join)))
@example("a: &a\n  ? *a\n  : *a")
@example("<<: *x")
@example("? ? ? ?")
@example("%YAML " + "9" * 5000 + ".1\n---\na")
@example("a: " + "9" * 5000)
@example("a: !!int ''")
@example("a: !<%FF> x")
@example('"\u2028": {"\u2028": 1}')
def test_any_text_loads_or_is_refused(text: str) -> None:
    loads_or_says_why(text)
