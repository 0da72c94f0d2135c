"""JSON paths such as `spec.containers[*].image`: reads their values, and reduces objects to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import GenericAlias, UnionType
from typing import Any, TypeAlias

import msgspec

from kinformer.exceptions import MALFORMED, ConfigError, DecodeError
from kinformer.objects.excerpts import excerpt_of
from kinformer.objects.types import JSON, KeyedValue

__all__ = [
    "ALWAYS_KEPT",
    "JSONPath",
    "PathIndex",
    "PathTree",
    "PathValues",
    "Projection",
    "Segments",
    "covers",
    "parse_path",
    "path_value",
    "struct_of",
    "text_of",
    "tree_of",
]

Segment = str | int | None
"""A key, an index, or None for the wildcard `[*]`."""

Segments: TypeAlias = tuple[Segment, ...]
PathValues: TypeAlias = dict[Segments, str | None]
"""The values at some paths as strings, with None for missing or null values. Arrays and objects are left out."""

_NAME = re.compile(r"""(?:[^\s.\[\]'"\\]|\\.)+""")
_NUMBER = re.compile(r"-?\d+")
_BRACKET = re.compile(r"""\[\s*(?:(?P<index>-?\d{1,9})|(?P<any>\*)|'(?P<single>[^']*)'|"(?P<double>[^"]*)")\s*\]""")

# The identity and the sources of an object's attributes, which are always kept, regardless of `fields`.
ALWAYS_KEPT = (
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.labels",
    "metadata.ownerReferences",
)

_decode_any: Callable[[bytes], JSON] = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


_MOST_SEGMENTS = 64  # deeper than any schema of an API server
_NO_KEY = re.compile(r'["\\\x00-\x1f]')


def _named(text: str, name: str, position: int) -> Segment:
    """Return the segment for a name after a dot. `*` is the wildcard, as in kubectl."""
    if name == "*":
        return None
    if _NUMBER.fullmatch(name):
        # It would be read as a key, and so match no item of a list, without a hint.
        raise ConfigError(
            f"the path {text!r} has the number {name} at position {position}: "
            f"write [{name}] for an item of a list, or ['{name}'] for a key"
        )
    return re.sub(r"\\(.)", r"\1", name)


def _parse(text: str) -> tuple[Segment, ...]:
    if text.startswith("{"):
        raise ConfigError(f"the path {text!r} has '{{' at position 0: write it without braces, as in .spec.nodeName")
    segments: list[Segment] = []
    position = 1 if text.startswith("$") else 0
    # kubectl and CRDs write `.spec.nodeName` and `$.spec.nodeName`.
    wants_name = text[position : position + 1] != "["
    if text[position : position + 1] == ".":
        position += 1
    while position < len(text) or wants_name:
        if wants_name:
            name = _NAME.match(text, position)
            if name is None:
                char = repr(text[position]) if position < len(text) else "the end"
                raise ConfigError(f"the path {text!r} has {char} at position {position}, expected a name")
            segments.append(_named(text, name.group(), position))
            position = name.end()
            wants_name = False
        elif text[position] == ".":
            position += 1
            wants_name = True
        elif bracket := _BRACKET.match(text, position):
            if (index := bracket["index"]) is not None:
                segments.append(int(index))
            elif bracket["any"] is not None:
                segments.append(None)
            else:
                segments.append(bracket["single"] if bracket["single"] is not None else bracket["double"])
            position = bracket.end()
        elif text[position] == "[":
            raise ConfigError(f"the path {text!r} has a bracket at position {position}, expected [0], [*] or ['key']")
        else:
            raise ConfigError(f"the path {text!r} has {text[position]!r} at position {position}, expected '.' or '['")
    if len(segments) > _MOST_SEGMENTS:
        raise ConfigError(f"the path {text[:40]!r}... has {len(segments)} levels; at most {_MOST_SEGMENTS} are allowed")
    for segment in segments:
        # JSON would escape it, and a decoder's field names support no escapes.
        if isinstance(segment, str) and _NO_KEY.search(segment):
            raise ConfigError(
                f"the path {text!r} has the key {segment!r}: quotes, backslashes and control characters are not allowed"
            )
    return tuple(segments)


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
    """A parsed path. Created by `parse_path`.

    Attributes:
        text: The parsed string.
        segments: Keys (`str`), indexes (`int`) and None for each `[*]`.
        is_multiple: True if it has a wildcard, so that its value is a list.
    """

    __slots__ = ("_read_head", "_rest", "is_multiple", "segments", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.segments = _parse(text)
        self.is_multiple = None in self.segments
        keys: list[str] = []
        for segment in self.segments:
            if not isinstance(segment, str):
                break
            keys.append(segment)
        self._read_head = _reader_of(keys)
        self._rest = self.segments[len(keys) :]

    def values(self, document: object) -> list[object]:
        """Return all values at the path in a decoded document (a mapping or a list), except nulls."""
        return _walk([document], self.segments)

    def read(self, raw: bytes) -> list[object]:
        """Return all values at the path in JSON, without decoding the rest.

        Raises:
            DecodeError: The bytes are not JSON.
        """
        return _walk([self._read_head(raw)], self._rest)

    def value(self, source: bytes | Mapping[str, object], default: object = None) -> Any:
        """Return the value at the path, or else `default`. A path with a wildcard returns the list of all values."""
        found = self.read(source) if isinstance(source, bytes) else self.values(source)
        if self.is_multiple:
            return found
        return found[0] if found else default

    def __repr__(self) -> str:
        return f"JSONPath({self.text!r})"


def _walk(found: list[object], segments: Sequence[Segment]) -> list[object]:
    for segment in segments:
        onward: list[object] = []
        for value in found:
            if segment is None:
                if isinstance(value, list):
                    onward.extend(value)
                elif isinstance(value, Mapping):
                    onward.extend(value.values())
            elif isinstance(segment, int):
                if isinstance(value, list) and -len(value) <= segment < len(value):
                    onward.append(value[segment])
            elif isinstance(value, Mapping):
                onward.append(value.get(segment))
        found = onward
    return [value for value in found if value is not None]


@lru_cache(maxsize=1024)
def parse_path(text: str) -> JSONPath:
    r"""Parse `spec.nodeName`, `metadata.labels['a.b/c']`, `spec.containers[*].image` or `status.conditions[0].type`.

    A key with a dot is written in brackets, or with a backslash as kubectl does: `metadata.labels.a\.b/c`. So is a key
    that is a number, `data['0']`, because `.0` is mostly meant as `[0]`. `.*` is the same as `[*]`.

    Raises:
        ConfigError: The path is invalid. The message names the position.
    """
    if not isinstance(text, str):
        raise ConfigError(f"a path must be a string such as 'spec.nodeName', got {text!r}")
    return JSONPath(text)


def path_value(raw: bytes, path: str, default: object = None) -> Any:
    """Return the value at `path` in JSON, or else `default`. A path with a wildcard returns the list of all values.

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

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = parse_path(path)

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
        return isinstance(other, PathIndex) and self.path.segments == other.path.segments

    def __hash__(self) -> int:
        return hash(self.path.segments)

    def __repr__(self) -> str:
        return f"PathIndex({self.path.text!r})"


class PathTree:
    """The part of a value that some paths keep: all of it, some keys, or a part of each element."""

    __slots__ = ("elements", "keys", "whole")

    def __init__(self) -> None:
        self.whole = False
        self.keys: dict[str, PathTree] = {}
        self.elements: PathTree | None = None

    def child(self, segment: Segment) -> PathTree:
        if isinstance(segment, str):
            return self.keys.setdefault(segment, PathTree())
        # An index keeps its path in all elements, because keeping only one would change its index.
        if self.elements is None:
            self.elements = PathTree()
        return self.elements

    def find(self, segment: Segment) -> PathTree | None:
        return self.keys.get(segment) if isinstance(segment, str) else self.elements

    @property
    def is_kept_whole(self) -> bool:
        # A value is either an object or an array, so with both keys and elements, keep all of it.
        return self.whole or bool(self.keys and self.elements)


def tree_of(paths: Iterable[str]) -> PathTree:
    """Return the tree of the parts of an object that these paths keep."""
    root = PathTree()
    for path in paths:
        node = root
        for segment in parse_path(path).segments:
            node = node.child(segment)
        node.whole = True
    return root


_ABSENT = msgspec.Raw()

_Kind: TypeAlias = type | UnionType | GenericAlias


def struct_of(node: PathTree, name: str) -> _Kind:
    """Create a type that decodes only the kept parts, from structs with fields f0, f1, ... and raw JSON."""
    if node.is_kept_whole:
        return msgspec.Raw
    if node.elements is not None:
        element = struct_of(node.elements, f"{name}_")
        return GenericAlias(list, (element,)) | GenericAlias(dict, (str, element)) | None
    fields: list[tuple[str, _Kind, object]] = []
    names: dict[str, str] = {}
    for number, (key, child) in enumerate(node.keys.items()):
        field = f"f{number}"
        names[field] = key
        kind = struct_of(child, f"{name}{number}_")
        fields.append(
            (field, kind, _ABSENT) if kind is msgspec.Raw else (field, kind | msgspec.UnsetType, msgspec.UNSET)
        )
    struct = msgspec.defstruct(name, fields, rename=names, omit_defaults=True)
    return struct | None


def _prune(value: JSON, node: PathTree) -> JSON:
    if node.is_kept_whole:
        return value
    if isinstance(value, dict):
        if node.elements is not None:
            return {key: _prune(child, node.elements) for key, child in value.items()}
        return {key: _prune(value[key], child) for key, child in node.keys.items() if key in value}
    if isinstance(value, list) and node.elements is not None:
        return [_prune(child, node.elements) for child in value]
    # The path expects another kind of value, so it matches nothing here.
    return None


class Projection:
    """Reduces an object's JSON to the declared paths and its identity.

    apiVersion and kind are always kept, and in the metadata name, namespace, uid, resourceVersion, generation, labels,
    ownerReferences and the two timestamps. Annotations are only kept if declared.

    Raises:
        ConfigError: A path is invalid.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = tuple(fields)
        self._root = tree_of((*ALWAYS_KEPT, *fields))
        self._decode = msgspec.json.Decoder(struct_of(self._root, "_Kept")).decode

    def __call__(self, raw: bytes) -> bytes:
        """Return the JSON of the kept parts.

        Raises:
            DecodeError: The bytes are not JSON.
        """
        try:
            try:
                return _encode(self._decode(raw))
            except msgspec.ValidationError:
                return _encode(_prune(_decode_any(raw), self._root))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DecodeError(f"cannot keep fields of an object: {error}: {excerpt_of(raw)}") from error


def covers(fields: Sequence[str] | None, path: str, *, metadata_only: bool = False) -> bool:
    """Return True if an informer with these `fields` or with `metadata_only` keeps everything that `path` may match.

    Raises:
        ConfigError: A path is invalid.
    """
    segments = parse_path(path).segments
    if metadata_only and segments[0] not in ("apiVersion", "kind", "metadata"):
        return False
    if fields is None:
        return True
    node: PathTree | None = tree_of((*ALWAYS_KEPT, *fields))
    for segment in segments:
        if node is None or node.is_kept_whole:
            break
        node = node.find(segment)
    return node is not None and node.is_kept_whole
