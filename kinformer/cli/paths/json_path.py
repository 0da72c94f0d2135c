"""Paths into objects, in the syntax of kubectl and CRDs: `.status.conditions[?(@.type=="Ready")].status`.

It is kubectl's dialect (client-go, util/jsonpath), which no JSONPath library reads: names without quotes, relaxed
beginnings, comparisons without operators between them, and nothing for what is missing.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["STRING", "JSONPath", "PathParser", "Step", "split_outside_brackets", "unquoted", "walk"]

_FIELD = re.compile(r"(?:\\.|[^\s.,\[\]{}()=!<>'\"\\])+")
_WHOLE_NUMBER = re.compile(r"-?\d+")
_ITEM = re.compile(
    r"""\s*(?:(?P<index>-?\d+)(?!\s*[:\d])|(?P<first>-?\d*):(?P<last>-?\d*)(?::(?P<step>\d*))?|(?P<any>\*)"""
    r"""|'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<name>[A-Za-z_][\w\-/]*))\s*"""
)
_DOT = re.compile(r"(?<!\\)\.")
_SPACE = re.compile(r"\s*")
_SIGN = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
STRING = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")
_WORD = re.compile(r"[^\s)]+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Step: TypeAlias = Callable[[Sequence[Any]], list[Any]]
"""Takes values, and returns the values one step further."""


class JSONPath:
    """A path, with or without braces: names, `[0]`, `[-1:]`, `[*]`, `['a.b']`, `[0,2]`, `..` and filters.

    Args:
        text: The path.
        numbers: True reads `.0` as the key `0`, as a CRD may mean it. Otherwise it is an error, because it is mostly
            meant as `[0]`.

    Raises:
        ValueError: The path is invalid. The message names the position.
    """

    def __init__(self, text: str, *, numbers: bool = False) -> None:
        self.text = text
        self._steps = PathParser(_without_braces(text), numbers=numbers).whole()

    def values(self, document: Any) -> list[Any]:
        """Return all values at the path, in order."""
        return walk(document, self._steps)

    def first(self, document: Any) -> Any:
        """Return the first value at the path, or None if there is none."""
        return next(iter(self.values(document)), None)


def split_outside_brackets(text: str) -> list[str]:
    """Split at commas, but not at those of a union or a filter: `A:.a,B:.b['c','d']`."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def unquoted(text: str) -> str:
    r"""Return a string without its quotes, with `\n`, `\t` and escaped characters replaced."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _without_braces(text: str) -> str:
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$")
    if not text:
        raise ValueError("the path is empty")
    return text if text[0] in ".[" else f".{text}"  # kubectl accepts metadata.name too


def walk(value: Any, steps: Sequence[Step]) -> list[Any]:
    """Return the values at the end of some steps, in order."""
    found = [value]
    for step in steps:
        found = step(found)
    return found


class PathParser:
    """Parses paths within a text.

    Args:
        text: The text.
        position: Where the path begins.
        numbers: As for `JSONPath`.

    Attributes:
        position: The position after what was parsed.
    """

    def __init__(self, text: str, position: int = 0, *, numbers: bool = False) -> None:
        self.text = text
        self.position = position
        self._numbers = numbers

    def whole(self) -> list[Step]:
        """Return the steps of a path that is the whole text."""
        steps = self.steps()
        if self.position < len(self.text):
            raise self.unexpected("'.' or '['")
        return steps

    def steps(self) -> list[Step]:
        """Return the steps of the path at the position, up to the first character that cannot belong to it."""
        steps: list[Step] = []
        while self.position < len(self.text):
            if self.take(".."):
                steps.append(_descend)
                if not self._at("["):
                    steps.append(self._name())
            elif self.take("."):
                if not steps and (self.position == len(self.text) or self.text[self.position] in " })=!<>"):
                    return steps  # `{.}` is the object itself
                steps.append(self._name())
            elif self._at("[?("):
                steps.append(self._filter())
            elif self._at("["):
                steps.append(self._bracket())
            else:
                break
        return steps

    def take(self, word: str) -> bool:
        """Move behind a word, and return True if it is next."""
        if not self._at(word):
            return False
        self.position += len(word)
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Move behind a match, and return it if there is one at the position."""
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def unexpected(self, expected: str) -> ValueError:
        """Return the error for the character at the position."""
        what = repr(self.text[self.position : self.position + 8]) if self.position < len(self.text) else "the end"
        return ValueError(f"the path {self.text!r} has {what} at position {self.position}, expected {expected}")

    def _at(self, word: str) -> bool:
        return self.text.startswith(word, self.position)

    def _name(self) -> Step:
        start = self.position
        found = self.match(_FIELD)
        if found is None:
            raise ValueError(f"the path {self.text!r} has no name at position {start}")
        name = found.group()
        if not self._numbers and _WHOLE_NUMBER.fullmatch(name):
            raise ValueError(
                f"the path {self.text!r} has the number {name} at position {start}: "
                f"write [{name}] for an item of a list, or ['{name}'] for a key"
            )
        return _each if name == "*" else _key(_ESCAPE.sub(r"\1", name))

    def _bracket(self) -> Step:
        self.position += 1
        parts = [self._item()]
        while self.take(","):
            parts.append(self._item())
        if not self.take("]"):
            raise self.unexpected("']'")
        return parts[0] if len(parts) == 1 else _union(parts)

    def _item(self) -> Step:
        found = self.match(_ITEM)
        if found is None:
            raise self.unexpected("[0], [*], [1:3] or ['key']")
        if found["any"]:
            return _each
        for quoted in ("single", "double", "name"):
            if found[quoted] is not None:
                return _quoted_key(found[quoted])
        if found["index"] is not None:
            index = int(found["index"])
            return _part(slice(index, index + 1 or None))
        first, last, step = (int(found[name]) if found[name] else None for name in ("first", "last", "step"))
        if step == 0:
            raise ValueError(f"the path {self.text!r} has the step 0 before position {self.position}")
        return _part(slice(first, last, step))

    def _filter(self) -> Step:
        self.position += len("[?(")
        left = self._operand()
        sign = self.match(_SIGN)
        right = self._operand() if sign is not None else None
        if not self.take(")]"):
            raise self.unexpected("')]'" if sign is not None else "a comparison or ')]'")
        return _where(left, None if sign is None else sign[1], right)

    def _operand(self) -> Callable[[Any], list[Any]]:
        self.match(_SPACE)
        if self.take("@") or self._at("."):
            steps = self.steps()
            self.match(_SPACE)
            return lambda item: walk(item, steps)
        if self._at('"') or self._at("'"):
            quoted = self.match(STRING)
            if quoted is None:
                raise self.unexpected("a closing quote")
            literal: Any = unquoted(quoted.group())
        elif word := self.match(_WORD):
            try:
                literal = json.loads(word.group())
            except ValueError:
                literal = word.group()
        else:
            raise self.unexpected("@.name, a string or a number")
        self.match(_SPACE)
        return lambda _: [literal]


def _from_each(onward: Callable[[Any], Iterable[Any]]) -> Step:
    return lambda values: [further for value in values for further in onward(value)]


def _key(name: str) -> Step:
    return _from_each(lambda value: [value[name]] if isinstance(value, Mapping) and name in value else ())


def _quoted_key(text: str) -> Step:
    """Read the key `a.b`, or else, as kubectl does, the path `.a.b`. A backslash before a dot allows only the key."""
    whole = _ESCAPE.sub(r"\1", text)
    names = [_ESCAPE.sub(r"\1", name) for name in _DOT.split(text)]
    path = [_key(name) for name in names]
    return _from_each(lambda value: _key(whole)([value]) or (walk(value, path) if len(path) > 1 else ()))


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _descendants(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:  # without recursion, as an object of the cluster may be nested deeply
        one = waiting.pop()
        if isinstance(one, Mapping | list) and one:
            yield one
            waiting += reversed(list(_items(one)))


_each = _from_each(_items)
_descend = _from_each(_descendants)


def _part(part: slice) -> Step:
    return _from_each(lambda value: value[part] if isinstance(value, list) else ())


def _union(parts: Sequence[Step]) -> Step:
    return lambda values: [value for part in parts for value in part(values)]


def _where(left: Callable[[Any], list[Any]], sign: str | None, right: Callable[[Any], list[Any]] | None) -> Step:
    def holds(item: Any) -> bool:
        found = left(item)
        if sign is None or right is None:
            return bool(found)
        wanted = right(item)
        try:
            return bool(found) and bool(wanted) and bool(_SIGNS[sign](found[0], wanted[0]))
        except TypeError:  # strings and numbers cannot be compared
            return False

    return _from_each(lambda value: filter(holds, value) if isinstance(value, list) else ())
