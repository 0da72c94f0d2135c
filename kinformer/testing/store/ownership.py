"""managedFields: who owns which field, for updates and for apply (structured-merge-diff, fieldmanager)."""

from __future__ import annotations

import copy
import json
from typing import Any

from kinformer.testing.codec.field_sets import (
    NODE,
    Path,
    difference,
    drop_field,
    from_fields,
    leaves,
    new_fields,
    ownable_part,
    owns,
    to_fields,
)
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.kinds.schema import ANY, Node
from kinformer.testing.kinds.status import StatusError, failure

__all__ = ["FieldManager", "apply_fields", "track_update"]

Object = dict[str, Any]


class FieldManager:
    """Who writes: a name, `Update` or `Apply`, and the subresource through which; `timed` False leaves the time out."""

    def __init__(self, name: str, operation: str = "Update", subresource: str = "", *, timed: bool = True) -> None:
        self.name = name
        self.timed = timed
        self.operation = operation
        self.subresource = subresource

    def has_entry(self, entry: Object) -> bool:
        """Whether an entry is this manager's."""
        return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
            self.name,
            self.operation,
            self.subresource,
        )


def _encoded_entries(entries: list[tuple[Object, set[Path]]]) -> list[Object]:
    """The entries that own something."""
    kept = []
    for entry, paths in entries:
        if paths:
            kept.append({**entry, "fieldsType": "FieldsV1", "fieldsV1": to_fields(paths)})
    return _sorted(kept)


def _sorted(entries: list[Object]) -> list[Object]:
    """Apply first, then by time and name (structured-merge-diff, fieldmanager/internal/managedfields.go)."""
    return sorted(entries, key=_rank)


def _rank(entry: Object) -> tuple[str, ...]:
    named = (entry.get("manager", ""), entry.get("apiVersion", ""), entry.get("subresource", ""))
    return (entry.get("operation", ""), entry.get("time", ""), *named)


def _entries_of(obj: Object) -> list[tuple[Object, set[Path]]]:
    entries = (obj.get("metadata") or {}).get("managedFields") or []
    return [
        (
            {name: value for name, value in entry.items() if name not in ("fieldsV1", "fieldsType")},
            set(from_fields(entry.get("fieldsV1") or {})),
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
    if not manager.timed:
        del entry["time"]
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def track_update(resource: ResourceType, old: Object | None, new: Object, manager: FieldManager, now: str) -> None:
    """Writes managedFields of `new`: what differs from `old` belongs to the manager now, and to nobody else."""
    if old is None:
        fields = new_fields(resource.node, new)
        if fields:
            entry = {**_entry(resource, manager, now), "fieldsType": "FieldsV1", "fieldsV1": fields}
            new["metadata"]["managedFields"] = [entry]
        return
    if not old["metadata"].get("managedFields"):
        # Who never owned anything is not followed until somebody applies (fieldmanager/skipnonapplied.go).
        new["metadata"].pop("managedFields", None)
        return
    # Only what differs is taken apart: most writes change a field or two of a large object.
    old_part, new_part = difference(ownable_part(old), ownable_part(new))
    before = leaves(resource.node, old_part, nodes=True)
    after = leaves(resource.node, new_part, nodes=True)
    removed = before.keys() - after.keys()
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    # An item of a keyed list, or a map, may be owned by several; a value by whoever wrote it last.
    taken = {path for path in changed if after[path] is not NODE}
    entries: list[Object] = []
    mine: Object | None = None
    for entry in old["metadata"].get("managedFields") or []:
        if manager.has_entry(entry):
            mine = entry
        else:
            entries.append(_without_paths(entry, removed | taken))
    if mine is None:
        entries.append({**_entry(resource, manager, now), "fieldsType": "FieldsV1", "fieldsV1": to_fields(changed)})
    else:
        entries.append(_with_paths(_without_paths(mine, removed), changed, resource, now if manager.timed else ""))
    written = _sorted([entry for entry in entries if entry["fieldsV1"]])
    if written:
        new["metadata"]["managedFields"] = written
    else:
        new["metadata"].pop("managedFields", None)


def _without_paths(entry: Object, paths: set[Path]) -> Object:
    """The entry without these paths; itself where it has none of them."""
    fields = entry.get("fieldsV1") or {}
    if not any(owns(fields, path) for path in paths):
        return entry
    return {**entry, "fieldsV1": to_fields(set(from_fields(fields)) - paths)}


def _with_paths(entry: Object, paths: set[Path], resource: ResourceType, now: str) -> Object:
    """The entry with these paths too; written anew where there are any."""
    if not paths:
        return entry
    fields = entry.get("fieldsV1") or {}
    if not all(owns(fields, path) for path in paths):
        fields = to_fields(set(from_fields(fields)) | paths)
    more = {**entry, "apiVersion": resource.api_version, "fieldsV1": fields}
    return {**more, "time": now} if now else more


def apply_fields(
    resource: ResourceType, live: Object, applied: Object, manager: FieldManager, now: str, *, force: bool
) -> Object:
    """Server-side apply: the merged object with its managedFields. A 409 `StatusError` that names the conflicts."""
    wanted = leaves(resource.node, applied, nodes=False)
    present = leaves(resource.node, live, nodes=False)
    changed = {path for path, value in wanted.items() if path in present and present[path] != value}
    entries: list[tuple[Object, set[Path]]] = []
    previous: set[Path] = set()
    conflicts: list[tuple[Object, Path]] = []
    for entry, paths in _entries_of(live):
        if manager.has_entry(entry):
            previous = paths
            continue
        lost = paths & changed
        conflicts += [(entry, path) for path in sorted(lost)]
        entries.append((entry, paths - lost))
    if conflicts and not force:
        raise _conflict(conflicts)
    owned_by_others = set().union(*(paths for _, paths in entries)) if entries else set()
    merged: Object = _merge(live, applied, resource.node)
    for path in sorted(previous - wanted.keys() - owned_by_others, key=len):  # a whole item before its fields
        if not any(other[: len(path)] == path for other in owned_by_others):
            drop_field(merged, path)
    entries = [(entry, _present_paths(paths, merged, resource)) for entry, paths in entries]
    mine = _entry(resource, manager, now)
    if _same_content(live, merged):  # the time is that of the last change
        before = next((entry for entry, _ in _entries_of(live) if manager.has_entry(entry)), {})
        mine = {name: value for name, value in mine.items() if name != "time"}
        if before.get("time"):
            mine["time"] = before["time"]
    entries.append((mine, set(wanted)))
    merged["metadata"]["managedFields"] = _encoded_entries(entries)
    return merged


def _same_content(live: Object, merged: Object) -> bool:
    def content(obj: Object) -> Object:
        metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
        return {**obj, "metadata": metadata}

    return "uid" in live["metadata"] and content(live) == content(merged)


def _present_paths(paths: set[Path], merged: Object, resource: ResourceType) -> set[Path]:
    return paths & leaves(resource.node, merged, nodes=True).keys()


def _merge(live: Any, applied: Any, node: Node) -> Any:
    if isinstance(live, dict) and isinstance(applied, dict) and not node.atomic:
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = _merge(live.get(name), value, node.child(name)) if name in live else value
        return copy.deepcopy(merged)
    if isinstance(live, list) and isinstance(applied, list):
        keys = node.keys_of([*live, *applied])
        if keys:
            by_key = {node.key_of(item): item for item in live}
            for item in applied:
                key = node.key_of(item)
                by_key[key] = _merge(by_key[key], item, node.item or ANY) if key in by_key else item
            return copy.deepcopy(list(by_key.values()))
        if node.list_type == "set":
            return [*live, *(item for item in applied if item not in live)]
    return copy.deepcopy(applied)


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
    return text


def _conflict(conflicts: list[tuple[Object, Path]]) -> StatusError:
    conflicts = sorted(conflicts, key=lambda one: (one[0]["manager"], one[1]))
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
