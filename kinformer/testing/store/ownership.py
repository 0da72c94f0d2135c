"""managedFields: the owners of fields, for updates and for apply (structured-merge-diff, fieldmanager)."""

from __future__ import annotations

import json
from typing import Any

from kinformer.apiserver.status import StatusError, failure
from kinformer.testing.codec.field_merge import compare, merge, remove, set_fields, with_named_fields
from kinformer.testing.codec.field_sets import (
    UNOWNED_METADATA,
    Path,
    from_fields,
    new_fields,
    ownable_part,
    owns,
    to_fields,
)
from kinformer.testing.kinds.reset_fields import reset_fields
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.kinds.schema import SchemaNode

__all__ = ["FieldManager", "apply_fields", "track_scale", "track_update"]

Object = dict[str, Any]

_MAX_UPDATES = 10  # maximum number of update entries per object (fieldmanager/internal/fieldmanager.go)
_OLD_UPDATES = "ancient-changes"
# Fields that never have an owner (fieldmanager/internal/stripmeta.go).
_NEVER_OWNED: frozenset[Path] = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in UNOWNED_METADATA)}
)


class FieldManager:
    """A writer: a name, `Update` or `Apply`, and a subresource. If `timed` is False, its entry has no time."""

    def __init__(self, name: str, operation: str = "Update", subresource: str = "", *, timed: bool = True) -> None:
        self.name = name
        self.timed = timed
        self.operation = operation
        self.subresource = subresource

    def has_entry(self, entry: Object, api_version: str = "") -> bool:
        """Return True if an entry belongs to this manager. Update entries must also match the apiVersion."""
        if api_version and entry.get("apiVersion") != api_version:
            return False
        return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
            self.name,
            self.operation,
            self.subresource,
        )


def _encoded_entries(entries: list[tuple[Object, set[Path]]]) -> list[Object]:
    """Return the encoded entries that own any fields."""
    kept = []
    for entry, paths in entries:
        if paths:
            kept.append({**entry, "fieldsType": "FieldsV1", "fieldsV1": to_fields(paths)})
    return _sorted(kept)


def _sorted(entries: list[Object]) -> list[Object]:
    """Sort entries by Apply first, time and name (structured-merge-diff, fieldmanager/internal/managedfields.go)."""
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
    """Write managedFields of `new`. The manager becomes the only owner of the fields that differ from `old`."""
    reset = reset_fields(resource, manager.subresource)
    if old is None:
        fields = new_fields(resource.node, new)
        for first, *rest in reset:
            if not rest:
                fields.pop(first, None)
        if fields:
            entry = {**_entry(resource, manager, now), "fieldsType": "FieldsV1", "fieldsV1": fields}
            new["metadata"]["managedFields"] = [entry]
        return
    if not old["metadata"].get("managedFields"):
        # An object without owners is not tracked until the first apply (fieldmanager/skipnonapplied.go).
        new["metadata"].pop("managedFields", None)
        return
    comparison = compare(resource.node, ownable_part(old), ownable_part(new))
    changed = _without_reset(comparison.written - _NEVER_OWNED, reset)
    removed = _without_reset(comparison.removed, reset)
    lost = removed | changed
    entries: list[Object] = []
    mine: Object | None = None
    for entry in old["metadata"].get("managedFields") or []:
        if manager.has_entry(entry, resource.api_version):
            mine = entry
        else:
            entries.append(_without_paths(entry, lost))
    if mine is None:
        entries.append({**_entry(resource, manager, now), "fieldsType": "FieldsV1", "fieldsV1": to_fields(changed)})
    else:
        mine = _without_paths(mine, removed)
        entries.append(_with_paths(mine, changed, resource, now if manager.timed else ""))
    written = _sorted(_capped([entry for entry in entries if entry["fieldsV1"]]))
    if written:
        new["metadata"]["managedFields"] = written
    else:
        new["metadata"].pop("managedFields", None)


def track_scale(resource: ResourceType, old: Object, new: Object, manager: FieldManager, now: str) -> None:
    """Write managedFields of `new`, whose replicas have been written through its Scale.

    Nobody owns a Scale's field that is 0 and so left out, and an object without owners is not tracked
    (managedfields/scalehandler.go).
    """
    place = resource.replicas_path.split(".")
    path = tuple(f"f:{name}" for name in place)
    entries = old["metadata"].get("managedFields") or []
    if not any(owns(entry.get("fieldsV1") or {}, path) for entry in entries):
        return
    replicas: Any = new
    for name in place:
        replicas = replicas.get(name)
    if replicas:
        track_update(resource, old, new, manager, now)
        return
    entries = [_without_paths(entry, {path}) for entry in entries]
    new["metadata"]["managedFields"] = [entry for entry in entries if entry.get("fieldsV1")]


def _capped(entries: list[Object]) -> list[Object]:
    """Return the entries, merging the oldest update entries if there are too many (capmanagers.go)."""
    if len(entries) <= _MAX_UPDATES:
        return entries
    updates = [entry for entry in entries if entry.get("operation") == "Update"]
    surplus = len(updates) - _MAX_UPDATES
    if surplus <= 0:
        return entries
    updates.sort(key=lambda entry: (entry.get("time", ""), json.dumps([entry.get("manager"), entry.get("apiVersion")])))
    kept = [entry for entry in entries if entry.get("operation") != "Update"]
    buckets: dict[str, list[Object]] = {}  # by apiVersion: the first of each absorbs the later ones
    for index, entry in enumerate(updates):
        if surplus <= 0:
            kept += updates[index:]
            break
        bucket = buckets.setdefault(entry.get("apiVersion", ""), [])
        surplus -= bool(bucket)
        bucket.append(entry)
    return kept + [_one_entry(bucket) for bucket in buckets.values()]


def _one_entry(entries: list[Object]) -> Object:
    """Return one entry that replaces several update entries, ordered from oldest to newest."""
    if len(entries) == 1:
        return entries[0]
    paths = {path for entry in entries for path in from_fields(entry["fieldsV1"])}
    named = {name: value for name, value in entries[-1].items() if name != "subresource"}
    return {**named, "manager": _OLD_UPDATES, "fieldsV1": to_fields(paths)}


def _without_paths(entry: Object, paths: set[Path]) -> Object:
    """Return the entry without these paths, or the same entry if it has none of them."""
    fields = entry.get("fieldsV1") or {}
    if not any(owns(fields, path) for path in paths):
        return entry
    return {**entry, "fieldsV1": to_fields(set(from_fields(fields)) - paths)}


def _with_paths(entry: Object, paths: set[Path], resource: ResourceType, now: str) -> Object:
    """Return the entry with these paths added, and with a new time if there are any."""
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
    """Return the merged object of a server-side apply. Raises a 409 `StatusError` that lists the conflicts.

    The result includes managedFields. `live` is an empty object if none exists yet. A field is removed if this manager
    applied it before, no longer does, and no other manager owns it (structured-merge-diff, merge/update.go).
    """
    node = resource.node
    reset = reset_fields(resource, manager.subresource)
    entries = _entries_of(live) or _before_first_apply(resource, live, manager.subresource, now)
    claimed = _without_reset(set_fields(node, applied), reset)
    previous = next((paths for entry, paths in entries if manager.has_entry(entry)), set())
    others = [(entry, paths) for entry, paths in entries if not manager.has_entry(entry)]
    merged: Object = merge(node, live, applied)
    if previous:
        merged = _pruned(node, merged, previous, claimed.union(*(paths for _, paths in others)))
    comparison = compare(node, ownable_part(live), ownable_part(merged))
    written, removed = _without_reset(comparison.written, reset), _without_reset(comparison.removed, reset)
    conflicts = [(entry, path) for entry, paths in others for path in sorted(paths & written, key=_place)]
    if conflicts and not force:
        raise _conflict(conflicts)
    mine = _entry(resource, manager, now)
    if "uid" in live["metadata"] and merged == live:  # keep the time of the last change
        before = next((entry for entry, _ in entries if manager.has_entry(entry)), {})
        mine = {name: value for name, value in mine.items() if name != "time"}
        if before.get("time"):
            mine["time"] = before["time"]
    kept = [(entry, paths - written - removed) for entry, paths in others]
    metadata = {**merged["metadata"], "managedFields": _encoded_entries([*kept, (mine, claimed - _NEVER_OWNED)])}
    if not metadata["managedFields"]:
        del metadata["managedFields"]
    return {**merged, "metadata": metadata}


def _pruned(node: SchemaNode, merged: Object, previous: set[Path], owned: set[Path]) -> Object:
    """Return the merged object without fields that the manager no longer applies.

    `owned` has all paths with an owner.
    """
    before = with_named_fields(node, previous)
    everything = with_named_fields(node, set_fields(node, merged))
    less = remove(node, merged, before)
    left = with_named_fields(node, set_fields(node, less))
    less = remove(node, merged, everything - (left | with_named_fields(node, owned)))
    left = with_named_fields(node, set_fields(node, less))
    pruned: Object = remove(node, merged, (everything - left) & before)
    return pruned


def _before_first_apply(
    resource: ResourceType, live: Object, subresource: str, now: str
) -> list[tuple[Object, set[Path]]]:
    """Return the entry that owns all fields of an untracked object (fieldmanager/skipnonapplied.go)."""
    if "uid" not in live["metadata"]:
        return []
    owned = _without_reset(set(from_fields(new_fields(resource.node, live))), reset_fields(resource, subresource))
    return [(_entry(resource, FieldManager("before-first-apply", "Update", subresource), now), owned)]


def _without_reset(paths: set[Path], reset: tuple[Path, ...]) -> set[Path]:
    return {path for path in paths if not any(path[: len(prefix)] == prefix for prefix in reset)}


def _place(path: Path) -> list[tuple[bool, str]]:
    """Return the sort key of a path in a set: a struct's own fields precede nested ones (fieldpath/set.go)."""
    return [(length < len(path), element) for length, element in enumerate(path, start=1)]


def _shown(path: Path) -> str:
    """Format a path as `.spec.containers[name="c"].image`."""
    shown = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            shown += f".{rest}"
        elif kind == "k":
            shown += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"
        else:
            shown += f"[={rest}]"
    return shown


def _manager_text(entry: Object) -> str:
    manager = json.dumps(entry["manager"])
    if entry.get("subresource"):
        manager += f' with subresource "{entry["subresource"]}"'
    if entry["operation"] == "Update":
        manager += f" using {entry.get('apiVersion', '')}"
    return manager


def _conflict(conflicts: list[tuple[Object, Path]]) -> StatusError:
    conflicts = sorted(conflicts, key=lambda conflict: conflict[0]["manager"])
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_manager_text(entry)}",
            "field": _shown(path),
        }
        for entry, path in conflicts
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        by_manager: dict[str, list[str]] = {}
        for entry, path in conflicts:
            by_manager.setdefault(_manager_text(entry), []).append(f"- {_shown(path)}")
        blocks = [f"conflicts with {who}:\n" + "\n".join(paths) for who, paths in sorted(by_manager.items())]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(blocks)
    return failure(409, message, details={"causes": causes})
