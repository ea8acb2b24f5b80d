"""YAML text → plain values that know their lines.

Strict where YAML is a trap: no tags beyond the plain ones, no duplicate keys, no aliases that unfold without end. Here
are YAML's rules only; what a key means, and where `${VAR}` comes from, is for `configfile`. A message from here never
quotes the text: the word that YAML stumbles over may be a secret (`api_key: *s3cret` is an alias to YAML).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from gateway.configerrors import Problem, path_of, shown
from gateway.configschema import Place, Value

MAX_TEXT = 256 * 1024
MAX_DEPTH = 32
MAX_VALUES = 20_000

_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = {_TAG + "str", _TAG + "timestamp", _TAG + "value", "!"}  # no key of ours is a date
_KEY_KINDS = {"bool": "true/false", "int": "a number", "float": "a number", "null": "nothing"}
_LONGEST_NUMBER = 64  # `1:1:1:…` is one number in base 60, and a long one takes minutes
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_HINTS = (
    ("undefined alias", "a value that begins with `*` needs quotes"),
    ("anchor", "a value that begins with `&` or `*` needs quotes"),
    ("tag", "a value that begins with `!` needs quotes"),
    ("'\\t'", "indent with spaces, not tabs"),
    ("mapping values", "a value that contains `: ` needs quotes"),
    ("'%'", "a value that begins with `%` needs quotes"),
    ("'@'", "a value that begins with `@` needs quotes"),
    ("'`'", "a value that begins with a backquote needs quotes"),
)


@dataclass(frozen=True, slots=True)
class Expanded:
    """`retype`: the text stands for a whole unquoted value and has the type that YAML gives it."""

    text: str
    retype: bool


class UnusableError(Exception):
    """Raised by an `Expand` for text that cannot be used; the message holds nothing secret."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


Expand: TypeAlias = Callable[[Place, str, bool], Expanded]
"""(place, text, is it unquoted?) → the text with everything from outside filled in."""


@dataclass(frozen=True, slots=True)
class Document:
    """`value` is None when the text is so broken that nothing more can be said about it."""

    value: dict[str, Value] | None
    lines: dict[Place, int] = field(default_factory=dict[Place, int])
    problems: list[Problem] = field(default_factory=list[Problem])
    spoiled: set[Place] = field(default_factory=set[Place])  # places whose value is a stand-in after a problem


def read(text: str, expand: Expand) -> Document:
    if len(text) > MAX_TEXT:
        return Document(None, problems=[Problem("", None, f"the file is larger than {MAX_TEXT // 1024} KiB", None)])
    try:
        root = _compose(text)
    except _SyntaxError as error:
        return Document(None, problems=[error.problem])
    builder = _Builder(expand)
    try:
        value = {} if root is None else builder.build(root, ())
    except _BombError:
        message = f"more than {MAX_VALUES} values, with the aliases unfolded"
        return Document(None, problems=[Problem("", None, message, None)])
    if not isinstance(value, dict):
        if not builder.problems:
            builder.report((), "the file must be a mapping, with keys such as `pools:`")
        value = None
    return Document(value, builder.lines, builder.problems, builder.spoiled)


class _SyntaxError(Exception):
    def __init__(self, line: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.problem = Problem("", line, message, hint)


class _BombError(Exception):
    pass


class _Loader(yaml.SafeLoader):
    """Composes nodes; the depth is counted because composing recurses."""

    depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _SyntaxError(self.line + 1, f"nested deeper than {MAX_DEPTH} levels")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _compose(text: str) -> Node | None:
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _SyntaxError(line, "a character that YAML does not allow", "look for control characters") from None
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        said = ": ".join(part for part in (error.context, error.problem) if part)
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else loader.line + 1
        hint = next((hint for needle, hint in _HINTS if needle in said), None)
        if "flow" in said and any("${" in row for row in text.splitlines()[line - 1 : line]):
            hint = "inside [ ] and { }, `${VAR}` needs quotes"
        raise _SyntaxError(line, "not YAML: " + _QUOTED.sub(_unquote, said), hint) from None
    except (ValueError, OverflowError):
        # PyYAML lets these out for escapes such as "\UFFFFFFFF" and for absurd %YAML versions.
        raise _SyntaxError(loader.line + 1, "not YAML: an escape or a number that does not exist") from None
    finally:
        loader.dispose()


def _unquote(match: re.Match[str]) -> str:
    """Keeps the single characters and <tokens> that YAML complains about, not words, which are the file's."""
    word: str = match[1] or match[2] or ""
    return match[0] if len(word) <= 2 or word.startswith("<") else "(not shown)"


class _Builder:
    """Turns nodes into values and collects what is wrong on the way; a wrong value becomes None and is `spoiled`."""

    def __init__(self, expand: Expand) -> None:
        self.lines: dict[Place, int] = {}
        self.problems: list[Problem] = []
        self.spoiled: set[Place] = set()
        self._expand = expand
        self._values_left = MAX_VALUES
        self._open: set[int] = set()
        self._checked: set[int] = set()

    def report(self, place: Place, message: str, hint: str | None = None, line: int | None = None) -> None:
        self.spoiled.add(place)
        self.problems.append(Problem(path_of(place), line or self.lines.get(place), message, hint))

    def build(self, node: Node, place: Place) -> Value:
        self._spend()
        self.lines.setdefault(place, _line(node))
        if isinstance(node, ScalarNode):
            return self._scalar(node, place)
        if id(node) in self._open:
            return self.report(place, "an alias that contains itself")
        self._open.add(id(node))
        try:
            if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
                return [self.build(child, (*place, index)) for index, child in enumerate(node.value)]
            if isinstance(node, MappingNode) and node.tag == _TAG + "map":
                entries = self._entries(node, place, local=True)
                return {key: self.build(child, (*place, key)) for key, child in entries.items()}
        finally:
            self._open.discard(id(node))
        return self._refuse_tag(place)

    def _refuse_tag(self, place: Place) -> None:
        self.report(place, "tags (`!…`) are not used here", "a value that begins with `!` needs quotes")

    def _spend(self) -> None:
        self._values_left -= 1
        if self._values_left < 0:
            raise _BombError

    def _entries(self, node: MappingNode, place: Place, *, local: bool) -> dict[str, Node]:
        """The mapping's own keys, then what `<<` adds to them. Not `local`: a mapping that `<<` names."""
        first_check = id(node) not in self._checked
        self._checked.add(id(node))
        own: dict[str, Node] = {}
        own_lines: dict[str, int] = {}
        sources: list[Node] = []
        for key_node, child in node.value:
            self._spend()
            key = self._key(key_node, place)
            if key is None:
                continue
            if key in own_lines:
                if first_check:
                    message = f"the key `{shown(key)}` stands twice, on lines {own_lines[key]} and {_line(key_node)}"
                    self.report((*place, key), message, line=_line(key_node))
                continue
            own_lines[key] = _line(key_node)
            if key_node.tag == _TAG + "merge":
                sources += child.value if isinstance(child, SequenceNode) else [child]
            else:
                own[key] = child
                if local:
                    self.lines.setdefault((*place, key), _line(key_node))
        for source in sources:
            for key, child in self._merged(source, place).items():
                own.setdefault(key, child)
        return own

    def _merged(self, source: Node, place: Place) -> dict[str, Node]:
        if not (isinstance(source, MappingNode) and source.tag == _TAG + "map"):
            self.report(place, "`<<` takes an alias of a mapping, or a list of such aliases")
            return {}
        if id(source) in self._open:
            self.report(place, "an alias that contains itself")
            return {}
        self._open.add(id(source))
        try:
            return self._entries(source, place, local=False)
        finally:
            self._open.discard(id(source))

    def _key(self, node: Node, place: Place) -> str | None:
        if not isinstance(node, ScalarNode):
            return self.report(place, "a list or a mapping as a key", line=_line(node))
        if node.tag == _TAG + "merge" or (node.tag in _TEXT_TAGS and _is_unicode(node.value)):
            return node.value
        if node.tag in _TEXT_TAGS:
            return self.report(place, "a key that is not Unicode text", line=_line(node))
        kind = _KEY_KINDS.get(node.tag.removeprefix(_TAG))
        if kind is None:
            return self._refuse_tag(place)
        return self.report(place, f"a key that YAML reads as {kind}", "put the key in quotes", line=_line(node))

    def _scalar(self, node: ScalarNode, place: Place) -> Value:
        if node.tag not in _TEXT_TAGS:
            return self._typed(node, place)
        try:
            expanded = self._expand(place, node.value, node.style is None)
        except UnusableError as error:
            return self.report(place, error.message, error.hint)
        if not _is_unicode(expanded.text):
            return self.report(place, "text that is not Unicode")
        if expanded.retype:
            resolver: Any = Resolver()  # its stubs are blank
            tag: str = resolver.resolve(ScalarNode, expanded.text, (True, False))
            if tag not in _TEXT_TAGS:
                return self._typed(ScalarNode(tag, expanded.text), place)
        return expanded.text

    def _typed(self, node: ScalarNode, place: Place) -> Value:
        constructor = SafeConstructor()
        try:
            match node.tag.removeprefix(_TAG):
                case "null":
                    return None
                case "bool":
                    return constructor.bool_values[node.value.lower()]
                case "int" if len(node.value) <= _LONGEST_NUMBER:
                    return int(constructor.construct_yaml_int(node))
                case "float" if len(node.value) <= _LONGEST_NUMBER:
                    number = float(constructor.construct_yaml_float(node))
                    if math.isfinite(number):
                        return number
                case "int" | "float":
                    pass
                case "merge":
                    return node.value
                case _:
                    return self._refuse_tag(place)
        except (ValueError, KeyError, IndexError, OverflowError):
            pass  # an explicit !!int or !!bool before something else, or one of the odd forms such as 0b_
        return self.report(place, "not a number or a truth value that can be used here")


def _line(node: Node) -> int:
    return node.start_mark.line + 1


def _is_unicode(text: str) -> bool:
    """False for lone surrogates, from a "\\ud800" escape or from bytes in the environment that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
