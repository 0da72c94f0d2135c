"""Filters the objects of a resource by the selectors of a request."""

from __future__ import annotations

from typing import Any

import msgspec

from kinformer.apiserver.options import Options
from kinformer.apiserver.selecting import filters
from kinformer.apiserver.selecting.fields import FieldPaths
from kinformer.apiserver.status import StatusError, bad_request, quoted
from kinformer.apiserver.storage import Stored
from kinformer.testing.codec.typed import zero
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["ResourceFilter"]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class _ResourceFields:
    """The selectable fields of a resource of the test server."""

    def __init__(self, resource: ResourceType) -> None:
        self._resource = resource
        self.selects_namespace = resource.selects_namespace

    def has(self, label: str) -> bool:
        return label in self._resource.selectable

    def read(self, stored: Stored, label: str) -> str:
        paths = self._resource.selectable[label]
        obj = msgspec.json.decode(stored.raw) if paths else {}
        values = (_value(obj, path) for path in paths)
        return next((_text(value) for value in values if value is not None), _zero(self._resource, paths))

    def refusal(self, label: str) -> StatusError:
        return bad_request(_unsupported(self._resource, label))


class ResourceFilter(filters.Selector):
    """A predicate over the objects of a resource. The constructor raises a 400 `StatusError` for a bad selector."""

    def __init__(self, resource: ResourceType, namespace: str, options: Options) -> None:
        super().__init__(_ResourceFields(resource), namespace, options)


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
    return f'{quoted(label)} is not a known field selector: only "metadata.name", "metadata.namespace"'
