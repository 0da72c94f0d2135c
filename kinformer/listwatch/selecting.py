"""Whether a source selects an object, as far as that is certain without the server."""

from __future__ import annotations

from collections.abc import Mapping

from kinformer.exceptions import ConfigError, DecodeError, SelectorError
from kinformer.objects.object import KubeObject
from kinformer.objects.selectors import FieldSelector, LabelSelector

__all__ = ["selects"]

# Selectable fields of pods that compare as "" if they are not set.
_EMPTY_IF_ABSENT = frozenset((("Pod", "spec.nodeName"), ("Pod", "status.nominatedNodeName"), ("Pod", "status.podIP")))


def selects(obj: KubeObject, params: Mapping[str, str]) -> bool:
    """Return False if the selectors among the query parameters of a list certainly exclude an object."""
    try:
        if not LabelSelector.parse(params.get("labelSelector")).matches(obj.labels):
            return False
        requirements = FieldSelector.parse(params.get("fieldSelector")).requirements
        return all(_may_meet(obj, *requirement) for requirement in requirements)
    except (SelectorError, ConfigError, DecodeError):  # the server will say what is wrong
        return True


def _may_meet(obj: KubeObject, field: str, operator: str, value: str) -> bool:
    """Return False if the object certainly does not match this condition of a field selector."""
    empty = "" if (obj.kind, field) in _EMPTY_IF_ABSENT else None
    actual = {"metadata.name": obj.name, "metadata.namespace": obj.namespace}.get(field) or obj.path(field, empty)
    return not isinstance(actual, str) or (actual == value) == (operator == "=")
