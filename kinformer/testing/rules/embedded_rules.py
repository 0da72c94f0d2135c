"""Embedded resources (`x-kubernetes-embedded-resource`): their metadata is ObjectMeta, whatever the schema says of it.

See apiextensions-apiserver, pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kinformer.apiserver.selecting.names import dns_label_1035
from kinformer.apiserver.status import Causes
from kinformer.testing.codec.typed import UnmarshalError, conform
from kinformer.testing.kinds.builtin_schemas import object_meta
from kinformer.testing.rules.builtin.pod_rules import required
from kinformer.testing.rules.metadata_rules import invalid_value, json_text, object_meta_causes

__all__ = ["EMBEDDED", "META_FIELDS", "coerce_embedded", "embedded_causes"]

Schema = Mapping[str, Any]
Object = dict[str, Any]

EMBEDDED = "x-kubernetes-embedded-resource"
META_FIELDS = ("apiVersion", "kind", "metadata")


def _embedded(schema: Schema, value: Any, path: str) -> Iterator[tuple[Object, str]]:
    """Yield all embedded resources of a value, with their paths."""
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, Mapping):
            for index, item in enumerate(value):
                yield from _embedded(items, item, f"{path}[{index}]")
        return
    if not isinstance(value, dict):
        return
    if schema.get(EMBEDDED):
        yield value, path
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, inner in list(value.items()):
        if name in properties:
            yield from _embedded(properties[name], inner, f"{path}.{name}" if path else name)
        elif isinstance(additional, Mapping):
            yield from _embedded(additional, inner, f"{path}[{name}]")


def coerce_embedded(schema: Schema, obj: Object) -> list[str]:
    """Decode the metadata of all embedded resources, in place, and return the paths of unknown fields.

    Raises `UnmarshalError` for a field of a wrong type.
    """
    unknown: list[str] = []
    for resource, path in _embedded(schema, obj, ""):
        for name in ("apiVersion", "kind"):
            if name in resource and not isinstance(resource[name], str):
                raise UnmarshalError(f"{path}.{name}: Invalid value: {json_text(resource[name])}: must be a string")
        if "metadata" not in resource:
            continue
        metadata = resource["metadata"]
        try:
            resource["metadata"], more = conform(object_meta(), {} if metadata is None else metadata)
        except UnmarshalError as error:
            raise UnmarshalError(f"{path}.metadata: Invalid value: {json_text(metadata)}: {error}") from None
        unknown += [f"{path}.metadata.{field}" for field in more]
    return sorted(unknown)


def embedded_causes(schema: Schema, value: Any, path: str) -> Causes:
    """Return the errors of all embedded resources of a value at a path."""
    causes: Causes = []
    for resource, at in _embedded(schema, value, path):
        causes += [required(f"{at}.{name}") for name in ("apiVersion", "kind") if name not in resource]
        for name, check in _CHECKS.items():
            if name in resource:
                causes += check(resource[name], f"{at}.{name}")
    return causes


def _version_causes(version: str, field: str) -> Causes:
    if not version:
        return [invalid_value(field, version, "must not be empty")]
    if version.count("/") > 1:
        return [invalid_value(field, version, f"unexpected GroupVersion string: {version}")]
    return []


def _kind_causes(kind: str, field: str) -> Causes:
    if not kind:
        return [invalid_value(field, kind, "must not be empty")]
    wrong = ",".join(dns_label_1035(kind.lower()))
    return [invalid_value(field, kind, f"may have mixed case, but should otherwise match: {wrong}")] if wrong else []


_CHECKS: Mapping[str, Callable[[Any, str], Causes]] = {
    "apiVersion": _version_causes,
    "kind": _kind_causes,
    "metadata": object_meta_causes,
}
