"""Sets of fields: the paths of a document that can be owned, and FieldsV1, in which they are written.

A path is a tuple of elements as they are written in FieldsV1: `f:name` for a field, `k:{"name":"c"}` for an item of a
keyed list, `v:"x"` for a member of a set (structured-merge-diff, fieldpath).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kinformer.testing.resources import ResourceType
from kinformer.testing.schema import KeyedLists, key_of

__all__ = ["Path", "bare", "difference", "drop_field", "from_fields", "leaves", "owns", "to_fields"]

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
    "generateName",
    "resourceVersion",
    "selfLink",
    "managedFields",
}
# Structs that Go always writes: they exist before anybody sets a field of theirs, so nobody owns them themselves.
_ALWAYS = {
    *("metadata", "spec", "status", "template", "strategy", "updateStrategy", "containers", "jobTemplate"),
    *("names", "acceptedNames"),
}
# Values that are owned as one (+structType=atomic, +listType=atomic on maps).
_ATOMIC = {
    *("selector", "matchLabels", "nodeSelector", "securityContext", "resources", "affinity"),
    *("involvedObject", "regarding", "related", "claimRef", "targetRef"),  # ObjectReference
}


def leaves(resource: ResourceType, obj: Object, *, nodes: bool) -> dict[Path, Any]:
    """Path -> value for all that can be owned; `nodes` includes maps and lists themselves, as updates own them."""
    found: dict[Path, Any] = {}
    lists = KeyedLists(resource)
    for name, value in obj.items():
        if name in ("apiVersion", "kind"):
            continue
        if name == "metadata":
            value = _owned_metadata(value)
        _walk(resource, lists, value, (f"f:{name}",), (name,), found, nodes=nodes)
    return found


def _always(resource: ResourceType, names: tuple[str, ...]) -> bool:
    if names == ("metadata",):
        return True
    if resource.kind == "CustomResourceDefinition" and names == ("status", "conditions"):
        return True
    return resource.builtin and names[-1] in _ALWAYS


def _walk(
    resource: ResourceType,
    lists: KeyedLists,
    value: Any,
    path: Path,
    names: tuple[str, ...],
    found: dict[Path, Any],
    *,
    nodes: bool,
) -> None:
    if isinstance(value, dict) and value and not (resource.builtin and names[-1] in _ATOMIC):
        if nodes and not _always(resource, names):
            found[path] = None
        for name, inner in value.items():
            _walk(resource, lists, inner, (*path, f"f:{name}"), (*names, name), found, nodes=nodes)
    elif isinstance(value, list) and value:
        _walk_list(resource, lists, value, path, names, found, nodes=nodes)
    elif value is not None and not (value == {} and _always(resource, names)):
        found[path] = value


def _walk_list(
    resource: ResourceType,
    lists: KeyedLists,
    value: list[Any],
    path: Path,
    names: tuple[str, ...],
    found: dict[Path, Any],
    *,
    nodes: bool,
) -> None:
    keys = lists.keys(names, value)
    if keys:
        if nodes and not _always(resource, names):
            found[path] = None
        for item in value:
            element = "k:" + json.dumps(dict(zip(keys, key_of(item, keys), strict=True)), separators=(",", ":"))
            below = (*path, element)
            found[below] = None  # the item itself
            for name, inner in item.items():
                _walk(resource, lists, inner, (*below, f"f:{name}"), (*names, name), found, nodes=nodes)
    elif lists.is_set(names):
        if nodes:
            found[path] = None
        for item in value:
            found[(*path, "v:" + json.dumps(item))] = item
    else:
        found[path] = value


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


def bare(obj: Object) -> Object:
    """The document without the metadata that nobody owns."""
    return {name: value if name != "metadata" else _owned_metadata(value) for name, value in obj.items()}


def _owned_metadata(metadata: Object) -> Object:
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
        node.pop(last[2:], None)
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
    keys = tuple(wanted)
    return next((one for one in node if isinstance(one, dict) and key_of(one, keys) == tuple(wanted.values())), None)
