"""The fields of built-in kinds that field selectors can name.

Selectors of `metadata.name` need no entry, and those of `metadata.namespace` only where they are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["SELECTABLE", "WITHOUT_NAMESPACE_LABEL", "FieldPaths"]

# Alternative paths of one value. The first non-empty one counts. Without a path the value is always empty.
FieldPaths = tuple[tuple[str, ...], ...]


def _paths(*labels: str) -> dict[str, FieldPaths]:
    return {label: (tuple(label.split(".")),) for label in labels}


# Field labels besides metadata.name and metadata.namespace. These are the ones that pkg/apis/*/v*/conversion.go
# converts, with the values of ToSelectableFields in pkg/registry. Others are unknown, even if a strategy has a value
# (ReplicaSet).
SELECTABLE: Mapping[str, Mapping[str, FieldPaths]] = {
    "pods": {"spec.host": (("spec", "nodeName"),), "status.podIPs": ()}
    | _paths(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": _paths("spec.unschedulable"),
    "namespaces": _paths("status.phase"),
    "secrets": _paths("type"),
    "services": _paths("spec.clusterIP", "spec.type"),
    "replicationcontrollers": _paths("status.replicas"),
    "events": {
        **_paths(*(f"involvedObject.{key}" for key in ("kind", "namespace", "name", "uid", "apiVersion"))),
        **_paths("involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "type"),
        "source": (("source", "component"), ("reportingComponent",)),
    },
    # Paths in the stored form, which is v1.
    "events.k8s.io/events": {
        **{f"regarding.{key}": (("involvedObject", key),) for key in ("kind", "namespace", "name", "uid")},
        **{f"regarding.{key}": (("involvedObject", key),) for key in ("apiVersion", "resourceVersion", "fieldPath")},
        **_paths("reason", "type"),
        "reportingController": (("reportingComponent",),),
    },
    "batch/jobs": {"status.successful": (("status", "succeeded"),)},
    "certificates.k8s.io/certificatesigningrequests": _paths("spec.signerName"),
    "resource.k8s.io/resourceslices": _paths("spec.nodeName", "spec.driver"),
}
WITHOUT_NAMESPACE_LABEL = {
    "nodes",
    "namespaces",
    "certificates.k8s.io/certificatesigningrequests",
    "resource.k8s.io/resourceslices",
}
