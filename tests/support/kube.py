"""Kubernetes objects for tests: as documents that a server is given, and as the objects that a source gives."""

from __future__ import annotations

from typing import Any

from kinformer import KubeObject


def config_map(
    name: str = "a",
    *,
    namespace: str = "default",
    rv: int | str | None = None,
    uid: str | None = None,
    data: dict[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """Return a ConfigMap as it is created; with `rv` as a server gives it, with a uid and a resourceVersion."""
    data = {"v": str(rv or 1)} if data is None else data
    metadata = _metadata(name, namespace, rv, uid, metadata)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(
    name: str = "a",
    *,
    namespace: str = "default",
    node: str | None = None,
    phase: str | None = "Running",
    owner: str | None = None,
    rv: int | str | None = None,
    uid: str | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """Return a Pod with one container, as it is created; with `rv` as a server gives it.

    `owner` is the name of the ReplicaSet that controls it.
    """
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}"}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, namespace, rv, uid, metadata),
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    }
    document["spec"] |= ({"nodeName": node} if node else {}) | (spec or {})
    if phase == "Running":
        ready = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}
        document["status"] = {"phase": phase, "containerStatuses": [ready]}
    elif phase:
        document["status"] = {"phase": phase}
    if status:
        document["status"] = document.get("status", {}) | status
    return document


def entry(name: str = "a", *, rv: int | str = 1, **fields: Any) -> KubeObject:
    """Return the object of a ConfigMap, as a source gives it."""
    return KubeObject.from_dict(config_map(name, rv=rv, **fields))


def _metadata(name: str, namespace: str, rv: int | str | None, uid: str | None, more: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if rv is not None:
        metadata |= {"uid": uid or f"uid-{namespace}-{name}", "resourceVersion": str(rv)}
    elif uid is not None:
        metadata["uid"] = uid
    return metadata | {field: value for field, value in more.items() if value}


ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema that any object fits."""


def widget_definition(
    schema: dict[str, Any] = ANYTHING, *, names: dict[str, Any] | None = None, **version: Any
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of the Widgets of example.com/v1."""
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", **(names or {})},
            "versions": [served],
        },
    }


def widget(name: str = "a", *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """Return a Widget as it is created."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}
