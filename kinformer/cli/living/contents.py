"""The content of generated objects, as small as their kind allows."""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["container", "content", "deployment", "node", "service", "timestamp"]

Object = dict[str, Any]


_CONDITIONS = {  # with the status of a node that is well, its reason and its message
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}
_SILENT = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")


def node(name: str, *, ready: str = "True", ago: float = 0.0) -> Object:
    """Return a node as its kubelet registers it (pkg/kubelet/kubelet_node_status.go), with a role.

    Args:
        name: Its name, with a number at the end.
        ready: The status of its condition Ready: "True", or "Unknown", as of its other conditions then.
        ago: Seconds since it has this status.
    """
    now, number = timestamp(ago), int(name.rpartition("-")[2])
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": message, **times}
        for kind, well in _CONDITIONS.items()
        for status, reason, message in [well if ready == "True" else _SILENT]
    ]
    capacity = {"cpu": "16", "memory": "65843312Ki", "pods": "110", "ephemeral-storage": "102350Mi"}
    capacity |= {"hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    allocatable = {**capacity, "memory": "65740912Ki", "ephemeral-storage": "96589578081"}
    identity = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    info = {
        "architecture": "amd64",
        "bootID": str(uuid.UUID(identity)),
        "containerRuntimeVersion": "containerd://2.1.0",
        "kernelVersion": "6.12.0",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.0",
        "machineID": identity,
        "operatingSystem": "linux",
        "osImage": "Debian GNU/Linux 13",
        "systemUUID": str(uuid.UUID(identity)),
    }
    addresses = [
        {"type": "InternalIP", "address": f"10.0.{number >> 8}.{number & 255}"},
        {"type": "Hostname", "address": name},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node-role.kubernetes.io/worker": "",
            },
        },
        "spec": {},
        "status": {
            "addresses": addresses,
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": conditions,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": info,
        },
    }


def deployment(namespace: str, name: str, replicas: int, labels: dict[str, str] | None = None) -> Object:
    """Return a Deployment, whose pods have these labels, or one of its name."""
    labels = labels or {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container(name)]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def service(namespace: str, name: str, labels: dict[str, str], port: Object) -> Object:
    """Return a Service with one port for the pods with these labels."""
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": [port]}}


def container(name: str) -> Object:
    """Return a container."""
    ports = [{"name": "http", "containerPort": 8080}]
    return {"name": "main", "image": f"registry.example/{name}:1.0", "ports": ports}


def _rolled_out() -> list[Object]:
    now = timestamp()
    reasons = {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
    return [
        {"type": kind, "status": "True", "reason": reason, "lastUpdateTime": now, "lastTransitionTime": now}
        for kind, reason in reasons.items()
    ]


def timestamp(ago: float = 0.0) -> str:
    """Return the time some seconds ago, as in the API."""
    return (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def content(kind: str, app: str) -> Object:
    """Return the content of an object besides its metadata for common kinds, or nothing for others."""
    main = {"name": "main", "image": f"registry.example/{app}:1.0"}
    template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [main]}}
    selected = {"selector": {"matchLabels": {"app": app}}, "template": template}
    workload = {"replicas": 3, **selected}
    once = {"template": {"spec": {"containers": [main], "restartPolicy": "Never"}}}
    running = {"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3}
    match kind:
        case "Deployment":
            return {"spec": workload, "status": {**running, "updatedReplicas": 3, "conditions": _rolled_out()}}
        case "ReplicaSet":
            return {"spec": workload, "status": {**running, "fullyLabeledReplicas": 3}}
        case "StatefulSet":
            return {"spec": workload, "status": {**running, "updatedReplicas": 3, "currentReplicas": 3}}
        case "DaemonSet":
            numbers = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled")
            ready = dict.fromkeys((*numbers, "numberReady", "numberAvailable"), 3)
            return {"spec": selected, "status": {"observedGeneration": 1, "numberMisscheduled": 0, **ready}}
        case "ReplicationController":
            return {"spec": {"selector": {"app": app}, "template": template}}
        case "Job":
            return {"spec": once}
        case "CronJob":
            return {"spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": once}}}
        case "HorizontalPodAutoscaler":
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app}
            return {"spec": {"scaleTargetRef": target, "maxReplicas": 3}}
        case "Ingress":
            return {"spec": {"defaultBackend": {"service": {"name": app, "port": {"number": 80}}}}}
        case "PersistentVolumeClaim":
            return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        case "StorageClass":
            return {"provisioner": "example.com/disks"}
        case "RoleBinding" | "ClusterRoleBinding":
            return {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}
        case "Service":
            return {"spec": {"selector": {"app": app}, "ports": [{"port": 80, "protocol": "TCP"}]}}
        case _:
            return {}
