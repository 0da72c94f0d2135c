"""The spellings of kinds and resources, with the names of the built-in ones.

A resource is `"v1/pods"` or `"apps/v1/deployments"`. A kind is `"Deployment"`, `"apps/Deployment"`,
`"apps/v1/Deployment"` or, in the core group, `"v1/Service"`. What takes one of them and gets another name of the same
says in its error which one is meant: `meanings` and `resource_hint` find it.
"""

from __future__ import annotations

import re

__all__ = ["CLUSTER_SCOPED", "GROUPS", "KINDS", "is_core_version", "meanings", "parts_of", "plural_of", "resource_hint"]

_CORE_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")

# By group, with the short names of their resources. A star marks a kind without namespaces. A test compares them with
# the discovery of a kube-apiserver.
_TABLE = {
    "": "*ComponentStatus=cs ConfigMap=cm Endpoints=ep Event=ev LimitRange=limits *Namespace=ns *Node=no "
    "*PersistentVolume=pv PersistentVolumeClaim=pvc Pod=po PodTemplate ReplicationController=rc ResourceQuota=quota "
    "Secret Service=svc ServiceAccount=sa",
    "admissionregistration.k8s.io": "*MutatingAdmissionPolicy *MutatingAdmissionPolicyBinding "
    "*MutatingWebhookConfiguration *ValidatingAdmissionPolicy *ValidatingAdmissionPolicyBinding "
    "*ValidatingWebhookConfiguration",
    "apiextensions.k8s.io": "*CustomResourceDefinition=crd=crds",
    "apiregistration.k8s.io": "*APIService",
    "apps": "ControllerRevision DaemonSet=ds Deployment=deploy ReplicaSet=rs StatefulSet=sts",
    "autoscaling": "HorizontalPodAutoscaler=hpa",
    "batch": "CronJob=cj Job",
    "certificates.k8s.io": "*CertificateSigningRequest=csr",
    "coordination.k8s.io": "Lease",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event=ev",
    "flowcontrol.apiserver.k8s.io": "*FlowSchema *PriorityLevelConfiguration",
    "networking.k8s.io": "Ingress=ing *IngressClass *IPAddress=ip NetworkPolicy=netpol *ServiceCIDR",
    "node.k8s.io": "*RuntimeClass",
    "policy": "PodDisruptionBudget=pdb",
    "rbac.authorization.k8s.io": "*ClusterRole *ClusterRoleBinding Role RoleBinding",
    "resource.k8s.io": "*DeviceClass ResourceClaim ResourceClaimTemplate *ResourceSlice",
    "scheduling.k8s.io": "*PriorityClass=pc",
    "storage.k8s.io": "*CSIDriver *CSINode CSIStorageCapacity *StorageClass=sc *VolumeAttachment "
    "*VolumeAttributesClass=vac",
}


def is_core_version(text: str) -> bool:
    """Return True if a text looks like a version of an API, such as `"v1"` or `"v1beta1"`."""
    return _CORE_VERSION.fullmatch(text) is not None


def plural_of(kind: str) -> str:
    """Return the probable resource of a kind (apimachinery, pkg/api/meta/restmapper.go, UnsafeGuessKindToResource)."""
    singular = kind.lower()
    if singular.endswith("endpoints"):
        return singular
    if singular.endswith("s"):
        return f"{singular}es"
    return f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"


GROUPS = frozenset(_TABLE)
"""The groups of the built-in kinds. The core group is ""."""

_NAMES = [(group, *names.strip("*").split("=")) for group, row in _TABLE.items() for names in row.split()]

KINDS = {(group, plural_of(kind)): kind for group, kind, *_ in _NAMES}
"""The built-in kinds by group and resource."""

CLUSTER_SCOPED = {names[1:].partition("=")[0] for row in _TABLE.values() for names in row.split() if names[0] == "*"}
"""The built-in kinds whose objects are in no namespace."""


def meanings(text: str) -> list[tuple[str, str]]:
    """Return group and kind of each built-in resource that a name in any form may mean, or none.

    A name of the given group goes before one of others: `"v1/deploy"` can only mean that of apps.
    """
    group, _, name = parts_of(text)
    lowered = name.lower()
    named = [(own, kind) for own, kind, *short in _NAMES if lowered in (kind.lower(), plural_of(kind), *short)]
    if group is not None and group not in GROUPS:  # custom resources may have the same names
        return []
    return [own for own in named if own[0] == group] or named


def resource_hint(text: str) -> str:
    """Return the end of an error about a name that is not of a resource: what is probably meant, or ""."""
    group, version, name = parts_of(text)
    meant = [f"{own}/{version or 'v1'}/{plural_of(kind)}".lstrip("/") for own, kind in meanings(text)]
    if not meant and _NAME.fullmatch(name):
        plural = plural_of(name) if name[0].isupper() else name
        meant = [f"{'GROUP' if group is None else group}/{version or 'VERSION'}/{plural}".lstrip("/")]
    return f"; the resource of {name} is {' or '.join(meant)}" if meant and meant != [text] else ""


def parts_of(text: str) -> tuple[str | None, str | None, str]:
    """Return group, version and name, of which the first two may be missing. What follows the name is left out."""
    first, *others = text.split("/")
    if not others:  # as for kubectl: deployments.apps, deployments.v1.apps
        name, dot, group = first.partition(".")
        version, _, rest = group.partition(".")
        return (rest, version, name) if is_core_version(version) else (group if dot else None, None, name)
    if is_core_version(first):
        return "", first, others[0]
    return (first, others[0], others[1]) if len(others) > 1 else (first, None, others[0])
