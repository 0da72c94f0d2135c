"""The built-in kinds of kube-apiserver v1.36, as its discovery lists them, with the behaviour of their strategies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from kinformer.apiserver.selecting.fields import SELECTABLE, WITHOUT_NAMESPACE_LABEL
from kinformer.testing.kinds.builtin_schemas import builtin_node, recorded, type_of
from kinformer.testing.kinds.conversion import core_event, events_k8s_event, hpa_v1, hpa_v2
from kinformer.testing.kinds.resources import ResourceType, Subresource, group_version

__all__ = ["SENT_KINDS", "builtin_types", "sent_type"]

_GENERATION = {
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "apps/deployments",
    "apps/replicasets",
    "apps/statefulsets",
    "apps/daemonsets",
    "batch/jobs",
    "batch/cronjobs",
    "networking.k8s.io/ingresses",
    "networking.k8s.io/networkpolicies",
    "networking.k8s.io/ingressclasses",
    "policy/poddisruptionbudgets",
    "discovery.k8s.io/endpointslices",
    "scheduling.k8s.io/priorityclasses",
    "apiextensions.k8s.io/customresourcedefinitions",
    "flowcontrol.apiserver.k8s.io/flowschemas",
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
    "admissionregistration.k8s.io/validatingadmissionpolicies",
    "admissionregistration.k8s.io/validatingadmissionpolicybindings",
    "admissionregistration.k8s.io/mutatingadmissionpolicies",
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
    "resource.k8s.io/deviceclasses",
    "resource.k8s.io/resourceslices",
}
# Kinds for which a PUT without a resourceVersion is refused (AllowUnconditionalUpdate of the strategies).
_CONDITIONAL = {
    "apiextensions.k8s.io/customresourcedefinitions",
    "apiregistration.k8s.io/apiservices",
    "certificates.k8s.io/clustertrustbundles",
    "certificates.k8s.io/podcertificaterequests",
    "coordination.k8s.io/leases",
    "coordination.k8s.io/leasecandidates",
    "internal.apiserver.k8s.io/storageversions",
    "node.k8s.io/runtimeclasses",
    "policy/poddisruptionbudgets",
    "resource.k8s.io/resourcepoolstatusrequests",
    "storage.k8s.io/csidrivers",
    "storage.k8s.io/csinodes",
    "storage.k8s.io/csistoragecapacities",
    "storage.k8s.io/volumeattachments",
    "storagemigration.k8s.io/storageversionmigrations",
}
_CREATE_ON_UPDATE = {
    "events",
    "endpoints",
    "services",
    "limitranges",
    "podtemplates",
    "coordination.k8s.io/leases",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/rolebindings",
    "rbac.authorization.k8s.io/clusterrolebindings",
}
_RETURNS_DELETED = {
    "pods",
    "podtemplates",
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "storage.k8s.io/csidrivers",
    "storage.k8s.io/csinodes",
    "storage.k8s.io/storageclasses",
    "storage.k8s.io/volumeattachments",
    "storage.k8s.io/volumeattributesclasses",
}
# Versions that are stored as another version, with the conversions in both directions.
_STORED_AS: Mapping[str, Mapping[str, Any]] = {
    "events.k8s.io/v1/events": {
        "storage_name": "events",
        "storage_version": "v1",
        "to_storage": core_event,
        "from_storage": events_k8s_event,
    },
    "autoscaling/v1/horizontalpodautoscalers": {
        "storage_version": "autoscaling/v2",
        "to_storage": hpa_v2,
        "from_storage": hpa_v1,
    },
}


# Kinds that are sent to a subresource: their group, version and plural.
SENT_KINDS: Mapping[str, tuple[str, str, str]] = {
    "Binding": ("", "v1", "bindings"),
    "Eviction": ("policy", "v1", "evictions"),
    "Scale": ("autoscaling", "v1", "scales"),
    "TokenRequest": ("authentication.k8s.io", "v1", "tokenrequests"),
}


def _build(row: Mapping[str, Any]) -> ResourceType:
    group, version, plural = row["group"], row["version"], row["plural"]
    name = f"{group}/{plural}" if group else plural
    return ResourceType(
        group=group,
        version=version,
        plural=plural,
        kind=row["kind"],
        namespaced=row["namespaced"],
        singular=row["singular"],
        short_names=tuple(row.get("shortNames", ())),
        categories=tuple(row.get("categories", ())),
        verbs=tuple(row["verbs"]),
        subresources=tuple(
            Subresource(sub, kind, verbs=tuple(verbs), group=of, version=at)
            for sub, kind, of, at, verbs in row.get("subresources", ())
        ),
        generation=name in _GENERATION,
        create_on_update=name in _CREATE_ON_UPDATE,
        returns_deleted=name in _RETURNS_DELETED,
        unconditional_update=group != "admissionregistration.k8s.io" and name not in _CONDITIONAL,
        selectable=SELECTABLE.get(name, {}),
        selects_namespace=name not in WITHOUT_NAMESPACE_LABEL,
        node=builtin_node(row["type"]),
        **_STORED_AS.get(f"{group}/{version}/{plural}", {}),
    )


@cache
def sent_type(kind: str) -> ResourceType:
    """Return the type of an object that is sent to a subresource, and not stored. Raises KeyError if there is none."""
    group, version, plural = SENT_KINDS[kind]
    name = type_of(group_version(group, version), kind)
    return ResourceType(group=group, version=version, plural=plural, kind=kind, node=builtin_node(name))


def builtin_types() -> list[ResourceType]:
    """Return a new list of the built-in kinds."""
    return [_build(row) for row in recorded()["resources"]]
