"""What a server refuses of metadata (apimachinery/pkg/api/validation/objectmeta.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kinformer.testing.kinds.names import dns_label, dns_subdomain, label_value, path_segment, qualified_name
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.kinds.status import Causes, cause

__all__ = ["invalid_value", "json_text", "label_causes", "metadata_causes"]

Object = dict[str, Any]

MAX_ANNOTATIONS = 262_144  # bytes of keys and values together
_PATH_NAMES = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}
_STANDARD_FINALIZERS = {"orphan", "foregroundDeletion", "kubernetes"}


def json_text(value: Any) -> str:
    """A value as field errors show it: JSON."""
    return msgspec.json.encode(value).decode()


def invalid_value(field: str, value: Any, text: str) -> dict[str, str]:
    """`spec.x: Invalid value: 5: must be ...`."""
    return cause("FieldValueInvalid", f"Invalid value: {json_text(value)}: {text}", field)


def _name_rule(resource: ResourceType) -> Callable[[str], list[str]]:
    if not resource.builtin:
        return dns_subdomain
    if resource.plural in _PATH_NAMES:
        return path_segment
    if resource.kind == "Namespace":
        return dns_label
    return dns_label if resource.kind == "Service" else dns_subdomain


def metadata_causes(resource: ResourceType, metadata: Mapping[str, Any], old: Mapping[str, Any] | None) -> Causes:
    """All that is wrong; `old` is the metadata before an update."""
    causes = _name_causes(resource, metadata) if old is None else []
    for name, value in metadata.items():
        check = _CHECKS.get(name)
        if check is not None:
            found = check(value, old)
            causes += found * 2 if name == "labels" and old is not None and resource.builtin else found
    if old is None:
        return causes
    causes += _immutable(metadata, old)
    # An update is validated twice (its labels four times), that of a custom resource thrice; the message names each
    # cause once, the details as often as it was found.
    return causes * (2 if resource.builtin else 3)


def _name_causes(resource: ResourceType, metadata: Mapping[str, Any]) -> Causes:
    name = metadata.get("name", "")
    if not name:
        return [cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")]
    return [invalid_value("metadata.name", name, text) for text in _name_rule(resource)(name)]


def label_causes(labels: Mapping[str, str], field: str) -> Causes:
    """Keys and values of a map of labels."""
    causes = []
    for key, value in labels.items():
        causes += [invalid_value(field, key, text) for text in qualified_name(key)]
        causes += [invalid_value(field, value, text) for text in label_value(value)]
    return causes


def _labels(labels: Mapping[str, str], old: Any) -> Causes:
    return label_causes(labels, "metadata.labels")


def _annotations(annotations: Mapping[str, str], old: Any) -> Causes:
    field = "metadata.annotations"
    causes = [invalid_value(field, key, text) for key in annotations for text in qualified_name(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MAX_ANNOTATIONS:
        causes.append(cause("FieldValueTooLong", f"Too long: may not be more than {MAX_ANNOTATIONS} bytes", field))
    return causes


def _finalizers(finalizers: list[str], old: Mapping[str, Any] | None) -> Causes:
    causes = []
    for index, name in enumerate(finalizers):
        wrong = qualified_name(name)
        causes += [invalid_value("metadata.finalizers", name, text) for text in wrong]
        if not wrong and "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid_value(f"metadata.finalizers[{index}]", name, text))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid_value("metadata.finalizers", finalizers, text))
    if old is not None and old.get("deletionTimestamp"):
        fresh = [one for one in finalizers if one not in (old.get("finalizers") or [])]
        if fresh:
            listed = ", ".join(f'"{one}"' for one in fresh)
            text = (
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"
                f" []string{{{listed}}}"
            )
            causes.append(cause("FieldValueForbidden", text, "metadata.finalizers"))
    return causes


def _owners(owners: list[Object], old: Any) -> Causes:
    field, causes = "metadata.ownerReferences", []
    controllers = []
    for owner in owners:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                text = "version must not be empty" if name == "apiVersion" else "must not be empty"
                causes.append(invalid_value(f"{field}.{name}", owner.get(name, ""), text))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
            if len(controllers) == 2:
                text = (
                    'Only one reference can have Controller set to true. Found "true" in references for'
                    f" {controllers[0]} and {controllers[1]}"
                )
                causes.append(invalid_value(field, owners, text))
    return causes


def _immutable(metadata: Mapping[str, Any], old: Mapping[str, Any]) -> Causes:
    causes = []
    for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(name) != old.get(name):
            causes.append(invalid_value(f"metadata.{name}", metadata.get(name), "field is immutable"))
    return causes


_CHECKS: Mapping[str, Callable[[Any, Mapping[str, Any] | None], Causes]] = {
    "labels": _labels,
    "annotations": _annotations,
    "finalizers": _finalizers,
    "ownerReferences": _owners,
}
