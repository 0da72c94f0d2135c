"""What a server refuses: names, missing fields, kinds that do not fit the path; and what a CRD's schema prunes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kinformer.testing.resources import ResourceType
from kinformer.testing.status import StatusError, bad_request, cause, invalid

__all__ = ["check_kind", "check_object", "prune"]

Object = dict[str, Any]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_PATH_NAMES = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}  # any path segment will do
_MICRO_TIMES = ("acquireTime", "renewTime")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def check_kind(resource: ResourceType, obj: Object) -> None:
    """The apiVersion and kind of a body against its path; fills in what a built-in body may leave out."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if resource.builtin:
        api_version = obj.setdefault("apiVersion", resource.api_version)
        kind = obj.setdefault("kind", resource.kind)
    if not kind or not api_version:
        missing = "Kind" if not kind else "apiVersion"
        raise bad_request(f"Object '{missing}' is missing in the body")
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if kind == resource.kind:
        return
    if resource.builtin:
        package = resource.group.partition(".")[0] or "core"
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: converting'
            f" ({resource.version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
        )
    name = (obj.get("metadata") or {}).get("name", "")
    text = f'Invalid value: "{kind}": must be {resource.kind}'
    raise invalid(resource.group, resource.kind, name, [cause("FieldValueInvalid", text, "kind")])


def check_object(resource: ResourceType, obj: Object) -> None:
    """Validates what is checked here of an object. A 422 (for a time that is none, 400) `StatusError`."""
    causes = [*_name_causes(resource, obj), *_spec_causes(resource, obj)]
    if causes:
        raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), causes)
    if resource.kind == "Lease" and resource.builtin:
        _check_times(resource, obj.get("spec") or {})


def _name_causes(resource: ResourceType, obj: Object) -> list[dict[str, str]]:
    name = obj["metadata"].get("name", "")
    if resource.builtin and resource.plural in _PATH_NAMES:
        return []
    label = resource.kind == "Namespace" and resource.builtin
    pattern, text = (_LABEL, _LABEL_TEXT) if label else (_SUBDOMAIN, _SUBDOMAIN_TEXT)
    if not pattern.fullmatch(name):
        return [cause("FieldValueInvalid", f'Invalid value: "{name}": {text}', "metadata.name")]
    longest = 63 if label else 253
    if len(name) > longest:
        return [cause("FieldValueTooLong", f"Too long: may not be more than {longest} bytes", "metadata.name")]
    return []


def _spec_causes(resource: ResourceType, obj: Object) -> list[dict[str, str]]:
    if not resource.builtin:
        return []
    if resource.kind == "Pod":
        return _pod_causes(obj.get("spec") or {}, "spec")
    if resource.kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet") and resource.group == "apps":
        spec = obj.get("spec") or {}
        template = spec.get("template") or {}
        causes = _pod_causes(template.get("spec") or {}, "spec.template.spec")
        if not spec.get("selector"):
            causes.insert(0, cause("FieldValueRequired", "Required value", "spec.selector"))
        return causes
    if resource.kind == "CustomResourceDefinition":
        return _crd_causes(obj.get("spec") or {}, obj["metadata"].get("name", ""))
    return []


def _pod_causes(spec: Mapping[str, Any], field: str) -> list[dict[str, str]]:
    containers = spec.get("containers")
    if not containers:
        return [cause("FieldValueRequired", "Required value", f"{field}.containers")]
    causes = []
    for index, container in enumerate(containers):
        at = f"{field}.containers[{index}]"
        if not container.get("name"):
            causes.append(cause("FieldValueRequired", "Required value", f"{at}.name"))
        if not container.get("image"):
            causes.append(cause("FieldValueRequired", "Required value", f"{at}.image"))
    return causes


def _crd_causes(spec: Mapping[str, Any], name: str) -> list[dict[str, str]]:
    names = spec.get("names") or {}
    causes = []
    for field, value in (
        ("spec.group", spec.get("group")),
        ("spec.scope", spec.get("scope")),
        ("spec.versions", spec.get("versions")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
    ):
        if not value:
            causes.append(cause("FieldValueRequired", "Required value", field))
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if not causes and name != expected:
        text = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        causes.append(cause("FieldValueInvalid", text, "metadata.name"))
    return causes


def _check_times(resource: ResourceType, spec: Mapping[str, Any]) -> None:
    for field in _MICRO_TIMES:
        value = spec.get(field)
        if value is not None and not _MICRO_TIME.fullmatch(str(value)):
            layout = "2006-01-02T15:04:05.000000Z07:00"
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: parsing time'
                f' "{value}" as "{layout}": cannot parse "{value}" as "2006"'
            )


def prune(resource: ResourceType, obj: Object) -> list[str]:
    """Takes out of a custom resource what its schema does not know, in place; the paths of what was taken out."""
    schema = resource.schema
    if resource.builtin or not schema:
        return []
    unknown: list[str] = []
    for name in list(obj):
        if name in ("apiVersion", "kind", "metadata"):
            continue
        properties = schema.get("properties") or {}
        if name in properties:
            _prune(obj[name], properties[name], name, unknown)
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            unknown.append(name)
            del obj[name]
    return unknown


def _prune(value: Any, schema: Mapping[str, Any], path: str, unknown: list[str]) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, Mapping):
            for index, item in enumerate(value):
                _prune(item, items, f"{path}[{index}]", unknown)
        return
    if not isinstance(value, dict) or schema.get("x-kubernetes-embedded-resource"):
        return
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name in list(value):
        if name in properties:
            _prune(value[name], properties[name], f"{path}.{name}", unknown)
        elif isinstance(additional, Mapping):
            _prune(value[name], additional, f"{path}.{name}", unknown)
        elif not additional and not schema.get("x-kubernetes-preserve-unknown-fields"):
            unknown.append(f"{path}.{name}")
            del value[name]


def strict_error(resource: ResourceType, unknown: list[str]) -> StatusError:
    """What fieldValidation=Strict answers to unknown fields."""
    fields = ", ".join(f'unknown field "{path}"' for path in unknown)
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: strict decoding'
        f" error: {fields}"
    )
