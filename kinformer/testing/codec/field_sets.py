"""Sets of fields: the paths of a document that can be owned, and FieldsV1, in which they are written.

A path is a tuple of elements as they are written in FieldsV1: `f:name` for a field, `k:{"name":"c"}` for an item of a
keyed list, `v:"x"` for a member of a set (structured-merge-diff, fieldpath).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kinformer.testing.kinds.schema import ANY, Node

__all__ = [
    "NODE",
    "Path",
    "difference",
    "drop_field",
    "from_fields",
    "leaves",
    "new_fields",
    "ownable_part",
    "owns",
    "to_fields",
]

Path = tuple[str, ...]
Object = dict[str, Any]

_META_IGNORED = {
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
# Stands for a map, a list or an item of one: it may be owned by several, a value belongs to whoever wrote it last.
NODE = object()
_ZERO: tuple[Any, ...] = (None, {}, "", 0)  # what Go writes for fields that were never set


def leaves(node: Node, obj: Object, *, nodes: bool) -> dict[Path, Any]:
    """Path -> value for all that can be owned; `nodes` includes maps and lists themselves, as updates own them."""
    found: dict[Path, Any] = {}
    for name, value in obj.items():
        if name == "metadata":
            value = _owned_metadata(value)
            if value:
                _walk(node.child(name), value, ("f:metadata",), found, nodes=nodes, fresh=False)
        elif name not in ("apiVersion", "kind"):
            child = node.child(name)
            _walk(child, value, (f"f:{name}",), found, nodes=nodes, fresh=not child.always)
    return found


def _walk(node: Node, value: Any, path: Path, found: dict[Path, Any], *, nodes: bool, fresh: bool) -> None:
    """`fresh` is False for what Go writes before anybody sets it: nobody owns that itself."""
    if isinstance(value, dict) and value and not node.atomic:
        if nodes and fresh:
            found[path] = NODE
        for name, inner in value.items():
            child = node.child(name)
            _walk(child, inner, (*path, f"f:{name}"), found, nodes=nodes, fresh=fresh or not child.always)
    elif isinstance(value, list) and value:
        _walk_list(node, value, path, found, nodes=nodes, fresh=fresh)
    elif fresh or value not in _ZERO:
        found[path] = value


def _walk_list(node: Node, value: list[Any], path: Path, found: dict[Path, Any], *, nodes: bool, fresh: bool) -> None:
    keys = node.keys_of(value)
    if keys:
        item_node = node.item or ANY
        if nodes and fresh:
            found[path] = NODE
        for item in value:
            below = (*path, _key_element(node, item))
            found[below] = NODE  # the item itself
            for name, inner in item.items():
                _walk(item_node.child(name), inner, (*below, f"f:{name}"), found, nodes=nodes, fresh=True)
    elif node.list_type == "set":
        if nodes and fresh:
            found[path] = NODE
        for item in value:
            found[(*path, "v:" + json.dumps(item))] = item
    else:
        found[path] = value


def _key_element(node: Node, item: Object) -> str:
    # structured-merge-diff writes the keys of an item in order of the alphabet
    pairs = sorted(zip(node.keys, node.key_of(item), strict=True))
    return "k:" + json.dumps(dict(pairs), separators=(",", ":"), ensure_ascii=False)


def new_fields(node: Node, obj: Object) -> Object:
    """FieldsV1 of a new object, all of which belongs to its creator: `to_fields(leaves(...))` in one pass."""
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


def _new(node: Node, value: Any, *, fresh: bool) -> Object | None:
    """None where there is nothing to own."""
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


def _new_list(node: Node, value: list[Any], *, fresh: bool) -> Object:
    keys = node.keys_of(value)
    if keys:
        item_node = node.item or ANY
        below: Object = {".": {}} if fresh else {}
        items = {_key_element(node, item): _new(item_node, item, fresh=True) for item in value}
        return {**below, **dict(sorted(items.items()))}
    if node.list_type == "set":
        members = sorted("v:" + json.dumps(item) for item in value)
        return {**({".": {}} if fresh else {}), **{member: {} for member in members}}
    return {}


def to_fields(paths: set[Path]) -> Object:
    """FieldsV1. A path that others go through is written as "." below itself."""
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
    """The paths of FieldsV1."""
    for name, inner in fields.items():
        if name == ".":
            yield path
        elif inner:
            yield from from_fields(inner, (*path, name))
        else:
            yield (*path, name)


def owns(fields: Object, path: Path) -> bool:
    """Whether FieldsV1 has this path."""
    node = fields
    for element in path:
        if element not in node:
            return False
        node = node[element]
    return not node or "." in node


def ownable_part(obj: Object) -> Object:
    """The document without the metadata that nobody owns."""
    return {name: value if name != "metadata" else _owned_metadata(value) for name, value in obj.items()}


def _owned_metadata(metadata: Object) -> Object:
    if metadata.keys() <= _META_IGNORED:
        return {}
    return {name: value for name, value in metadata.items() if name not in _META_IGNORED}


def difference(old: Object, new: Object) -> tuple[Object, Object]:
    """Both documents without the parts that are equal."""
    old_part, new_part = {}, {}
    for name in old.keys() | new.keys():
        if name not in new:
            old_part[name] = old[name]
        elif name not in old:
            new_part[name] = new[name]
        elif old[name] != new[name]:
            left, right = old[name], new[name]
            if isinstance(left, dict) and isinstance(right, dict):
                less = difference(left, right)
                # Nothing may look empty that is not: an empty map is a value of its own.
                left, right = less if all(less) else (left, right)
            old_part[name], new_part[name] = left, right
    return old_part, new_part


def drop_field(obj: Object, path: Path) -> None:
    """Removes a field that its only owner no longer applies."""
    node: Any = obj
    for element in path[:-1]:
        node = _step(node, element)
        if node is None:
            return
    last = path[-1]
    if last.startswith("f:") and isinstance(node, dict):
        gone = node.pop(last[2:], None) is not None
        if gone and not node and len(path) > 2:  # a map that lost its last field goes too
            drop_field(obj, path[:-1])
    elif isinstance(node, list):
        item = _step(node, last)
        if item is not None:
            node.remove(item)


def _step(node: Any, element: str) -> Any:
    kind, _, text = element.partition(":")
    if kind == "f":
        return node.get(text) if isinstance(node, dict) else None
    if not isinstance(node, list):
        return None
    wanted = json.loads(text)
    if kind == "v":
        return wanted if wanted in node else None
    return next((one for one in node if isinstance(one, dict) and _is_item(one, wanted)), None)


def _is_item(item: Object, wanted: Object) -> bool:
    return all(item.get(key) == value for key, value in wanted.items())
