"""Converts a CustomResourceDefinition to the kinds that the server then serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.testing.kinds.builtin_schemas import object_meta
from kinformer.testing.kinds.resources import CUSTOM_VERBS, ResourceType, Subresource, version_priority
from kinformer.testing.kinds.schema import custom_node

__all__ = ["established_status", "schemas_of", "stored_versions", "types_of"]

Object = dict[str, Any]


def types_of(crd: Mapping[str, Any]) -> list[ResourceType]:
    """Return a `ResourceType` for each served version."""
    spec, versions = crd["spec"], crd["spec"]["versions"]
    storage = next((version["name"] for version in versions if version.get("storage")), versions[0]["name"])
    return [_type(spec, version, storage) for version in versions if version.get("served", True)]


def schemas_of(crd: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the schema of each version, served or not, by apiVersion."""
    spec = crd["spec"]
    return {
        f"{spec['group']}/{version['name']}": (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for version in spec["versions"]
    }


def _type(spec: Mapping[str, Any], version: Mapping[str, Any], storage: str) -> ResourceType:
    names, group = spec["names"], spec["group"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or None
    subresources = version.get("subresources") or {}
    kinds = []
    if "status" in subresources:
        kinds.append(Subresource("status", names["kind"]))
    if "scale" in subresources:
        kinds.append(Subresource("scale", "Scale", group="autoscaling", version="v1"))
    fields = [field["jsonPath"] for field in version.get("selectableFields") or []]
    return ResourceType(
        group=group,
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=CUSTOM_VERBS,
        subresources=tuple(kinds),
        builtin=False,
        unconditional_update=False,
        selectable={path.lstrip("."): (tuple(path.lstrip(".").split(".")),) for path in fields},
        selects_namespace=spec.get("scope") == "Namespaced",
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        node=custom_node(schema or {}, object_meta(), root=True),
        scale=subresources.get("scale"),
        schema=schema,
        storage_version=f"{group}/{storage}",
        deprecation=_deprecation(spec, version),
    )


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """Return the warning of a deprecated version (customresource_handler.go, `defaultDeprecationWarning`), or ""."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    served = [other["name"] for other in spec["versions"] if other.get("served") and not other.get("deprecated")]
    better = min([version["name"], *served], key=version_priority)
    group, kind = spec["group"], spec["names"]["kind"]
    instead = "" if better == version["name"] else f"; use {group}/{better} {kind}"
    return f"{group}/{version['name']} {kind} is deprecated{instead}"


def established_status(crd: Mapping[str, Any], now: str) -> Object:
    """Return the status of a CRD whose names are accepted and whose kinds are served."""
    spec = crd["spec"]
    names = dict(spec["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    conditions = (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    present = {condition["type"]: condition for condition in (crd.get("status") or {}).get("conditions") or []}
    return {
        "conditions": [
            present.get(kind)
            or {
                "type": kind,
                "status": "True",
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            }
            for kind, reason, message in conditions
        ],
        "acceptedNames": names,
        "storedVersions": stored_versions(crd),
    }


def stored_versions(crd: Mapping[str, Any]) -> list[str]:
    """Return the versions in which objects may be stored: those before, and the present one."""
    before = (crd.get("status") or {}).get("storedVersions") or []
    present = [version["name"] for version in crd["spec"].get("versions") or [] if version.get("storage")]
    return [*before, *(name for name in present if name not in before)]
