"""Sets of fields: the ownable paths of a document, and their encoding as FieldsV1.

A path is a tuple of FieldsV1 elements: `f:name` for a field, `k:{"name":"c"}` for an item of a keyed list, and `v:"x"`
for a member of a set (structured-merge-diff, fieldpath).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kinformer.testing.kinds.schema import ANY, SchemaNode

__all__ = [
    "UNOWNED_METADATA",
    "Path",
    "from_fields",
    "item_element",
    "member_element",
    "new_fields",
    "ownable_part",
    "owns",
    "to_fields",
]

Path = tuple[str, ...]
Object = dict[str, Any]

UNOWNED_METADATA = {
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "managedFields",
}
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_ZERO: tuple[Any, ...] = (None, {}, "", 0)  # Go's zero values, written for unset fields


def item_element(node: SchemaNode, item: Object) -> str:
    """Return the path element of an item of a keyed list."""
    # structured-merge-diff writes the keys of an item in alphabetical order
    pairs = sorted(zip(node.keys, node.key_of(item), strict=True))
    return "k:" + _compact(dict(pairs))


def member_element(value: Any) -> str:
    """Return the path element of a member of a set."""
    return "v:" + json.dumps(value, ensure_ascii=False)


def new_fields(node: SchemaNode, obj: Object) -> Object:
    """Return the FieldsV1 of a new object. Its creator owns all of it."""
    fields: Object = {}
    for name, value in obj.items():
        if name == "metadata":
            value = _owned_metadata(value)
            if value:
                fields["f:metadata"] = _new(node.child(name), value, fresh=False)
        elif name not in ("apiVersion", "kind"):
            child = node.child(name)
            if child.always and value in _ZERO:
                continue
            below = _new(child, value, fresh=not child.always)
            if below is not None:
                fields[f"f:{name}"] = below
    return dict(sorted(fields.items()))


def _new(node: SchemaNode, value: Any, *, fresh: bool) -> Object | None:
    """Return the fields of a new value, or None if there is nothing to own."""
    if isinstance(value, dict) and value and not node.atomic:
        if node.kind == "map" and node.item is not None and node.item.kind == "string":
            owned_keys: Object = {f"f:{name}": {} for name in sorted(value)}
            return {".": {}, **owned_keys} if fresh else owned_keys
        below: Object = {".": {}} if fresh else {}
        for name in sorted(value):
            inner, child = value[name], node.child(name)
            fresh_inner = fresh or not child.always
            if isinstance(inner, (dict, list)):
                owned = _new(child, inner, fresh=fresh_inner)
                if owned is not None:
                    below[f"f:{name}"] = owned
            elif fresh_inner or inner not in _ZERO:
                below[f"f:{name}"] = {}
        return below or None
    if isinstance(value, list) and value:
        return _new_list(node, value, fresh=fresh)
    return {} if fresh or value not in _ZERO else None


def _new_list(node: SchemaNode, value: list[Any], *, fresh: bool) -> Object:
    keys = node.keys_of(value)
    if keys:
        item_node = node.item or ANY
        below: Object = {".": {}} if fresh else {}
        items = {item_element(node, item): _new(item_node, item, fresh=True) for item in value}
        return {**below, **dict(sorted(items.items()))}
    if node.list_type == "set":
        members = sorted(map(member_element, value))
        return {**({".": {}} if fresh else {}), **{member: {} for member in members}}
    return {}


def to_fields(paths: set[Path]) -> Object:
    """Encode paths as FieldsV1. A path that is a prefix of others is written as "." below itself."""
    root: Object = {}
    for path in sorted(paths):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _without_lone_dots(root)


def _without_lone_dots(node: Object) -> Object:
    if set(node) == {"."}:
        return {}
    return {name: _without_lone_dots(inner) if name != "." else {} for name, inner in sorted(node.items())}


def from_fields(fields: Object, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of FieldsV1."""
    for name, inner in fields.items():
        if name == ".":
            yield path
        elif inner:
            yield from from_fields(inner, (*path, name))
        else:
            yield (*path, name)


def owns(fields: Object, path: Path) -> bool:
    """Return True if FieldsV1 contains this path."""
    node = fields
    for element in path:
        if element not in node:
            return False
        node = node[element]
    return not node or "." in node


def ownable_part(obj: Object) -> Object:
    """Return the document without metadata that cannot be owned."""
    return {name: value if name != "metadata" else _owned_metadata(value) for name, value in obj.items()}


def _owned_metadata(metadata: Object) -> Object:
    if metadata.keys() <= UNOWNED_METADATA:
        return {}
    return {name: value for name, value in metadata.items() if name not in UNOWNED_METADATA}
