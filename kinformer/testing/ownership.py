"""managedFields: who owns which field, for updates and for apply (structured-merge-diff, fieldmanager).

A set of fields is a set of paths; a path is a tuple of elements as they are written in FieldsV1: `f:name` for a field,
`k:{"name":"c"}` for an item of a keyed list, `v:"x"` for a member of a set.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from kinformer.testing.resources import ResourceType
from kinformer.testing.schema import KeyedLists, key_of
from kinformer.testing.status import StatusError, failure

__all__ = ["FieldManager", "apply_fields", "track_update"]

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


class FieldManager:
    """Who writes: a name, `Update` or `Apply`, and the subresource through which."""

    def __init__(self, name: str, operation: str = "Update", subresource: str = "") -> None:
        self.name = name
        self.operation = operation
        self.subresource = subresource

    def key(self, entry: Object) -> bool:
        """Whether an entry is this manager's."""
        return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
            self.name,
            self.operation,
            self.subresource,
        )


def _leaves(resource: ResourceType, obj: Object, *, nodes: bool) -> dict[Path, Any]:
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


def _to_fields(paths: set[Path]) -> Object:
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


def _from_fields(fields: Object, path: Path = ()) -> Iterator[Path]:
    for name, inner in fields.items():
        if name == ".":
            yield path
        elif inner:
            yield from _from_fields(inner, (*path, name))
        else:
            yield (*path, name)


def _written(entries: list[tuple[Object, set[Path]]]) -> list[Object]:
    """The entries that own something; Apply first, then by time, as fieldmanager sorts them."""
    kept = []
    for entry, paths in entries:
        if paths:
            kept.append({**entry, "fieldsType": "FieldsV1", "fieldsV1": _to_fields(paths)})
    return sorted(kept, key=lambda one: (one["operation"] != "Apply", one.get("time", ""), one["manager"]))


def _read(obj: Object) -> list[tuple[Object, set[Path]]]:
    entries = (obj.get("metadata") or {}).get("managedFields") or []
    return [
        (
            {name: value for name, value in entry.items() if name not in ("fieldsV1", "fieldsType")},
            set(_from_fields(entry.get("fieldsV1") or {})),
        )
        for entry in entries
    ]


def _entry(resource: ResourceType, manager: FieldManager, now: str) -> Object:
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": resource.api_version,
        "time": now,
    }
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def _bare(obj: Object) -> Object:
    return {name: value if name != "metadata" else _owned_metadata(value) for name, value in obj.items()}


def _owned_metadata(metadata: Object) -> Object:
    return {name: value for name, value in metadata.items() if name not in _META_IGNORED}


def _difference(old: Object, new: Object) -> tuple[Object, Object]:
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
                less = _difference(left, right)
                # Nothing may look empty that is not: an empty map is a value of its own.
                left, right = less if all(less) else (left, right)
            old_part[name], new_part[name] = left, right
    return old_part, new_part


def track_update(resource: ResourceType, old: Object | None, new: Object, manager: FieldManager, now: str) -> None:
    """Writes managedFields of `new`: what differs from `old` belongs to the manager now, and to nobody else."""
    # Only what differs is taken apart: most writes change a field or two of a large object.
    old_part, new_part = _difference(_bare(old or {}), _bare(new))
    before = _leaves(resource, old_part, nodes=True)
    after = _leaves(resource, new_part, nodes=True)
    removed = before.keys() - after.keys()
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    # An item of a keyed list, or a map, may be owned by several; a value by whoever wrote it last.
    taken = {path for path in changed if after[path] is not None}
    entries: list[tuple[Object, set[Path]]] = []
    mine: set[Path] = set()
    my_entry = None
    for entry, paths in _read(old) if old is not None else []:
        kept = paths - removed
        if manager.key(entry):
            mine, my_entry = kept, entry
        else:
            entries.append((entry, kept - taken))
    if changed or my_entry is not None:
        fresh = _entry(resource, manager, now) if changed or my_entry is None else my_entry
        entries.append((fresh, mine | changed))
    written = _written(entries)
    if written:
        new["metadata"]["managedFields"] = written
    else:
        new["metadata"].pop("managedFields", None)


def apply_fields(
    resource: ResourceType, live: Object, applied: Object, manager: FieldManager, now: str, *, force: bool
) -> Object:
    """Server-side apply: the merged object with its managedFields. A 409 `StatusError` that names the conflicts."""
    lists = KeyedLists(resource)
    wanted = _leaves(resource, applied, nodes=False)
    present = _leaves(resource, live, nodes=False)
    changed = {path for path, value in wanted.items() if path in present and present[path] != value}
    entries: list[tuple[Object, set[Path]]] = []
    previous: set[Path] = set()
    conflicts: list[tuple[Object, Path]] = []
    for entry, paths in _read(live):
        if manager.key(entry):
            previous = paths
            continue
        lost = paths & changed
        conflicts += [(entry, path) for path in sorted(lost)]
        entries.append((entry, paths - lost))
    if conflicts and not force:
        raise _conflict(conflicts)
    owned_by_others = set().union(*(paths for _, paths in entries)) if entries else set()
    merged: Object = _merge(live, applied, (), lists)
    for path in sorted(previous - wanted.keys() - owned_by_others, key=len, reverse=True):
        _drop(merged, path)
    entries = [(entry, _still_there(paths, merged, resource)) for entry, paths in entries]
    entries.append((_entry(resource, manager, now), set(wanted)))
    merged["metadata"]["managedFields"] = _written(entries)
    return merged


def _still_there(paths: set[Path], merged: Object, resource: ResourceType) -> set[Path]:
    return paths & _leaves(resource, merged, nodes=True).keys()


def _merge(live: Any, applied: Any, names: tuple[str, ...], lists: KeyedLists) -> Any:
    if isinstance(live, dict) and isinstance(applied, dict):
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = _merge(live.get(name), value, (*names, name), lists) if name in live else value
        return copy.deepcopy(merged)
    if isinstance(live, list) and isinstance(applied, list):
        keys = lists.keys(names, [*live, *applied])
        if keys:
            by_key = {key_of(item, keys): item for item in live}
            for item in applied:
                key = key_of(item, keys)
                by_key[key] = _merge(by_key[key], item, names, lists) if key in by_key else item
            return copy.deepcopy(list(by_key.values()))
        if lists.is_set(names):
            return [*live, *(item for item in applied if item not in live)]
    return copy.deepcopy(applied)


def _drop(obj: Object, path: Path) -> None:
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


def _shown(path: Path) -> str:
    """`.spec.containers[name="c"].image`"""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"
        else:
            text += f"[={rest}]"
    return text


def _manager_text(entry: Object) -> str:
    text = json.dumps(entry["manager"])
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    if entry["operation"] == "Update":
        text += f" using {entry.get('apiVersion', '')}"
        if entry.get("time"):
            text += f" at {entry['time']}"
    return text


def _conflict(conflicts: list[tuple[Object, Path]]) -> StatusError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_manager_text(entry)}",
            "field": _shown(path),
        }
        for entry, path in conflicts
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        by_manager: dict[str, list[str]] = {}
        for entry, path in conflicts:
            by_manager.setdefault(_manager_text(entry), []).append(f"- {_shown(path)}")
        blocks = [f"conflicts with {who}:\n" + "\n".join(paths) for who, paths in sorted(by_manager.items())]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(blocks)
    return failure(409, text, details={"causes": causes})
