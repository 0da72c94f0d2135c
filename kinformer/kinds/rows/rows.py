"""The table of rows: the function that makes the cells of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kinformer.kinds.rows import network, policy, storage, workloads
from kinformer.kinds.rows.cells import Row, age_of, count_at, name_of, plain_row, selector_of
from kinformer.objects.accessors import string_at, value_at
from kinformer.objects.types import Object

__all__ = ["ROWS", "default_row"]

ROWS: Mapping[str, Row] = {
    "Pod": workloads.pod,
    "PodTemplate": workloads.pod_template,
    "Deployment": workloads.deployment,
    "ReplicaSet": workloads.replica_set,
    "ReplicationController": workloads.replication_controller,
    "StatefulSet": workloads.stateful_set,
    "DaemonSet": workloads.daemon_set,
    "ControllerRevision": workloads.revision,
    "Job": workloads.job,
    "CronJob": workloads.cron_job,
    "Node": network.node,
    "Service": network.service,
    "Endpoints": network.endpoints,
    "EndpointSlice": network.endpoint_slice,
    "Ingress": network.ingress,
    "IngressClass": network.ingress_class,
    "NetworkPolicy": lambda obj: [name_of(obj), selector_of(value_at(obj, "spec", "podSelector")), age_of(obj)],
    "Event": network.event,
    "PersistentVolume": storage.volume,
    "PersistentVolumeClaim": storage.claim,
    "StorageClass": storage.storage_class,
    "HorizontalPodAutoscaler": policy.scaler,
    "PodDisruptionBudget": policy.budget,
    "PriorityClass": policy.priority_class,
    "ResourceQuota": policy.quota,
    "RoleBinding": policy.role_binding,
    "ClusterRoleBinding": policy.role_binding,
    "ConfigMap": lambda obj: [name_of(obj), count_at(obj, "data") + count_at(obj, "binaryData"), age_of(obj)],
    "Secret": lambda obj: [name_of(obj), string_at(obj, "type"), count_at(obj, "data"), age_of(obj)],
    "ServiceAccount": plain_row(),
    "Namespace": plain_row("status.phase"),
    "Lease": plain_row("spec.holderIdentity"),
    "RuntimeClass": plain_row("handler"),
    **dict.fromkeys(
        ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        lambda obj: [name_of(obj), count_at(obj, "webhooks"), age_of(obj)],
    ),
}
"""The functions by kind. No two groups have a kind of the same name but other columns."""

_DEFAULT: Mapping[str, Callable[[Object], str]] = {
    "Name": name_of,
    "Age": age_of,
    "Created At": lambda obj: string_at(obj, "metadata", "creationTimestamp"),
}


def default_row(names: Sequence[str]) -> Row:
    """Return a function that makes rows of a name, an age and a creation time, with `<unknown>` for the rest."""
    cells = [_DEFAULT.get(name, _unknown) for name in names]
    return lambda obj: [cell(obj) for cell in cells]


def _unknown(obj: Object) -> str:
    return "<unknown>"
