"""The kinds of the built-in resources of Kubernetes, in all their versions."""

from __future__ import annotations

from kinformer.objects.meta import GroupVersionResource

__all__ = ["builtin_kind"]

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


def builtin_kind(resource: GroupVersionResource) -> str:
    """Return the kind of a built-in resource, such as `"Pod"`, or "" for any other resource."""
    return _BY_RESOURCE.get((resource.group, resource.resource), "")


def _plural(kind: str) -> str:
    """Return the resource of a kind (apimachinery, pkg/api/meta/restmapper.go, UnsafeGuessKindToResource)."""
    singular = kind.lower()
    if singular.endswith("endpoints"):
        return singular
    if singular.endswith("s"):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"


_BY_RESOURCE = {(group, _plural(kind)): kind for group, kinds in _KINDS.items() for kind in kinds.split()}
