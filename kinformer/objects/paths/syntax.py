"""Parser of JSON paths in the syntax of kubectl and CRDs: `.status.conditions[?(@.type=="Ready")].status`.

It is kubectl's dialect (client-go, util/jsonpath), which no JSONPath library reads: names without quotes, relaxed
beginnings, comparisons without operators between them, and nothing for what is missing.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kinformer.exceptions import ConfigError

__all__ = ["STRING", "Path", "PathParser", "Segment", "Segments", "Step", "unquoted", "walk"]

_FIELD = re.compile(r"(?:\\.|[^\s.,\[\]{}()=!<>'\"\\])+")
_WHOLE_NUMBER = re.compile(r"-?\d+")
_ITEM = re.compile(
    r"""\s*(?:(?P<index>-?\d{1,9})(?!\s*[:\d])|(?P<first>-?\d{0,9}):(?P<last>-?\d{0,9})(?::(?P<step>\d{0,9}))?"""
    r"""|(?P<any>\*)|'(?P<single>[^']*)'|"(?P<double>[^"]*)")\s*"""
)
_DOT = re.compile(r"(?<!\\)\.")
_SPACE = re.compile(r"\s*")
_SIGN = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
STRING = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_LITERAL = re.compile(r"(?:\+?0*(?=\d))?(?P<plain>-?\d+(?:\.\d+)?|true|false)(?![\w.])")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CHARACTER = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}
_get, _values, _each_item = dict.get, dict.values, list.__iter__

_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MOST_STEPS = 64  # deeper than any schema of an API server
_DEEPEST = 8  # filters within filters

Step: TypeAlias = Callable[[Sequence[object]], list[object]]
"""Takes values, and returns the values one step further."""

Segment: TypeAlias = str | int | None
"""A key, an index, or None for the wildcard `[*]`."""

Segments: TypeAlias = tuple[Segment, ...]


class Path(NamedTuple):
    """A parsed path.

    Attributes:
        steps: The functions that lead from a document to the values.
        segments: The same as data, up to the first filter, slice, union or descent.
    """

    steps: tuple[Step, ...]
    segments: Segments

    @property
    def is_plain(self) -> bool:
        """True if it has only keys, indexes and wildcards."""
        return len(self.segments) == len(self.steps)


class PathParser:
    """Parses paths within a text.

    Args:
        text: The text.
        position: The position at which the path begins.
        lenient: True reads what a definition may have: `.0` is the key `0`, a dot at the end finds nothing, and
                `[]` is `[*]`.
            Otherwise these are errors, because `.0` is mostly meant as `[0]`.

    Attributes:
        position: The position after the part that was parsed.
    """

    def __init__(self, text: str, position: int = 0, *, lenient: bool = False) -> None:
        self.text = text
        self.position = position
        self._lenient = lenient
        self._depth = 0

    def whole(self) -> Path:
        """Return the path that the rest of the text is. It may begin with `$`, and its first dot may be missing."""
        self.take("$")
        first: list[tuple[Step, Segment | _Other]] = []
        if self.position == len(self.text) or self.text[self.position] not in ".[":
            first.append(self._name())
        path = self._path(first)
        if self.position < len(self.text) or not path.steps:
            raise self.unexpected("'.' or '['" if path.steps else "a name")
        return path

    def path(self) -> Path:
        """Return the path at the position, up to the first character that cannot belong to it."""
        return self._path([])

    def _path(self, parts: list[tuple[Step, Segment | _Other]]) -> Path:
        while self.position < len(self.text):
            if self.take(".."):
                parts.append((_descend, _OTHER))
                if not self._at("["):
                    parts.append(self._name())
            elif self.take("."):
                if not parts and not self._lenient and self._stands_alone():
                    break  # `{.}` is the object itself
                parts.append(self._name())
            elif self._at("[?("):
                parts.append((self._filter(), _OTHER))
            elif self._at("["):
                parts.append(self._bracket())
            else:
                break
            if len(parts) > _MOST_STEPS:
                raise ConfigError(f"the path {self.text[:40]!r}... has more than {_MOST_STEPS} levels")
        segments: list[Segment] = []
        for _, segment in parts:
            if isinstance(segment, _Other):
                break
            segments.append(segment)
        return Path(tuple(step for step, _ in parts), tuple(segments))

    def take(self, word: str) -> bool:
        """Move behind a word, and return True if it is next."""
        if not self._at(word):
            return False
        self.position += len(word)
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Move behind a match, and return it if there is one at the position."""
        match = pattern.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return match

    def unexpected(self, expected: str, what: str = "path") -> ConfigError:
        """Return the error for the character at the position."""
        here = repr(self.text[self.position : self.position + 8]) if self.position < len(self.text) else "the end"
        return ConfigError(f"the {what} {self.text!r} has {here} at position {self.position}, expected {expected}")

    def _stands_alone(self) -> bool:
        return self.position == len(self.text) or self.text[self.position] in " })=!<>"

    def _at(self, word: str) -> bool:
        return self.text.startswith(word, self.position)

    def _name(self) -> tuple[Step, Segment | _Other]:
        start = self.position
        match = self.match(_FIELD)
        if match is None:
            if self._lenient and self.position == len(self.text):
                return _key(""), _OTHER  # no object has this key
            raise self.unexpected("a name")
        name = match.group()
        if name == "*":
            return _each, None
        if not self._lenient and _WHOLE_NUMBER.fullmatch(name):
            # It would be read as a key, and so match no item of a list, without a hint.
            raise ConfigError(
                f"the path {self.text!r} has the number {name} at position {start}: "
                f"write [{name}] for an item of a list, or ['{name}'] for a key"
            )
        key = _ESCAPE.sub(r"\1", name)
        return _key(key), key

    def _bracket(self) -> tuple[Step, Segment | _Other]:
        start = self.position
        self.position += 1
        if self._lenient and self.take("]"):
            return _each, None
        parts = [self._item(start)]
        while self.take(","):
            parts.append(self._item(start))
        if not self.take("]"):
            raise self.unexpected("']'")
        return parts[0] if len(parts) == 1 else (_union([step for step, _ in parts]), _OTHER)

    def _item(self, start: int) -> tuple[Step, Segment | _Other]:
        match = self.match(_ITEM)
        if match is None:
            self.position = start
            raise self.unexpected("[0], [*], [1:3] or ['key']")
        if match["any"]:
            return _each, None
        for quoted in ("single", "double"):
            if match[quoted] is not None:
                return _quoted_key(match[quoted]), _ESCAPE.sub(r"\1", match[quoted])
        if match["index"] is not None:
            index = int(match["index"])
            return _part(slice(index, index + 1 or None)), index
        first, last, step = (int(match[name]) if match[name] else None for name in ("first", "last", "step"))
        if step == 0:
            raise ConfigError(f"the path {self.text!r} has the step 0 before position {self.position}")
        return _part(slice(first, last, step)), _OTHER

    def _filter(self) -> Step:
        self.position += len("[?(")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ConfigError(f"the path {self.text[:40]!r}... has filters nested deeper than {_DEEPEST} levels")
        left = self._operand()
        sign = self.match(_SIGN)
        right = self._operand() if sign is not None else None
        if not self.take(")]"):
            raise self.unexpected("')]'" if sign is not None else "a comparison or ')]'")
        self._depth -= 1
        return _where(left, None if sign is None else sign[1], right)

    def _operand(self) -> Callable[[object], list[object]]:
        self.match(_SPACE)
        if self.take("@") or self.take("$") or self._at("."):
            steps = self.path().steps
            self.match(_SPACE)
            return lambda item: walk(item, steps)
        if self._at('"') or self._at("'"):
            quoted = self.match(STRING)
            if quoted is None:
                raise self.unexpected("a closing quote")
            literal: object = unquoted(quoted.group())
        elif word := self.match(_LITERAL):
            literal = json.loads(word["plain"])
        else:
            raise self.unexpected("@.name, a string, a number, true or false")
        self.match(_SPACE)
        return lambda _: [literal]


def unquoted(text: str) -> str:
    r"""Return a string without its quotes, with `\n`, `\t`, `\u00e9` and escaped characters replaced."""
    return _CHARACTER.sub(_unescaped, text[1:-1])


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(escape[3], escape[3])


def walk(value: object, steps: Sequence[Step]) -> list[object]:
    """Return the values at the end of some steps, in order. They may be null."""
    values = [value]
    for step in steps:
        values = step(values)
    return values


class _Other:
    """The segment of a step that is neither a key, nor an index, nor the wildcard."""


_OTHER = _Other()


def _from_each(onward: Callable[[object], Iterable[object]]) -> Step:
    return lambda values: [further for value in values for further in onward(value)]


def _key(name: str) -> Step:
    def onward(value: object) -> Iterable[object]:
        if isinstance(value, dict):  # without the wrappers of what an object that was read refuses to be changed by
            return [_get(value, name)] if name in value else ()
        return [value[name]] if isinstance(value, Mapping) and name in value else ()

    return _from_each(onward)


def _quoted_key(text: str) -> Step:
    """Read the key `a.b`, or else, as kubectl does, the path `.a.b`. A backslash before a dot allows only the key."""
    whole = _key(_ESCAPE.sub(r"\1", text))
    path = [_key(_ESCAPE.sub(r"\1", name)) for name in _DOT.split(text)]
    return whole if len(path) == 1 else _from_each(lambda value: whole([value]) or walk(value, path))


def _items(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return _values(value)
    if isinstance(value, Mapping):
        return value.values()
    return _each_item(value) if isinstance(value, list) else ()


def _descendants(value: object) -> Iterator[object]:
    waiting = [value]
    while waiting:  # without recursion, as an object of the cluster may be nested deeply
        below = waiting.pop()
        if isinstance(below, Mapping | list) and below:
            yield below
            waiting += reversed(list(_items(below)))


_each = _from_each(_items)
_descend = _from_each(_descendants)


def _part(part: slice) -> Step:
    return _from_each(lambda value: value[part] if isinstance(value, list) else ())


def _union(parts: Sequence[Step]) -> Step:
    return lambda values: [value for part in parts for value in part(values)]


def _where(
    left: Callable[[object], list[object]], sign: str | None, right: Callable[[object], list[object]] | None
) -> Step:
    def holds(item: object) -> bool:
        values = left(item)
        if sign is None or right is None:
            return bool(values)
        expected = right(item)
        try:
            return bool(values) and bool(expected) and bool(_SIGNS[sign](values[0], expected[0]))
        except TypeError:  # strings and numbers cannot be compared
            return False

    return _from_each(lambda value: filter(holds, value) if isinstance(value, list) else ())
