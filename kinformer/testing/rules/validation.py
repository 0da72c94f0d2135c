"""Decodes and validates a body: its kind against the path, and its types, names and fields."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from kinformer.apiserver.status import StatusError, bad_request, cause, internal, invalid
from kinformer.testing.codec.typed import UnmarshalError, conform
from kinformer.testing.kinds.builtin_schemas import object_meta, recorded
from kinformer.testing.kinds.builtins import SENT_KINDS
from kinformer.testing.kinds.crd_files import DEFINITIONS
from kinformer.testing.kinds.resources import ResourceType, group_version
from kinformer.testing.rules.apply_errors import apply_errors
from kinformer.testing.rules.builtin.kind_rules import kind_causes
from kinformer.testing.rules.crd_rules import unrecognized_formats
from kinformer.testing.rules.custom_rules import (
    ABSENT,
    blocks_rules,
    fill_defaults,
    prune,
    prune_nulls,
    schema_causes,
)
from kinformer.testing.rules.embedded_rules import coerce_embedded
from kinformer.testing.rules.expression_rules import value_rule_causes
from kinformer.testing.rules.metadata_rules import metadata_causes
from kinformer.testing.rules.subresource_rules import subresource_causes
from kinformer.testing.store.forms import copied

__all__ = ["check_applied", "check_kind", "check_object", "decode", "strict_error"]

Object = dict[str, Any]

_SHOWN = 1024  # characters of a body that an error quotes


def cannot_handle(resource: ResourceType, text: str) -> StatusError:
    """Return a 400 for a body that cannot be decoded as this kind."""
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {text}'
    )


def check_kind(resource: ResourceType, obj: Object) -> None:
    """Check the apiVersion and kind of a body against the path, and add those that a built-in body may omit.

    Raises a 400 `StatusError`, or a 422 for another kind in the group of a custom resource.
    """
    api_version, kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(value, str):
            message = f"json: cannot unmarshal number into Go struct field .{name} of type string"
            raise unrecognized(resource.kind, message, json.dumps(obj))
    if resource.builtin:
        api_version = obj["apiVersion"] = api_version or resource.api_version
        kind = obj["kind"] = kind or resource.kind
    elif not kind:
        document = json.dumps(obj)
        start = f"{document[:30]} ..." if len(document) > 30 else document
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object 'Kind' is missing in"
            f" '{document}' ({start})"
        )
    if api_version == resource.api_version and kind == resource.kind:
        return
    if resource.builtin:
        raise _not_registered(resource, api_version, kind)
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    name = (obj.get("metadata") or {}).get("name", "")
    message = f'Invalid value: "{kind}": must be {resource.kind}'
    raise invalid(resource.group, kind, name, [cause("FieldValueInvalid", message, "kind")])


def check_applied(resource: ResourceType, applied: Object) -> None:
    """Check an apply configuration: its kind, no managedFields, and its type. Raises a 400 or 500 `StatusError`."""
    api_version, kind = applied.get("apiVersion") or "", applied.get("kind") or ""
    if (api_version, kind) != (resource.api_version, resource.kind):
        shown = api_version if "/" in str(api_version) else f"/{api_version}"
        raise bad_request(f"invalid object type: {shown}, Kind={kind}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        raise bad_request("metadata.managedFields must be nil")
    wrong = apply_errors(resource.node, applied) if resource.builtin or resource.schema else ""
    if wrong:
        shown = resource.api_version if resource.group else f"/{resource.version}"
        metadata = metadata if isinstance(metadata, dict) else {}
        who = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {shown}, Kind={kind}"
        raise internal(f"failed to create typed patch object ({who}): {wrong}")


def _not_registered(resource: ResourceType, api_version: str, kind: str) -> StatusError:
    version = api_version.rpartition("/")[2]
    package = resource.group.partition(".")[0] or "core"
    if (api_version, kind) in known_kinds():
        return bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: converting'
            f" ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
        )
    return bad_request(
        f'{kind} in version "{version}" cannot be handled as a {resource.kind}: no kind "{kind}" is registered for'
        f' version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
    )


@cache
def known_kinds() -> frozenset[tuple[str, str]]:
    """Return (apiVersion, kind) of all built-in kinds, including those that are only sent to a subresource."""
    served = [(row["group"], row["version"], row["kind"]) for row in recorded()["resources"]]
    sent = [(group, version, kind) for kind, (group, version, _) in SENT_KINDS.items()]
    return frozenset((group_version(group, version), kind) for group, version, kind in (*served, *sent))


def unrecognized(kind: str, error: str, body: str) -> StatusError:
    """Return a 400 for a body without a kind."""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error:"
        f" {error} ({body[:_SHOWN]})"
    )


def decode(resource: ResourceType, body: Object, *, applied: bool = False) -> tuple[Object, list[str]]:
    """Decode an object as the server does, and return the paths of unknown fields. Raises a 400 `StatusError`.

    The nulls of an applied custom resource are kept, and its schema refuses them.
    """
    try:
        if resource.builtin:
            return conform(resource.node, body)
        metadata = body.get("metadata")
        if metadata is None:
            metadata = {}
        decoded, unknown = conform(object_meta(), metadata)
    except UnmarshalError as error:
        raise cannot_handle(resource, str(error)) from None
    obj = copied({**body, "metadata": {}})
    obj["metadata"] = decoded
    unknown = [f"metadata.{path}" for path in unknown]
    schema = resource.schema
    if schema:
        unknown += prune(schema, obj)
        if not applied:
            prune_nulls(schema, obj)
        try:
            unknown += coerce_embedded(schema, obj)
        except UnmarshalError as error:
            raise cannot_handle(resource, str(error)) from None
        fill_defaults(schema, obj)
    return obj, unknown


def strict_error(resource: ResourceType, texts: list[str]) -> StatusError:
    """Return the error of fieldValidation=Strict for unknown and duplicate fields."""
    return cannot_handle(resource, f"strict decoding error: {', '.join(texts)}")


def check_object(
    resource: ResourceType,
    obj: Object,
    old: Object | None = None,
    *,
    subresource: str = "",
    warnings: list[str] | None = None,
) -> None:
    """Validate an object. `old` is the object before an update. Raises a 422 `StatusError`.

    `warnings` collects rule violations that existed before.
    """
    causes = metadata_causes(resource, obj["metadata"], None if old is None else old["metadata"])
    if resource.builtin:
        if not subresource:
            causes += kind_causes(resource.group, resource.kind, obj, old)
        elif old is not None:
            causes += subresource_causes(resource.kind, subresource, obj, old)
    elif resource.schema and subresource == "status":
        below = (resource.schema.get("properties") or {}).get("status")
        if below and "status" in obj:
            before = ABSENT if old is None else old.get("status", ABSENT)
            wrong = schema_causes(below, obj["status"], "", old=before)
            causes += [{**error, "field": f"status.{error['field']}"} for error in wrong]
    elif resource.schema:
        causes += schema_causes(resource.schema, obj, "", old=ABSENT if old is None else old)
    if resource.schema and not resource.builtin and not blocks_rules(causes):
        causes += value_rule_causes(resource.schema, obj, old, warnings)
    if causes:
        # The events of both groups are one kind.
        group = "" if resource.builtin and resource.kind == "Event" else resource.group
        raise invalid(group, resource.kind, obj["metadata"].get("name", ""), causes)
    if warnings is not None and resource.name == DEFINITIONS and not subresource:
        before = unrecognized_formats(old) if old is not None else []
        warnings += [f'unrecognized format "{name}"' for name in unrecognized_formats(obj) if name not in before]
