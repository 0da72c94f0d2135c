"""Patches: RFC 6902 JSON patch, RFC 7386 merge patch, and strategic merge patch.

All of them return a new document and do not change their arguments. Strategic merge follows
apimachinery/pkg/util/strategicpatch: merge keys, `$patch`, `$deleteFromPrimitiveList`, `$retainKeys`, and
`$setElementOrder` for the order of merged items.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kinformer.apiserver.status import StatusError, bad_request, failure
from kinformer.testing.codec.bodies import go_kind
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.kinds.schema import ANY, SchemaNode

__all__ = ["json_patch", "merge_patch", "patch_function", "patch_kind", "strategic_patch"]

MAX_OPERATIONS = 10_000  # endpoints/handlers/patch.go, maxJSONPatchOperations
_PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
_ORDER = "$setElementOrder/"
_DELETE_VALUES = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def patch_kind(content_type: str, resource: ResourceType, subresource: str = "") -> str:
    """Return `json`, `merge`, `strategic` or `apply`. Raises a 415 `StatusError` if the kind does not support it."""
    kind = _PATCHES.get(content_type, "")
    strategic = resource.builtin or subresource == "scale"
    if kind and (strategic or kind != "strategic"):
        return kind
    if resource.builtin:
        raise failure(415, "415: Unsupported Media Type", details={})
    accepted = [name for name, form in _PATCHES.items() if strategic or form != "strategic"]
    raise failure(
        415,
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def patch_function(kind: str, patch: Any, node: SchemaNode) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that patches an object. Raises a 400 `StatusError` for an invalid body."""
    if kind == "json":
        return lambda obj: json_patch(obj, patch)
    if not isinstance(patch, dict):
        message = f"json: cannot unmarshal {go_kind(patch)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding patch: {message}" if kind == "merge" else message)
    if kind == "merge":
        return lambda obj: merge_patch(obj, patch)
    return lambda obj: strategic_patch(obj, patch, node)


def rejected_patch() -> StatusError:
    """Return kube-apiserver's error for a patch that does not match the object."""
    return failure(422, "the server rejected our request due to an error in our request", details={})


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply RFC 7386.

    Nulls within a list are also removed if there was no object before (evanphx/json-patch, merge.go).
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch) if isinstance(target, dict) else _without_nulls(patch)
    if not isinstance(target, dict):
        return _without_nulls(patch)
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def json_patch(target: Any, operations: Any) -> Any:
    """Apply RFC 6902. Raises a 422 `StatusError` if an operation fails, or a 400 if the body is not a patch."""
    if not isinstance(operations, list):
        message = f"json: cannot unmarshal {go_kind(operations)} into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {message}")
    if len(operations) > MAX_OPERATIONS:
        raise failure(
            413,
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
            reason="RequestEntityTooLarge",
        )
    for operation in operations:
        _check_operation(operation)
    document = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _apply_operation(document, operation)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            raise rejected_patch() from None
    return document


def _check_operation(operation: Any) -> None:
    """Check the types of an operation. Raises a 400 `StatusError`. Null passes, although it cannot be performed."""
    wrong = ""
    if not isinstance(operation, dict):
        wrong = "" if operation is None else f"{go_kind(operation)} into Go value of type handlers.jsonPatchOp"
    else:
        for name in ("op", "path", "from"):
            if not isinstance(operation.get(name), str | None):
                wrong = f"{go_kind(operation[name])} into Go struct field jsonPatchOp.{name} of type string"
                break
    if wrong:
        raise bad_request(f"error decoding patch: json: cannot unmarshal {wrong}")


def _apply_operation(document: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation["op"], _pointer(operation["path"])
    if kind == "test":
        if _get(document, path) != operation.get("value"):
            raise ValueError("test failed")
        return document
    if kind in ("move", "copy"):
        source = _pointer(operation["from"])
        value = copy.deepcopy(_get(document, source))
        if kind == "move":
            document = _remove(document, source)
        return _add(document, path, value)
    if kind == "remove":
        return _remove(document, path)
    value = copy.deepcopy(operation["value"])
    if kind == "replace":
        _get(document, path[:-1])  # the last field of an object may be missing, as in evanphx/json-patch
        return _replace(document, path, value)
    if kind == "add":
        return _add(document, path, value)
    raise ValueError(kind)


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(text)
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(part: str, length: int) -> int:
    index = int(part)
    if not 0 <= index <= length:
        raise IndexError(part)
    return index


def _get(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[_index(part, len(document) - 1)] if isinstance(document, list) else document[part]
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _get(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent)), value)
    else:
        parent[last] = value
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _get(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent[_index(last, len(parent) - 1)] = value
    else:
        parent[last] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    parent, last = _get(document, path[:-1]), path[-1]
    del parent[_index(last, len(parent) - 1) if isinstance(parent, list) else last]
    return document


def strategic_patch(target: dict[str, Any], patch: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
    """Apply a strategic merge patch to a built-in object."""
    merged = _strategic_map(target, patch, node)
    assert isinstance(merged, dict)
    return merged


def _strategic_map(target: Any, patch: dict[str, Any], node: SchemaNode) -> Any:
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    if directive == "replace" or not isinstance(target, dict):
        target = {}
    merged = copy.deepcopy(target)
    if _RETAIN in patch:
        _check_retained(patch)
        merged = {name: value for name, value in merged.items() if name in patch[_RETAIN]}
    for name, value in patch.items():
        if name.startswith("$"):
            if name.startswith(_DELETE_VALUES):
                field = name.removeprefix(_DELETE_VALUES)
                merged[field] = [member for member in merged.get(field) or [] if member not in value]
        elif value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and "$patch" in value and name not in merged:
            continue  # there is nothing that the directive could apply to
        elif isinstance(value, dict):
            merged[name] = _strategic_map(merged.get(name), value, node.child(name))
        elif isinstance(value, list):
            order = patch.get(_ORDER + name)
            merged[name] = _strategic_list(merged.get(name) or [], value, node.child(name), order)
        else:
            merged[name] = value
    return merged


def _check_retained(patch: dict[str, Any]) -> None:
    """Raise a 400 `StatusError` if `$retainKeys` is not a list, or if the patch sets keys missing from it."""
    kept = patch[_RETAIN]
    named = {name for name, value in patch.items() if value is not None and not name.startswith("$")}
    if not isinstance(kept, list) or any(name not in kept for name in named):
        raise bad_request("invalid patch format of retainKeys")


def _strategic_list(target: list[Any], patch: list[Any], node: SchemaNode, order: list[Any] | None) -> list[Any]:
    key = node.merge
    if key is True:
        return _in_order(target, patch, target, patch)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    if not key or not all(isinstance(item, dict) and not isinstance(item.get(key), dict | list) for item in patch):
        return copy.deepcopy(patch)
    item_node = node.item or ANY
    items: dict[Any, Any] = {}
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {_go_map(item)} does not contain declared merge key: {key}")
        if item.get("$patch") == "delete":
            target = [entry for entry in target if entry.get(key) != item[key]]
            continue
        present: dict[str, Any] = next((entry for entry in target if entry.get(key) == item[key]), {})
        items[item[key]] = _strategic_map(present, item, item_node)
    ordered_keys = [entry.get(key) for entry in order if isinstance(entry, dict)] if order else list(items)
    return _ordered(target, items, ordered_keys, key)


def _ordered(target: list[Any], items: dict[Any, Any], ordered_keys: list[Any], key: str) -> list[Any]:
    """Put patched items in the wanted order. The others keep their positions."""
    rank = {name: index for index, name in enumerate(ordered_keys)}
    names = sorted(items, key=lambda name: rank.get(name, len(rank)))
    return _in_order(target, [items[name] for name in names], [item.get(key) for item in target], names)


def _in_order(target: list[Any], patched: list[Any], before: list[Any], names: list[Any]) -> list[Any]:
    """Put patched values in their order. The others keep their positions (strategicpatch, mergeSortedSlice).

    `before` and `names` identify the values of the target and of the patch.
    """
    rest = [(name, value) for name, value in zip(before, target, strict=True) if name not in names]
    fresh = list(dict(zip(names, patched, strict=True)).items())
    merged: list[Any] = []
    while rest or fresh:
        if rest and (not fresh or _comes_before(before, rest[0][0], fresh[0][0])):
            merged.append(rest.pop(0)[1])
        else:
            merged.append(fresh.pop(0)[1])
    return merged


def _comes_before(order: list[Any], left: Any, right: Any) -> bool:
    return left in order and right in order and order.index(left) < order.index(right)


def _go_map(item: dict[str, Any]) -> str:
    return "map[" + " ".join(f"{name}:{value}" for name, value in sorted(item.items())) + "]"
