"""The kinds that the operators are for, and the objects of people."""

from __future__ import annotations

from typing import Any

GROUP = "example.com"


def definition(kind: str) -> dict[str, Any]:
    """Return the definition of a kind, with a status of its own."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def custom(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return an object of such a kind."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}


def names(objects: list[dict[str, Any]]) -> set[str]:
    """Return the names of objects."""
    return {obj["metadata"]["name"] for obj in objects}
