"""The requests that a watch cache can answer: their parameters and selectors."""

from __future__ import annotations

from typing import cast

from kinformer.apiserver.options import Options
from kinformer.apiserver.selecting.fields import SELECTABLE, WITHOUT_NAMESPACE_LABEL, FieldPaths
from kinformer.apiserver.selecting.filters import Selector
from kinformer.apiserver.selecting.selection import parse_fields
from kinformer.apiserver.status import StatusError, bad_request
from kinformer.apiserver.storage import Stored
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.paths.json_path import path_value
from kinformer.watchcache.feed import Held

__all__ = ["PARAMETERS", "answers", "select"]

PARAMETERS = {
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "includeObject",
    "labelSelector",
    "limit",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeout",
    "timeoutSeconds",
    "watch",
}

# Only strings at one path of these kinds: a missing number or boolean has a value of its own at the server.
_KINDS = ("pods", "namespaces", "secrets", "services")
_NO_STRINGS = ("spec.hostNetwork",)


class _Fields:
    """The fields of a resource that selectors can name."""

    def __init__(self, resource: GroupVersionResource) -> None:
        name = f"{resource.group}/{resource.resource}" if resource.group else resource.resource
        self.selects_namespace = name not in WITHOUT_NAMESPACE_LABEL
        selectable = SELECTABLE[name] if name in _KINDS else {}
        self._paths: dict[str, FieldPaths] = {
            label: paths for label, paths in selectable.items() if len(paths) == 1 and label not in _NO_STRINGS
        }

    def has(self, label: str) -> bool:
        return label in self._paths

    def read(self, stored: Stored, label: str) -> str:
        value = path_value(cast("Held", stored).held.raw, ".".join(self._paths[label][0]), "")
        return value if isinstance(value, str) else ""

    def refusal(self, label: str) -> StatusError:
        return bad_request(f"field label not supported: {label}")


def answers(resource: GroupVersionResource, field_selector: str) -> bool:
    """Return True if the cache knows each field of a selector. Raises a 400 `StatusError` if it cannot be parsed."""
    terms = parse_fields(field_selector)
    fields = _Fields(resource)
    names = ("metadata.name", "metadata.namespace") if fields.selects_namespace else ("metadata.name",)
    return all(label in names or fields.has(label) for label, _, _ in terms)


def select(resource: GroupVersionResource, namespace: str, options: Options) -> Selector:
    """Return the filter of a request. Raises a 400 `StatusError` for an invalid selector."""
    return Selector(_Fields(resource), namespace, options)
