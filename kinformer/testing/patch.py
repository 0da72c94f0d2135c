"""Patches: RFC 6902 JSON patch, RFC 7386 merge patch, and strategic merge patch.

All of them give a new document and leave what they were given alone. Strategic merge follows
apimachinery/pkg/util/strategicpatch: merge keys, `$patch`, `$deleteFromPrimitiveList`, `$retainKeys`;
`$setElementOrder` orders what is merged.
"""

from __future__ import annotations

import copy
from typing import Any

from kinformer.testing.schema import KeyedLists
from kinformer.testing.status import StatusError, bad_request, failure

__all__ = ["json_patch", "merge_patch", "strategic_patch"]

MAX_OPERATIONS = 10_000  # endpoints/handlers/patch.go, maxJSONPatchOperations
_ORDER = "$setElementOrder/"
_DELETE_VALUES = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def rejected() -> StatusError:
    """What kube-apiserver says of a patch that does not fit the object."""
    return failure(422, "the server rejected our request due to an error in our request", details={})


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902. A 422 `StatusError` for an operation that fails, 400 for what is no patch."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise failure(
            413,
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
            reason="RequestEntityTooLarge",
        )
    document = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _operate(document, operation)
        except (KeyError, IndexError, TypeError, ValueError):
            raise rejected() from None
    return document


def _operate(document: Any, operation: dict[str, Any]) -> Any:
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
        _get(document, path)
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


def strategic_patch(target: dict[str, Any], patch: dict[str, Any], lists: KeyedLists) -> dict[str, Any]:
    """A strategic merge patch of a built-in object."""
    merged = _strategic_map(target, patch, (), lists)
    assert isinstance(merged, dict)
    return merged


def _strategic_map(target: Any, patch: dict[str, Any], path: tuple[str, ...], lists: KeyedLists) -> Any:
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    if directive == "replace" or not isinstance(target, dict):
        target = {}
    merged = copy.deepcopy(target)
    if _RETAIN in patch:
        merged = {name: value for name, value in merged.items() if name in patch[_RETAIN]}
    for name, value in patch.items():
        if name.startswith("$"):
            if name.startswith(_DELETE_VALUES):
                field = name.removeprefix(_DELETE_VALUES)
                merged[field] = [one for one in merged.get(field) or [] if one not in value]
        elif value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = _strategic_map(merged.get(name), value, (*path, name), lists)
        elif isinstance(value, list):
            order = patch.get(_ORDER + name)
            merged[name] = _strategic_list(merged.get(name) or [], value, (*path, name), lists, order)
        else:
            merged[name] = value
    return merged


def _strategic_list(
    target: list[Any], patch: list[Any], path: tuple[str, ...], lists: KeyedLists, order: list[Any] | None
) -> list[Any]:
    if lists.is_set(path):
        return [*target, *(one for one in patch if one not in target)]
    key = lists.merge_key(path)
    if any(isinstance(one, dict) and one.get("$patch") == "replace" for one in patch):
        return [one for one in patch if one.get("$patch") != "replace"]
    if not key or not all(isinstance(one, dict) for one in patch):
        return copy.deepcopy(patch)
    merged = [dict(one) for one in target]
    fresh: list[Any] = []
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((index for index, one in enumerate(merged) if one.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [one for one in merged if one.get(key) != item[key]]
        elif at is None:
            fresh.append(_strategic_map({}, item, path, lists))
        else:
            merged[at] = _strategic_map(merged[at], item, path, lists)
    whole = [*merged, *fresh]
    if order:
        rank = {one.get(key): index for index, one in enumerate(order) if isinstance(one, dict)}
        whole.sort(key=lambda one: rank.get(one.get(key), len(rank)))
    return whole
