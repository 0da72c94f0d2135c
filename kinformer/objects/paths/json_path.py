"""JSON paths such as `spec.containers[*].image`: reads their values, from bytes or from decoded documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from kinformer.exceptions import MALFORMED, ConfigError, DecodeError
from kinformer.objects.excerpts import excerpt_of
from kinformer.objects.paths.syntax import PathParser, Segments, walk
from kinformer.objects.types import JSON, KeyedValue

__all__ = ["JSONPath", "PathIndex", "PathValues", "parse_braced", "parse_path", "path_value", "text_of"]

PathValues: TypeAlias = dict[Segments, str | None]
"""The values at some paths as strings, with None for missing or null values. Arrays and objects are left out."""

_encode = msgspec.json.Encoder().encode
_NO_FIELD = re.compile(r'["\\\x00-\x1f]')  # JSON escapes these, and the field names of a decoder support no escapes


def _reader_of(keys: Sequence[str]) -> Callable[[bytes], JSON]:
    """Return a function that reads the value under nested keys and skips the rest (5 us for a Pod of 8 KB)."""
    kind: object = Any
    for depth, key in enumerate(reversed(keys)):
        kind = msgspec.defstruct(f"_Path{depth}", [("value", kind, None)], rename={"value": key}) | None
    decode = msgspec.json.Decoder(kind).decode

    def read(raw: bytes) -> JSON:
        try:
            value: Any = decode(raw)
            for _ in keys:
                if value is None:
                    return None
                value = value.value
        except msgspec.ValidationError:
            return None  # a value along the path has no keys
        except MALFORMED as error:
            raise DecodeError(f"cannot read {'.'.join(keys) or 'the document'}: {error}: {excerpt_of(raw)}") from error
        result: JSON = value
        return result

    return read


class JSONPath:
    """A parsed path. Created by `parse_path` or `parse_braced`.

    Args:
        text: The path.
        lenient: As for `PathParser`.

    Attributes:
        text: The parsed string.
        is_multiple: True if it has a wildcard, filter, slice, union or `..`, so that its value is a list.
    """

    __slots__ = ("_path", "_read_head", "_rest", "is_multiple", "text")

    def __init__(self, text: str, *, lenient: bool = False) -> None:
        self.text = text
        self._path = path = PathParser(text, lenient=lenient).whole()
        self.is_multiple = not path.is_plain or None in path.segments
        keys: list[str] = []
        for segment in path.segments:
            if not isinstance(segment, str) or "." in segment or _NO_FIELD.search(segment):
                break
            keys.append(segment)
        self._read_head = _reader_of(keys)
        self._rest = path.steps[len(keys) :]

    @property
    def segments(self) -> Segments:
        """Keys (`str`), indexes (`int`) and None for each `[*]`.

        Raises:
            ConfigError: It has other parts, or a key that JSON writes with an escape.
        """
        if not self._path.is_plain:
            raise ConfigError(
                f"the path {self.text!r} has a filter, a slice, several keys or '..': here only keys, [0] and [*] are "
                "possible"
            )
        for segment in self._path.segments:
            if isinstance(segment, str) and _NO_FIELD.search(segment):
                raise ConfigError(
                    f"the path {self.text!r} has the key {segment!r}: quotes, backslashes and control characters are "
                    "not allowed"
                )
        return self._path.segments

    def find(self, document: object) -> list[Any]:
        """Return all values at the path in a decoded document, in order. They may be null."""
        return walk(document, self._path.steps)

    def first(self, document: object) -> Any:
        """Return the first value at the path, or None if there is none."""
        return next(iter(self.find(document)), None)

    def values(self, document: object) -> list[object]:
        """Return all values at the path in a decoded document (a mapping or a list), except nulls."""
        return [value for value in self.find(document) if value is not None]

    def read(self, raw: bytes) -> list[object]:
        """Return all values at the path in JSON, except nulls, without decoding the rest.

        Raises:
            DecodeError: The bytes are not JSON.
        """
        return [value for value in walk(self._read_head(raw), self._rest) if value is not None]

    def value(self, source: bytes | Mapping[str, object], default: object = None) -> Any:
        """Return the value at the path, or else `default`. A path with several values returns the list of them."""
        values = self.read(source) if isinstance(source, bytes) else self.values(source)
        if self.is_multiple:
            return values
        return values[0] if values else default

    def __repr__(self) -> str:
        return f"JSONPath({self.text!r})"


@lru_cache(maxsize=1024)
def parse_path(text: str) -> JSONPath:
    r"""Parse `spec.nodeName`, `metadata.labels['a.b/c']`, `spec.containers[*].image` or `status.conditions[0].type`.

    A key with a dot is written in brackets, or with a backslash as kubectl does: `metadata.labels.a\.b/c`. So is a key
    that is a number, `data['0']`, because `.0` is mostly meant as `[0]`. `.*` is the same as `[*]`. Filters, slices,
    unions and `..` are kubectl's: `status.conditions[?(@.type=="Ready")].status`.

    Raises:
        ConfigError: The path is invalid. The message names the position.
    """
    if not isinstance(text, str):
        raise ConfigError(f"a path must be a string such as 'spec.nodeName', got {text!r}")
    if text.startswith("{"):
        raise ConfigError(f"the path {text!r} has '{{' at position 0: write it without braces, as in .spec.nodeName")
    return JSONPath(text)


def parse_braced(text: str, *, lenient: bool = False) -> JSONPath:
    """Parse a path as kubectl's options and CRDs have it: with or without braces around it.

    Args:
        text: The path.
        lenient: As for `PathParser`.

    Raises:
        ConfigError: The path is invalid.
    """
    text = text.strip()
    return JSONPath(text[1:-1].strip() if text.startswith("{") and text.endswith("}") else text, lenient=lenient)


def path_value(raw: bytes, path: str, default: object = None) -> Any:
    """Return the value at `path` in JSON, or else `default`. A path with several values returns the list of them.

    Raises:
        ConfigError: The path is invalid.
        DecodeError: The bytes are not JSON.
    """
    return parse_path(path).value(raw, default)


def text_of(value: str | float) -> str:
    """Return a string unchanged, or a number or boolean as written in JSON."""
    return value if isinstance(value, str) else _encode(value).decode()


class PathIndex:
    """An index function that returns the values of a path as strings. Functions of equal paths are equal.

    Numbers and booleans are written as in JSON. An object or array at the end of the path raises TypeError.
    """

    __slots__ = ("path", "segments")

    def __init__(self, path: str) -> None:
        self.path = parse_path(path)
        self.segments = self.path.segments

    def __call__(self, obj: object) -> list[str]:
        if isinstance(obj, KeyedValue):
            obj = obj.value
        raw = getattr(obj, "raw", None)
        values = self.path.read(raw) if isinstance(raw, bytes) else self.path.values(obj)
        return [value if isinstance(value, str) else self._text(value) for value in values]

    def _text(self, value: object) -> str:
        if isinstance(value, (bool, int, float)):
            return text_of(value)
        raise TypeError(
            f"the index path {self.path.text!r} ends at a {type(value).__name__}, expected a string, number or boolean"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathIndex) and self.segments == other.segments

    def __hash__(self) -> int:
        return hash(self.segments)

    def __repr__(self) -> str:
        return f"PathIndex({self.path.text!r})"
