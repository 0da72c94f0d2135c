"""Projection of objects: reduces their JSON to the parts at some paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import GenericAlias, UnionType
from typing import TypeAlias

import msgspec

from kinformer.exceptions import DecodeError
from kinformer.objects.excerpts import excerpt_of
from kinformer.objects.paths.json_path import parse_path
from kinformer.objects.paths.syntax import Segment
from kinformer.objects.types import JSON

__all__ = ["ALWAYS_KEPT", "PathTree", "Projection", "covers", "struct_of", "tree_of"]

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
