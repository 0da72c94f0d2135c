"""The built-in kinds of kube-apiserver v1.36 that the embedded server serves, as its discovery lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kinformer.testing.conversion import core_event, events_k8s_event
from kinformer.testing.resources import ResourceType, Subresource

__all__ = ["builtin_types"]

_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)
_WITHOUT_COLLECTION = ("create", "delete", "get", "list", "patch", "update", "watch")

# Bookmarks of typed objects carry the zero values that Go does not omit (endpoints/handlers/watch.go).
_TEMPLATE = b'{"metadata":{},"spec":{"containers":null}}'
_SKELETONS: Mapping[str, bytes] = {
    "pods": b'"spec":{"containers":null},"status":{}',
    "nodes": b'"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"",'
    b'"systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"",'
    b'"kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}',
    "namespaces": b'"spec":{},"status":{}',
    "services": b'"spec":{},"status":{"loadBalancer":{}}',
    "persistentvolumes": b'"spec":{},"status":{}',
    "persistentvolumeclaims": b'"spec":{"resources":{}},"status":{}',
    "events": b'"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,'
    b'"reportingComponent":"","reportingInstance":""',
    "apps/deployments": b'"spec":{"selector":null,"template":' + _TEMPLATE + b',"strategy":{}},"status":{}',
    "apps/replicasets": b'"spec":{"selector":null,"template":' + _TEMPLATE + b'},"status":{"replicas":0}',
    "apps/statefulsets": b'"spec":{"selector":null,"template":' + _TEMPLATE + b',"serviceName":"",'
    b'"updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}',
    "apps/daemonsets": b'"spec":{"selector":null,"template":' + _TEMPLATE + b',"updateStrategy":{}},"status":'
    b'{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}',
    "batch/jobs": b'"spec":{"template":' + _TEMPLATE + b'},"status":{}',
    "batch/cronjobs": b'"spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":'
    + _TEMPLATE
    + b'}}},"status":{}',
    "coordination.k8s.io/leases": b'"spec":{}',
    "discovery.k8s.io/endpointslices": b'"addressType":"","endpoints":null,"ports":null',
    "networking.k8s.io/ingresses": b'"spec":{},"status":{"loadBalancer":{}}',
    "networking.k8s.io/networkpolicies": b'"spec":{"podSelector":{}}',
    "policy/poddisruptionbudgets": b'"spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,'
    b'"desiredHealthy":0,"expectedPods":0}',
    "autoscaling/horizontalpodautoscalers": b'"spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},'
    b'"status":{"desiredReplicas":0,"currentMetrics":null}',
    "storage.k8s.io/storageclasses": b'"provisioner":""',
    "rbac.authorization.k8s.io/roles": b'"rules":null',
    "rbac.authorization.k8s.io/clusterroles": b'"rules":null',
    "rbac.authorization.k8s.io/rolebindings": b'"roleRef":{"apiGroup":"","kind":"","name":""}',
    "rbac.authorization.k8s.io/clusterrolebindings": b'"roleRef":{"apiGroup":"","kind":"","name":""}',
    "apiextensions.k8s.io/customresourcedefinitions": b'"spec":{"group":"","names":{"plural":"","kind":""},'
    b'"scope":"","versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},'
    b'"storedVersions":null}',
}


def _paths(*labels: str) -> dict[str, tuple[str, ...]]:
    return {label: tuple(label.split(".")) for label in labels}


# Field labels beside metadata.name and metadata.namespace (pkg/apis/core/v1/conversion.go and its like).
_SELECTABLE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "pods": _paths(
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
        **_paths(*(f"involvedObject.{one}" for one in ("kind", "namespace", "name", "uid", "apiVersion"))),
        **_paths("involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "type"),
        "source": ("source", "component"),
    },
    "apps/replicasets": _paths("status.replicas"),
    "batch/jobs": {"status.successful": ("status", "succeeded")},
    "certificates.k8s.io/certificatesigningrequests": _paths("spec.signerName"),
}
_GENERATION = {
    "pods",
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
}

_SCALE = Subresource("scale", "Scale", group="autoscaling", version="v1")
_BINDING = Subresource("binding", "Binding", verbs=("create",))
_EVICTION = Subresource("eviction", "Eviction", verbs=("create",), group="policy", version="v1")

# group, version -> rows of (plural, kind, short names, categories, subresources); a trailing "*" marks cluster scope.
_ROWS: tuple[tuple[str, str, tuple[tuple[str, str, str, tuple[str, ...], str], ...]], ...] = (
    (
        "",
        "v1",
        (
            ("configmaps", "ConfigMap", "cm", (), ""),
            ("endpoints", "Endpoints", "ep", (), ""),
            ("events", "Event", "ev", (), ""),
            ("limitranges", "LimitRange", "limits", (), ""),
            ("namespaces*", "Namespace", "ns", (), "finalize status"),
            ("nodes*", "Node", "no", (), "status"),
            ("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", (), "status"),
            ("persistentvolumes*", "PersistentVolume", "pv", (), "status"),
            ("pods", "Pod", "po", _ALL, "binding ephemeralcontainers eviction resize status"),
            ("podtemplates", "PodTemplate", "", (), ""),
            ("replicationcontrollers", "ReplicationController", "rc", _ALL, "scale status"),
            ("resourcequotas", "ResourceQuota", "quota", (), "status"),
            ("secrets", "Secret", "", (), ""),
            ("serviceaccounts", "ServiceAccount", "sa", (), ""),
            ("services", "Service", "svc", _ALL, "status"),
        ),
    ),
    (
        "apps",
        "v1",
        (
            ("controllerrevisions", "ControllerRevision", "", (), ""),
            ("daemonsets", "DaemonSet", "ds", _ALL, "status"),
            ("deployments", "Deployment", "deploy", _ALL, "scale status"),
            ("replicasets", "ReplicaSet", "rs", _ALL, "scale status"),
            ("statefulsets", "StatefulSet", "sts", _ALL, "scale status"),
        ),
    ),
    ("events.k8s.io", "v1", (("events", "Event", "ev", (), ""),)),
    (
        "autoscaling",
        "v2",
        (("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", _ALL, "status"),),
    ),
    ("batch", "v1", (("cronjobs", "CronJob", "cj", _ALL, "status"), ("jobs", "Job", "", _ALL, "status"))),
    (
        "certificates.k8s.io",
        "v1",
        (("certificatesigningrequests*", "CertificateSigningRequest", "csr", (), "approval status"),),
    ),
    (
        "networking.k8s.io",
        "v1",
        (
            ("ingressclasses*", "IngressClass", "", (), ""),
            ("ingresses", "Ingress", "ing", (), "status"),
            ("networkpolicies", "NetworkPolicy", "netpol", (), ""),
        ),
    ),
    ("policy", "v1", (("poddisruptionbudgets", "PodDisruptionBudget", "pdb", (), "status"),)),
    (
        "rbac.authorization.k8s.io",
        "v1",
        (
            ("clusterrolebindings*", "ClusterRoleBinding", "", (), ""),
            ("clusterroles*", "ClusterRole", "", (), ""),
            ("rolebindings", "RoleBinding", "", (), ""),
            ("roles", "Role", "", (), ""),
        ),
    ),
    (
        "storage.k8s.io",
        "v1",
        (
            ("csidrivers*", "CSIDriver", "", (), ""),
            ("csinodes*", "CSINode", "", (), ""),
            ("storageclasses*", "StorageClass", "sc", (), ""),
            ("volumeattachments*", "VolumeAttachment", "", (), "status"),
        ),
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        (
            ("mutatingwebhookconfigurations*", "MutatingWebhookConfiguration", "", _EXTENSIONS, ""),
            ("validatingwebhookconfigurations*", "ValidatingWebhookConfiguration", "", _EXTENSIONS, ""),
        ),
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        (("customresourcedefinitions*", "CustomResourceDefinition", "crd,crds", _EXTENSIONS, "status"),),
    ),
    ("scheduling.k8s.io", "v1", (("priorityclasses*", "PriorityClass", "pc", (), ""),)),
    ("coordination.k8s.io", "v1", (("leases", "Lease", "", (), ""),)),
    ("node.k8s.io", "v1", (("runtimeclasses*", "RuntimeClass", "", (), ""),)),
    ("discovery.k8s.io", "v1", (("endpointslices", "EndpointSlice", "", (), ""),)),
)


def _subresource(name: str, kind: str) -> Subresource:
    special = {"scale": _SCALE, "binding": _BINDING, "eviction": _EVICTION}
    if name in special:
        return special[name]
    return Subresource(name, kind, verbs=("update",) if name == "finalize" else ("get", "patch", "update"))


def _build(group: str, version: str, row: tuple[str, str, str, tuple[str, ...], str], **more: Any) -> ResourceType:
    plural, kind, short_names, categories, subresources = row
    namespaced = not plural.endswith("*")
    plural = plural.rstrip("*")
    name = f"{group}/{plural}" if group else plural
    return ResourceType(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        short_names=tuple(short_names.split(",")) if short_names else (),
        categories=categories,
        verbs=_WITHOUT_COLLECTION
        if name == "namespaces"
        else ("create", "delete", "deletecollection", *_WITHOUT_COLLECTION[2:]),
        subresources=tuple(_subresource(one, kind) for one in subresources.split()),
        generation=name in _GENERATION,
        create_on_update=name in _CREATE_ON_UPDATE,
        returns_deleted=name in _RETURNS_DELETED,
        unconditional_update=name != "apiextensions.k8s.io/customresourcedefinitions",
        selectable=_SELECTABLE.get(name, {}),
        skeleton=_SKELETONS.get(name, b""),
        **more,
    )


def builtin_types() -> list[ResourceType]:
    """A fresh list of the built-in kinds."""
    types: list[ResourceType] = []
    for group, version, rows in _ROWS:
        for row in rows:
            if group == "events.k8s.io":  # one store, two faces (pkg/apis/events/v1/conversion.go)
                conversions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
                    "to_storage": core_event,
                    "from_storage": events_k8s_event,
                }
                types.append(_build(group, version, row, storage_name="events", storage_version="v1", **conversions))
            else:
                types.append(_build(group, version, row))
    return types
