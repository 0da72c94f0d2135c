"""Paths into objects, in the syntax of kubectl and CRDs: `.status.conditions[?(@.type=="Ready")].status`."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["JSONPath"]

_FIELD = re.compile(r"(?:\\.|[^\s.\[\]'\"\\])+")
_BRACKET = re.compile(
    r"""\[\s*(?:(?P<index>-?\d+)|(?P<first>-?\d*):(?P<last>-?\d*)|(?P<any>\*)|'(?P<single>[^']*)'|"(?P<double>[^"]*)")\s*\]"""
)
_FILTER = re.compile(
    r"""\[\?\(\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<sign>==|!=|<=|>=|<|>)\s*(?P<value>"[^"]*"|'[^']*'|[^\s)]+)\s*)?\)\]"""
)
_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_Step = Callable[[Any], Iterator[Any]]


class JSONPath:
    """A path, with or without braces: names, `[0]`, `[-1:]`, `[*]`, `['a.b']` and filters.

    Args:
        text: The path.

    Raises:
        ValueError: The path is invalid.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = list(_steps(_without_braces(text)))

    def values(self, document: Any) -> list[Any]:
        """Return all values at the path, in order."""
        found = [document]
        for step in self._steps:
            found = [value for one in found for value in step(one)]
        return found

    def first(self, document: Any) -> Any:
        """Return the first value at the path, or None if there is none."""
        return next(iter(self.values(document)), None)


def _without_braces(text: str) -> str:
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    return text.removeprefix("$")


def _steps(text: str) -> Iterator[_Step]:
    position = 0
    if text and text[0] not in ".[":
        text = f".{text}"  # kubectl accepts metadata.name too
    if not text:
        raise ValueError("the path is empty")
    while position < len(text):
        if text[position] == ".":
            found = _FIELD.match(text, position + 1)
            if found is None:
                raise ValueError(f"the path {text!r} has no name at position {position + 1}")
            yield _field(re.sub(r"\\(.)", r"\1", found.group()))
        elif found := _FILTER.match(text, position):
            yield _filter(found["path"], found["sign"], found["value"])
        elif found := _BRACKET.match(text, position):
            yield _bracket(found)
        else:
            raise ValueError(f"the path {text!r} has {text[position : position + 8]!r} at position {position}")
        position = found.end()


def _field(name: str) -> _Step:
    if name == "*":
        return _all

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, Mapping) and name in value:
            yield value[name]

    return step


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _bracket(found: re.Match[str]) -> _Step:
    if found["any"]:
        return _all
    name = found["single"] if found["single"] is not None else found["double"]
    if name is not None:
        return _field(name)
    if found["index"] is not None:
        index = int(found["index"])
        part = slice(index, index + 1 or None)
    else:
        part = slice(int(found["first"] or 0), int(found["last"]) if found["last"] else None)

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _filter(path: str, sign: str | None, literal: str | None) -> _Step:
    left = list(_steps(path)) if path else []
    wanted = _literal(literal) if literal is not None else None

    def holds(item: Any) -> bool:
        found: Sequence[Any] = [item]
        for one in left:
            found = [value for each in found for value in one(each)]
        if sign is None:
            return bool(found)
        try:
            return bool(found) and bool(_SIGNS[sign](found[0], wanted))
        except TypeError:  # strings and numbers cannot be compared
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if holds(item))

    return step


def _literal(text: str) -> Any:
    if text[:1] in "'\"":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text
