"""The columns of each kind, between its name and its age.

The columns are the same as in `kubectl get` (kubernetes, pkg/printers/internalversion/printers.go). Cells are computed
from the object, so that a watch can show each change without requesting a table from the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kinformer import KubeObject
from kinformer.cli.output import cells
from kinformer.cli.output.cells import Cell, age_at, length_of, ratio, text_at, value_at
from kinformer.cli.paths.json_path import JSONPath, split_outside_brackets
from kinformer.exceptions import DecodeError

__all__ = ["NAMES", "Column", "Order", "columns_of", "columns_of_definition", "custom_columns", "is_built_in"]

NAMES = frozenset(
    (
        *("NAME", "NAMESPACE", "NODE", "LABELS", "MESSAGE", "OBJECT", "CONTAINERS", "IMAGES", "SELECTOR", "HOSTS"),
        *("VOLUME", "HOLDER", "PROVISIONER", "ROLE", "REFERENCE", "STORAGECLASS", "USERS", "GROUPS", "GROUP", "KIND"),
        *("SERVICEACCOUNTS", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME", "TYPES", "ADDRESS"),
    )
)
"""The columns with names and sentences, which a narrow screen may cut. Numbers and statuses are never cut."""

Column = tuple[str, Cell]


def columns_of(group: str, kind: str, *, wide: bool = False) -> Sequence[Column]:
    """Return the columns of a kind without NAMESPACE and NAME. AGE, if present, is last.

    An unknown kind has a STATUS column with its `status.phase` or its `Ready` condition.

    Args:
        group, kind: The group and kind of the objects.
        wide: Add the columns of `-o wide`, after AGE.
    """
    columns = _KINDS.get((group, kind), _OTHER)
    return (*columns, *_WIDE.get((group, kind), ())) if wide else columns


def is_built_in(group: str, kind: str) -> bool:
    """Return True if this module defines the columns of a kind."""
    return (group, kind) in _KINDS


def columns_of_definition(definitions: Sequence[Mapping[str, Any]], *, wide: bool = False) -> Sequence[Column] | None:
    """Return the columns of a definition, or None if it has none.

    A column with an invalid path is empty, as in kubectl.

    Args:
        definitions: The `additionalPrinterColumns` of a version.
        wide: Add columns with a priority above 0.
    """
    shown = [one for one in definitions if wide or not one.get("priority")]
    return [
        (str(one.get("name", "")).upper(), cells.DefinedCell(str(one.get("jsonPath", "")), str(one.get("type", ""))))
        for one in shown
    ] or None


def custom_columns(text: str) -> Sequence[Column]:
    """Parse the columns of `-o custom-columns`: `NAME:.metadata.name,IMAGES:.spec.containers[*].image`.

    Raises:
        ValueError: There is no column, or one has no name, no path or an invalid path.
    """
    columns: list[Column] = []
    for part in split_outside_brackets(text):
        name, colon, path = part.partition(":")
        if not (name and colon and path):
            raise ValueError(f"{part!r} is not NAME:PATH, as in NODE:.spec.nodeName")
        columns.append((name, cells.PathCell(path)))
    return columns


_AGE: Column = ("AGE", age_at())
_OTHER: tuple[Column, ...] = (("STATUS", cells.any_status), _AGE)
_JUST_AGE: tuple[Column, ...] = (_AGE,)
_EVENT: tuple[Column, ...] = (
    ("LAST SEEN", cells.event_age),
    ("TYPE", text_at("type", "")),
    ("REASON", text_at("reason", "")),
    ("OBJECT", cells.event_object),
    ("MESSAGE", cells.event_message),
)

_KINDS: Mapping[tuple[str, str], tuple[Column, ...]] = {
    ("", "Pod"): (
        ("READY", cells.pod_ready),
        ("STATUS", cells.pod_status),
        ("RESTARTS", cells.pod_restarts),
        ("NODE", text_at("spec.nodeName")),
        _AGE,
    ),
    ("", "Node"): (
        ("STATUS", cells.node_status),
        ("ROLES", cells.node_roles),
        ("VERSION", text_at("status.nodeInfo.kubeletVersion", "")),
        _AGE,
    ),
    ("", "Namespace"): (("STATUS", cells.phase), _AGE),
    ("", "Service"): (
        ("TYPE", text_at("spec.type", "ClusterIP")),
        ("CLUSTER-IP", text_at("spec.clusterIP")),
        ("EXTERNAL-IP", cells.external_ip),
        ("PORT(S)", cells.service_ports),
        _AGE,
    ),
    ("", "ConfigMap"): (("DATA", length_of("data", "binaryData")), _AGE),
    ("", "Secret"): (("TYPE", text_at("type", "Opaque")), ("DATA", length_of("data")), _AGE),
    ("", "ServiceAccount"): _JUST_AGE,
    ("", "PersistentVolumeClaim"): (
        ("STATUS", cells.phase),
        ("VOLUME", text_at("spec.volumeName", "")),
        ("CAPACITY", text_at("status.capacity.storage", "")),
        ("STORAGECLASS", text_at("spec.storageClassName", "")),
        _AGE,
    ),
    ("", "PersistentVolume"): (
        ("CAPACITY", text_at("spec.capacity.storage", "")),
        ("RECLAIM POLICY", text_at("spec.persistentVolumeReclaimPolicy", "")),
        ("STATUS", cells.phase),
        ("STORAGECLASS", text_at("spec.storageClassName", "")),
        _AGE,
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("apps", "Deployment"): (
        ("READY", ratio("status.readyReplicas", "spec.replicas", missing=1)),
        ("UP-TO-DATE", text_at("status.updatedReplicas", 0)),
        ("AVAILABLE", text_at("status.availableReplicas", 0)),
        _AGE,
    ),
    ("apps", "ReplicaSet"): (
        ("DESIRED", text_at("spec.replicas", 1)),
        ("CURRENT", text_at("status.replicas", 0)),
        ("READY", text_at("status.readyReplicas", 0)),
        _AGE,
    ),
    ("apps", "StatefulSet"): (("READY", ratio("status.readyReplicas", "spec.replicas", missing=1)), _AGE),
    ("apps", "DaemonSet"): (
        ("DESIRED", text_at("status.desiredNumberScheduled", 0)),
        ("CURRENT", text_at("status.currentNumberScheduled", 0)),
        ("READY", text_at("status.numberReady", 0)),
        ("UP-TO-DATE", text_at("status.updatedNumberScheduled", 0)),
        ("AVAILABLE", text_at("status.numberAvailable", 0)),
        _AGE,
    ),
    ("batch", "Job"): (
        ("STATUS", cells.job_status),
        ("COMPLETIONS", ratio("status.succeeded", "spec.completions", missing=1)),
        ("DURATION", cells.job_duration),
        _AGE,
    ),
    ("batch", "CronJob"): (
        ("SCHEDULE", text_at("spec.schedule", "")),
        ("SUSPEND", text_at("spec.suspend", False)),
        ("ACTIVE", length_of("status.active")),
        ("LAST SCHEDULE", age_at("status.lastScheduleTime", "<none>")),
        _AGE,
    ),
    ("networking.k8s.io", "Ingress"): (
        ("CLASS", text_at("spec.ingressClassName")),
        ("HOSTS", cells.ingress_hosts),
        ("ADDRESS", cells.ingress_addresses),
        _AGE,
    ),
    ("coordination.k8s.io", "Lease"): (("HOLDER", text_at("spec.holderIdentity", "")), _AGE),
    ("storage.k8s.io", "StorageClass"): (("PROVISIONER", text_at("provisioner", "")), _AGE),
    ("rbac.authorization.k8s.io", "Role"): _JUST_AGE,
    ("rbac.authorization.k8s.io", "ClusterRole"): _JUST_AGE,
    ("rbac.authorization.k8s.io", "RoleBinding"): (("ROLE", text_at("roleRef.name", "")), _AGE),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (("ROLE", text_at("roleRef.name", "")), _AGE),
    ("policy", "PodDisruptionBudget"): (
        ("MIN AVAILABLE", text_at("spec.minAvailable", "N/A")),
        ("MAX UNAVAILABLE", text_at("spec.maxUnavailable", "N/A")),
        ("ALLOWED DISRUPTIONS", text_at("status.disruptionsAllowed", 0)),
        _AGE,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        ("GROUP", text_at("spec.group", "")),
        ("KIND", text_at("spec.names.kind", "")),
        _AGE,
    ),
    ("discovery.k8s.io", "EndpointSlice"): (
        ("ADDRESSTYPE", text_at("addressType", "")),
        ("ENDPOINTS", length_of("endpoints")),
        _AGE,
    ),
    ("", "Endpoints"): (("SUBSETS", length_of("subsets")), _AGE),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        (
            "REFERENCE",
            lambda obj: f"{value_at(obj, 'spec.scaleTargetRef.kind')}/{value_at(obj, 'spec.scaleTargetRef.name')}",
        ),
        ("MINPODS", text_at("spec.minReplicas", "<unset>")),
        ("MAXPODS", text_at("spec.maxReplicas", "")),
        ("REPLICAS", text_at("status.currentReplicas", 0)),
        _AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (("TYPES", cells.joined("spec.policyTypes")), _AGE),
}

_CONTAINERS: tuple[Column, ...] = (("CONTAINERS", cells.container_names()), ("IMAGES", cells.container_images()))
_SELECTOR: Column = ("SELECTOR", cells.selector_at())
_SUBJECTS: tuple[Column, ...] = (
    ("USERS", cells.subjects("User")),
    ("GROUPS", cells.subjects("Group")),
    ("SERVICEACCOUNTS", cells.subjects("ServiceAccount")),
)
_VOLUME_MODE: tuple[Column, ...] = (("VOLUMEMODE", text_at("spec.volumeMode", "<unset>")),)

_WIDE: Mapping[tuple[str, str], tuple[Column, ...]] = {
    ("", "Pod"): (
        ("IP", text_at("status.podIP")),
        ("NOMINATED NODE", text_at("status.nominatedNodeName")),
        ("READINESS GATES", cells.pod_gates),
    ),
    ("", "Node"): (
        ("INTERNAL-IP", cells.node_address("InternalIP")),
        ("EXTERNAL-IP", cells.node_address("ExternalIP")),
        ("OS-IMAGE", text_at("status.nodeInfo.osImage", "<unknown>")),
        ("KERNEL-VERSION", text_at("status.nodeInfo.kernelVersion", "<unknown>")),
        ("CONTAINER-RUNTIME", text_at("status.nodeInfo.containerRuntimeVersion", "<unknown>")),
    ),
    ("", "Service"): (("SELECTOR", cells.labels_at("spec.selector")),),
    ("", "PersistentVolumeClaim"): _VOLUME_MODE,
    ("", "PersistentVolume"): _VOLUME_MODE,
    ("apps", "Deployment"): (*_CONTAINERS, _SELECTOR),
    ("apps", "ReplicaSet"): (*_CONTAINERS, _SELECTOR),
    ("apps", "StatefulSet"): _CONTAINERS,
    ("apps", "DaemonSet"): (*_CONTAINERS, _SELECTOR),
    ("batch", "Job"): (*_CONTAINERS, _SELECTOR),
    ("batch", "CronJob"): (
        ("CONTAINERS", cells.container_names("spec.jobTemplate.spec.template")),
        ("IMAGES", cells.container_images("spec.jobTemplate.spec.template")),
        ("SELECTOR", cells.selector_at("spec.jobTemplate.spec.selector")),
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _SUBJECTS,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _SUBJECTS,
}


# The factors of a quantity's suffixes (apimachinery, pkg/api/resource/quantity.go).
_SUFFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0} | {
    suffix + binary: (1024.0 if binary else 1000.0) ** (power + 1)
    for power, suffix in enumerate("kMGTPE")
    for binary in ("", "i")
}
_SUFFIXES["Ki"] = 1024.0
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?)(n|u|m|k|[KMGTPE]i|[MGTPE])?")
_NUMBERS = re.compile(r"(\d+)")

Key = tuple[Any, ...]


class Order:
    """Orders objects by the value at a path.

    Objects without a value come first. Numbers and quantities are compared by value.

    Args:
        path: A path as in kubectl: `.metadata.creationTimestamp`, `{.status.phase}`.

    Raises:
        ValueError: The path is invalid.

    Attributes:
        path: The path.
        matched: True once an object had a value there. Until then, the path may be mistyped.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.matched = False
        self._path = JSONPath(path)

    def key(self, obj: KubeObject) -> Key:
        """Return the sort key of an object. Objects with equal values are ordered by namespace and name."""
        try:
            value = self._path.first(obj.to_dict())
        except DecodeError:
            value = None
        self.matched = self.matched or value is not None
        return (*_key(value), obj.namespace, obj.name)

    def sorted(self, objects: Sequence[KubeObject]) -> list[KubeObject]:
        """Return the objects in this order."""
        return sorted(objects, key=self.key)


def _key(value: Any) -> tuple[int, float, tuple[Any, ...]]:
    """Return a sort key for any value. Missing values come first, then numbers, then strings."""
    if value is None:
        return 0, 0.0, ()
    if isinstance(value, int | float):
        return 1, float(value), ()
    shown = str(value)
    if quantity := _QUANTITY.fullmatch(shown):
        return 1, float(quantity[1]) * _SUFFIXES[quantity[2] or ""], ()
    # web-9 precedes web-10: runs of digits are compared as numbers, and the text between them as strings.
    parts = _NUMBERS.split(shown)
    return 2, 0.0, tuple(int(part) if number % 2 else part for number, part in enumerate(parts))
