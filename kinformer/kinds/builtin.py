"""The kinds of the built-in resources in all their versions, and their scopes."""

from __future__ import annotations

import re

from kinformer.exceptions import ConfigError, ScopeError
from kinformer.objects.meta import GroupVersionResource, is_core_version, plural_of

__all__ = [
    "DefaultNamespace",
    "builtin_kind",
    "builtin_resource",
    "is_custom",
    "is_namespaced",
    "is_namespaced_kind",
    "parse_kind",
    "wrong_scope",
]

# By group. A test compares them with the discovery of a kube-apiserver.
_KINDS = {
    "": "ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim "
    "Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
    "admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
    "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
    "ValidatingWebhookConfiguration",
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "apiregistration.k8s.io": "APIService",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling": "HorizontalPodAutoscaler",
    "batch": "CronJob Job",
    "certificates.k8s.io": "CertificateSigningRequest",
    "coordination.k8s.io": "Lease",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
    "networking.k8s.io": "Ingress IngressClass IPAddress NetworkPolicy ServiceCIDR",
    "node.k8s.io": "RuntimeClass",
    "policy": "PodDisruptionBudget",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "resource.k8s.io": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "scheduling.k8s.io": "PriorityClass",
    "storage.k8s.io": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
}
_CLUSTER_SCOPED = (
    "APIService CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding ComponentStatus "
    "CustomResourceDefinition DeviceClass FlowSchema IPAddress IngressClass MutatingAdmissionPolicy "
    "MutatingAdmissionPolicyBinding MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass "
    "PriorityLevelConfiguration ResourceSlice RuntimeClass ServiceCIDR StorageClass ValidatingAdmissionPolicy "
    "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment VolumeAttributesClass"
)


_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")

# The groups of Kubernetes without kinds of a kube-apiserver, and those of its parts.
_GROUPS = frozenset(
    {
        *_KINDS,
        "authentication.k8s.io",
        "authorization.k8s.io",
        "internal.apiserver.k8s.io",
        "metrics.k8s.io",
        "storagemigration.k8s.io",
    }
)


class DefaultNamespace(str):
    """A namespace that is left out for a resource without namespaces."""

    __slots__ = ()


def is_custom(group: str) -> bool:
    """Return True if an API group is not one of Kubernetes itself, so that its objects are custom resources."""
    return group not in _GROUPS and not group.endswith(".metrics.k8s.io")


def is_namespaced(resource: str | GroupVersionResource) -> bool | None:
    """Return True if the objects of a resource are in namespaces, False if not, or None if it is not built in.

    Of other resources only discovery knows.

    Raises:
        ConfigError: The name is not a resource, such as `"v1/pods"`.
    """
    kind = builtin_kind(GroupVersionResource.parse(resource))
    return is_namespaced_kind(kind) if kind else None


def parse_kind(text: str, option: str) -> tuple[str | None, str]:
    """Return the API group and the kind of a text.

    It is `"Deployment"`, `"apps/Deployment"`, `"apps/v1/Deployment"` or `"v1/Service"`. The group is "" for the core
    group, whose spelling has its version, and None for a kind alone.

    Raises:
        ConfigError: It has no such form, or is the name of a resource. The message names `option`, and the kind.
    """
    *before, kind = text.split("/") if isinstance(text, str) else [""]
    is_whole = bool(_KIND.fullmatch(kind)) and all(before)
    if is_whole and not before:
        return None, kind
    if is_whole and len(before) == 1:
        return "" if is_core_version(before[0]) else before[0], kind
    if is_whole and len(before) == 2 and is_core_version(before[1]) and not is_core_version(before[0]):
        return before[0], kind
    known = sorted({one for (_, resource), one in _BY_RESOURCE.items() if resource == kind})
    hint = f"; the kind of {kind} is {' or '.join(known)}" if known else ""
    raise ConfigError(
        f"invalid {option}={text!r}: expected a kind such as 'Deployment', 'apps/Deployment' or 'v1/Service'{hint}"
    )


def wrong_scope(resource: GroupVersionResource, value: object, option: str = "namespace") -> ScopeError:
    """Return the error of a namespace that is given for a resource without namespaces."""
    return ScopeError(f"{option}={value!r} is given, but {resource} is cluster-scoped")


def builtin_kind(resource: GroupVersionResource) -> str:
    """Return the kind of a built-in resource, such as `"Pod"`, or "" for any other resource."""
    return _BY_RESOURCE.get((resource.group, resource.resource), "")


def builtin_resource(group: str, version: str, kind: str) -> GroupVersionResource | None:
    """Return the resource of a built-in kind, or None for any other kind."""
    return GroupVersionResource(group, version, plural_of(kind)) if kind in _KINDS.get(group, "").split() else None


def is_namespaced_kind(kind: str) -> bool:
    """True if the objects of a built-in kind are in namespaces."""
    return kind not in _CLUSTER_SCOPED.split()


_BY_RESOURCE = {(group, plural_of(kind)): kind for group, kinds in _KINDS.items() for kind in kinds.split()}
