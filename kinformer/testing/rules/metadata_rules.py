"""Validation of metadata (apimachinery/pkg/api/validation/objectmeta.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kinformer.apiserver.selecting.names import dns_label, dns_subdomain, label_value, path_segment, qualified_name
from kinformer.apiserver.status import Causes, cause, quoted
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["finalizer_warnings", "invalid_value", "json_text", "label_causes", "metadata_causes", "object_meta_causes"]

Object = dict[str, Any]

MAX_ANNOTATIONS = 262_144  # bytes of keys and values together
_PATH_NAMES = {"apiservices", "roles", "rolebindings", "clusterroles", "clusterrolebindings"}
# Groups whose kinds accept finalizers without a domain (they only validate with apimachinery/pkg/api/validation).
_ANY_FINALIZER = {
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
}
_STANDARD_FINALIZERS = {"orphan", "foregroundDeletion", "kubernetes"}


def json_text(value: Any) -> str:
    """Format a value as field errors do: as JSON, but a text as Go quotes it."""
    return quoted(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def invalid_value(field: str, value: Any, text: str) -> dict[str, str]:
    """Return the cause `spec.x: Invalid value: 5: must be ...`."""
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
    """Return all errors of metadata. `old` is the metadata before an update."""
    causes = _name_causes(resource, metadata) if old is None else []
    for name, value in metadata.items():
        check = _CHECKS.get(name)
        if check is not None:
            wrong = check(value, old)
            causes += wrong * 2 if name == "labels" and old is not None and resource.builtin else wrong
    finalizers = metadata.get("finalizers") or []
    names = _finalizers(finalizers)
    if resource.builtin and resource.group not in _ANY_FINALIZER:
        names += _finalizers_without_domain(finalizers)
    if old is None:
        return causes + names
    causes += _late_finalizers(metadata, old) + _immutable(metadata, old)
    # An update is validated twice (its labels four times), and a custom resource three times except for its
    # finalizers. The message lists each cause once, but the details repeat it.
    return (causes + names) * 2 if resource.builtin else causes * 3 + names


def _name_causes(resource: ResourceType, metadata: Mapping[str, Any]) -> Causes:
    name, prefix = metadata.get("name", ""), metadata.get("generateName") or ""
    if not name:
        return [cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")]
    check = _name_rule(resource)
    whole = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix  # as `maskTrailingDash` does
    causes = [invalid_value("metadata.generateName", prefix, problem) for problem in (check(whole) if prefix else ())]
    return causes + [invalid_value("metadata.name", name, problem) for problem in check(name)]


def object_meta_causes(metadata: Mapping[str, Any], field: str) -> Causes:
    """Return the errors of metadata within an object, at `field`. A name can be any segment of a path."""
    causes: Causes = []
    for name, check in (("generateName", path_segment), ("name", path_segment), ("namespace", dns_label)):
        value = metadata.get(name) or ""
        causes += [invalid_value(f"metadata.{name}", value, problem) for problem in check(value) if value]
    causes += _labels(metadata.get("labels") or {}, None) + _annotations(metadata.get("annotations") or {}, None)
    causes += _owners(metadata.get("ownerReferences") or [], None) + _finalizers(metadata.get("finalizers") or [])
    return [{**error, "field": field + error["field"].removeprefix("metadata")} for error in causes]


def label_causes(labels: Mapping[str, str], field: str) -> Causes:
    """Return the errors of the keys and values of a map of labels."""
    causes = []
    for key, value in labels.items():
        causes += [invalid_value(field, key, problem) for problem in qualified_name(key)]
        causes += [invalid_value(field, value, problem) for problem in label_value(value)]
    return causes


def _labels(labels: Mapping[str, str], old: Any) -> Causes:
    return label_causes(labels, "metadata.labels")


def _annotations(annotations: Mapping[str, str], old: Any) -> Causes:
    field = "metadata.annotations"
    causes = [invalid_value(field, key, problem) for key in annotations for problem in qualified_name(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MAX_ANNOTATIONS:
        causes.append(cause("FieldValueTooLong", f"Too long: may not be more than {MAX_ANNOTATIONS} bytes", field))
    return causes


def _finalizers(finalizers: list[str]) -> Causes:
    field = "metadata.finalizers"
    causes = [invalid_value(field, name, problem) for name in finalizers for problem in qualified_name(name)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        causes.append(invalid_value(field, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return causes


def _late_finalizers(metadata: Mapping[str, Any], old: Mapping[str, Any]) -> Causes:
    """Return the errors of finalizers added to an object that is being deleted."""
    before = old.get("finalizers") or []
    fresh = [finalizer for finalizer in metadata.get("finalizers") or [] if finalizer not in before]
    if not old.get("deletionTimestamp") or not fresh:
        return []
    listed = ", ".join(f'"{finalizer}"' for finalizer in fresh)
    message = (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"
        f" []string{{{listed}}}"
    )
    return [cause("FieldValueForbidden", message, "metadata.finalizers")]


def _is_without_domain(finalizer: str) -> bool:
    return "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS


def _finalizers_without_domain(finalizers: list[str]) -> Causes:
    message = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_value(f"metadata.finalizers[{index}]", name, message)
        for index, name in enumerate(finalizers)
        if _is_without_domain(name)
    ]


def finalizer_warnings(metadata: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """Warn about finalizers without a domain in a custom resource (customresource/validator.go)."""
    before = (old or {}).get("finalizers") or []
    warnings = []
    for name in sorted(set(metadata.get("finalizers") or []) - set(before)):
        if _is_without_domain(name):
            path = " including a path (/)" if "." in name else ""
            message = f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other"
            warnings.append(f"metadata.finalizers: {json_text(name)}: {message} finalizer writers")
    return warnings


def _owners(owners: list[Object], old: Any) -> Causes:
    field, causes = "metadata.ownerReferences", []
    controllers = []
    for owner in owners:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                message = "version must not be empty" if name == "apiVersion" else "must not be empty"
                causes.append(invalid_value(f"{field}.{name}", owner.get(name, ""), message))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
            if len(controllers) == 2:
                message = (
                    'Only one reference can have Controller set to true. Found "true" in references for'
                    f" {controllers[0]} and {controllers[1]}"
                )
                causes.append(invalid_value(field, owners, message))
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
    "ownerReferences": _owners,
}
