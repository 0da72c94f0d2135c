"""Selects the objects of a request by namespace, labels and fields."""

from __future__ import annotations

from typing import Any

import msgspec

from kinformer.serving.options import Options
from kinformer.serving.selection import parse_fields, parse_labels
from kinformer.serving.status import bad_request
from kinformer.serving.storage import Stored
from kinformer.testing.codec.typed import zero
from kinformer.testing.kinds.resources import FieldPaths, ResourceType

__all__ = ["Filter"]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Filter:
    """A predicate over stored objects. The constructor raises a 400 `StatusError` for an invalid selector."""

    def __init__(self, resource: ResourceType, namespace: str, options: Options) -> None:
        self.namespace = namespace
        self._labels = parse_labels(options.label_selector) if options.label_selector else None
        self._resource = resource
        self._field_terms: list[tuple[str, str, bool]] = []
        self._metadata_terms: list[tuple[str, str, bool]] = []
        self.name = ""  # a selector for one name counts as one object in authorization too
        for label, value, wanted in parse_fields(options.field_selector):
            if label == "metadata.name" or (label == "metadata.namespace" and resource.selects_namespace):
                self._metadata_terms.append((label, value, wanted))
                if label == "metadata.name" and wanted:
                    self.name = value
            elif label in resource.selectable:
                self._field_terms.append((label, value, wanted))
            else:
                raise bad_request(_unsupported(resource, label))
        self.shards = options.shards
        self.selects = bool(
            self._labels or self._field_terms or self._metadata_terms or self.shards
        )  # selects by more than the namespace
        self.everything = not self.selects and not namespace

    def matches(self, stored: Stored) -> bool:
        """True if the object is selected."""
        if self.everything:
            return True
        if self.namespace and stored.namespace != self.namespace:
            return False
        if self.shards is not None and not self.shards.matches(stored):
            return False
        for label, value, wanted in self._metadata_terms:
            own = stored.name if label == "metadata.name" else stored.namespace
            if (own == value) is not wanted:
                return False
        if self._labels is not None and not self._labels(stored.labels):
            return False
        return all((self._field(stored, label) == value) is wanted for label, value, wanted in self._field_terms)

    def _field(self, stored: Stored, label: str) -> str:
        # Cached in the object, because the next list and every watcher need the same fields.
        if stored.fields is None:
            stored.fields = {}
        found = stored.fields.get(label)
        if found is None:
            paths = self._resource.selectable[label]
            obj = msgspec.json.decode(stored.raw) if paths else {}
            values = (_value(obj, path) for path in paths)
            found = next((_text(value) for value in values if value is not None), _zero(self._resource, paths))
            stored.fields[label] = found
        return found


def _value(obj: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _zero(resource: ResourceType, paths: FieldPaths) -> str:
    """Return the selector value of a field missing from a built-in object: Go's zero value as a string."""
    if not resource.builtin or not paths:
        return ""
    node = resource.node
    for part in paths[0]:
        node = node.child(part)
    return _text(zero(node)) if not node.pointer else ""


def _unsupported(resource: ResourceType, label: str) -> str:
    if resource.builtin and resource.plural == "resourceslices":
        return f"field label not supported for {resource.api_version}, Kind={resource.kind}: {label}"
    if resource.builtin and resource.plural == "jobs":
        return f'field label "{label}" not supported for {resource.kind}'
    if not resource.builtin or resource.selectable:
        return f"field label not supported: {label}"
    # runtime.DefaultMetaV1FieldSelectorConversion
    return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
