"""Objects on which each rule for problems fires, and objects like them on which it is quiet.

Times are ages in seconds before `LATER`, at which the rules look: it is far after the time at which the server creates
objects, so that only times that an object states are short ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.support.kube import widget_definition

Object = dict[str, Any]

LATER = float(int(time.time()) + 86400)
LONG = 7200  # older than every grace time
BRIEFLY = 20  # younger than every grace time but 0


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(LATER - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str, age: float = LONG, **more: Any) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": ago(age), **more}


def make(
    kind: str, name: str, *, api: str = "v1", namespace: str = "shop", owner: Object | None = None, **content: Any
) -> Object:
    metadata: Object = {"name": name, "uid": f"uid-{kind}-{name}", **content.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    if owner is not None:
        metadata["ownerReferences"] = [reference(owner)]
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}


def reference(owner: Object) -> Object:
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": uid, "controller": True}


def pod(
    name: str = "web-1",
    *,
    state: Object | None = None,
    last: Object | None = None,
    restarts: int = 0,
    ready: bool = False,
    age: float = LONG,
    phase: str = "Running",
    conditions: Iterable[Object] = (),
    node: str = "node-1",
    owner: Object | None = None,
    **content: Any,
) -> Object:
    status = {
        "phase": phase,
        "conditions": [condition("PodScheduled", "True", age), condition("Ready", str(ready), age), *conditions],
        "containerStatuses": [
            {
                "name": "main",
                "ready": ready,
                "restartCount": restarts,
                "image": "app:1",
                "imageID": "",
                "state": state or {"running": {"startedAt": ago(age)}},
                **({"lastState": last} if last else {}),
            }
        ],
        **content.pop("status", {}),
    }
    spec = {"containers": [{"name": "main", "image": "app:1"}], **({"nodeName": node} if node else {})}
    return make("Pod", name, owner=owner, spec=spec, status=status, **content)


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def ended(code: int, reason: str = "Error", age: float = 30) -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": ago(age), "startedAt": ago(age + 5)}}


def unschedulable(name: str, age: float, reason: str = "Unschedulable") -> Object:
    found = pod(name, phase="Pending", node="")
    message = "0/3 nodes are available: 3 Insufficient cpu."
    found["status"] = {
        "phase": "Pending",
        "conditions": [condition("PodScheduled", "False", age, reason=reason, message=message)],
    }
    return found


def deployment(name: str = "web", *, wanted: int = 3, ready: int = 3, **status: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    spec = {"replicas": wanted, "selector": {"matchLabels": labels}, "template": template}
    return make(
        "Deployment",
        name,
        api="apps/v1",
        spec=spec,
        status={"observedGeneration": 1, "replicas": wanted, "readyReplicas": ready, **status},
    )


def spec_written(obj: Object, age: float) -> Object:
    """Return an object whose spec was last written so many seconds ago."""
    entry = {"manager": "kubectl", "operation": "Update", "apiVersion": obj["apiVersion"], "time": ago(age)}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}
    return {**obj, "metadata": {**obj["metadata"], "managedFields": [entry]}}


def workload(
    kind: str, name: str, *, wanted: int = 3, ready: int = 3, age: float | None = None, **status: Any
) -> Object:
    found = deployment(name, wanted=wanted, ready=ready, **status)
    found["kind"] = kind
    found["metadata"]["uid"] = f"uid-{kind}-{name}"
    if kind == "StatefulSet":
        found["spec"]["serviceName"] = name
    if kind == "DaemonSet":
        del found["spec"]["replicas"]
        found["status"] = {
            "observedGeneration": 1,
            "currentNumberScheduled": wanted,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": wanted,
            "numberReady": ready,
        }
    return found if age is None else written(found, age)


def written(found: Object, age: float) -> Object:
    """Return an object with the time of the last write of its status in managedFields."""
    entry = {
        "manager": "controller",
        "operation": "Update",
        "apiVersion": found["apiVersion"],
        "time": ago(age),
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {}},
        "subresource": "status",
    }
    return {**found, "metadata": {**found["metadata"], "managedFields": [entry]}}


def job(name: str, *conditions: Object, owner: Object | None = None, created: float = LONG) -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}
    return make(
        "Job",
        name,
        api="batch/v1",
        owner=owner,
        metadata={"creationTimestamp": ago(created)},
        spec={"template": template},
        status={"conditions": list(conditions)},
    )


def node(name: str, *conditions: Object) -> Object:
    return make("Node", name, namespace="", spec={}, status={"conditions": list(conditions)})


def claim(name: str, phase: str, *, storage_class: str = "", age: float = LONG, **metadata: Any) -> Object:
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    metadata["creationTimestamp"] = ago(age)
    return make("PersistentVolumeClaim", name, metadata=metadata, spec=spec, status={"phase": phase})


def storage_class(name: str, mode: str) -> Object:
    return make(
        "StorageClass",
        name,
        api="storage.k8s.io/v1",
        namespace="",
        provisioner="example.com/disks",
        volumeBindingMode=mode,
    )


def event(about: Object, reason: str, message: str, kind: str = "Warning") -> Object:
    metadata = about["metadata"]
    involved = {"kind": about["kind"], "namespace": metadata.get("namespace", ""), "name": metadata["name"]}
    return make(
        "Event",
        f"{metadata['name']}.{reason.lower()}",
        namespace=metadata.get("namespace") or "default",
        involvedObject={**involved, "apiVersion": about["apiVersion"], "uid": metadata["uid"]},
        reason=reason,
        message=message,
        type=kind,
        lastTimestamp=ago(10),
        source={"component": "test"},
    )


def resource(name: str, *conditions: Object, **status: Any) -> Object:
    return make("Widget", name, api="example.com/v1", spec={}, status={"conditions": list(conditions), **status})


def generation(obj: Object, number: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "generation": number}}


CRON = make(
    "CronJob",
    "backup",
    api="batch/v1",
    spec={"schedule": "0 * * * *", "jobTemplate": {"spec": job("x")["spec"]}},
)
DEFINITION = widget_definition()
FAILED, COMPLETE = condition("Failed", "True", BRIEFLY, reason="BackoffLimitExceeded"), condition("Complete", "True")
TRUE = condition("Ready", "True")


class Scene(NamedTuple):
    """Two sets of objects. The rule fires for an object of the first, and no rule does for any of the second."""

    fires: Mapping[str, Callable[[], list[Object]]]
    quiet: Mapping[str, Callable[[], list[Object]]]


OTHER_RS = make("ReplicaSet", "other", api="apps/v1", spec=deployment()["spec"])

SCENES: dict[str, Scene] = {
    "crashes": Scene(
        {
            "CrashLoopBackOff": lambda: [pod(state=waiting("CrashLoopBackOff"), last=ended(1), restarts=2)],
            "the third restart at once": lambda: [
                pod(state=waiting("CrashLoopBackOff"), last=ended(137, "OOMKilled"), restarts=3, age=BRIEFLY)
            ],
            "running again, but not ready": lambda: [
                pod(state={"running": {"startedAt": ago(30)}}, last=ended(2), restarts=9)
            ],
            "an init container": lambda: [
                pod(
                    phase="Pending",
                    state=waiting("PodInitializing"),
                    status={
                        "initContainerStatuses": [
                            {
                                "name": "setup",
                                "ready": False,
                                "restartCount": 5,
                                "image": "",
                                "imageID": "",
                                "state": waiting("CrashLoopBackOff"),
                                "lastState": ended(1),
                            }
                        ]
                    },
                )
            ],
        },
        {
            "a first restart": lambda: [pod(state=waiting("CrashLoopBackOff"), last=ended(1), restarts=1, age=BRIEFLY)],
            "ready again after restarts": lambda: [pod(last=ended(1), restarts=12, ready=True)],
            "a container of a Job that has ended with 0": lambda: [
                pod(state=ended(0, "Completed"), last=ended(1), restarts=3, owner=job("once"))
            ],
            "three restarts a month ago, in a gated pod": lambda: [
                pod(state={"running": {"startedAt": ago(2592000)}}, last=ended(1), restarts=3, age=BRIEFLY)
            ],
        },
    ),
    "image": Scene(
        {
            reason: lambda reason=reason: [pod(phase="Pending", state=waiting(reason, "not found"))]  # type: ignore[misc]
            for reason in ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull")
        },
        {
            "a first try": lambda: [pod(phase="Pending", state=waiting("ErrImagePull"), age=BRIEFLY)],
        },
    ),
    "not-started": Scene(
        {
            "no config map": lambda: [
                pod(phase="Pending", state=waiting("CreateContainerConfigError", 'configmap "web" not found'))
            ],
            "run": lambda: [pod(state=waiting("RunContainerError"))],
        },
        {"for a moment": lambda: [pod(state=waiting("CreateContainerConfigError"), age=BRIEFLY)]},
    ),
    "unschedulable": Scene(
        {"no node": lambda: [unschedulable("web-1", LONG)]},
        {
            "until the autoscaler has made one": lambda: [unschedulable("web-1", BRIEFLY)],
            "gated": lambda: [unschedulable("web-1", LONG, "SchedulingGated")],
        },
    ),
    "failed-pod": Scene(
        {"a bare pod": lambda: [pod(phase="Failed", state=ended(1))]},
        {
            "evicted": lambda: [pod(phase="Failed", status={"reason": "Evicted"})],
            "preempted": lambda: [pod(phase="Failed", conditions=[condition("DisruptionTarget", "True")])],
            "of a workload": lambda: [pod(phase="Failed", state=ended(1), owner=OTHER_RS)],
            "evicted, of a workload, with restarts": lambda: [
                pod(phase="Failed", state=ended(137), restarts=4, owner=OTHER_RS, status={"reason": "Evicted"})
            ],
            "succeeded": lambda: [pod(phase="Succeeded", state=ended(0, "Completed"))],
        },
    ),
    "starting": Scene(
        {
            "creating": lambda: [pod(phase="Pending", state=waiting("ContainerCreating"))],
            "not even begun": lambda: [pod(phase="Pending", status={"containerStatuses": []})],
        },
        {
            "creating": lambda: [pod(phase="Pending", state=waiting("ContainerCreating"), age=BRIEFLY)],
        },
    ),
    "not-ready": Scene(
        {
            "a probe that fails": lambda: [pod()],
            "a job that never gets ready": lambda: [pod(owner=job("once"))],
            "a gate": lambda: [
                pod(ready=True, status={"conditions": [condition("Ready", "False", reason="ReadinessGatesNotReady")]})
            ],
        },
        {
            "starting": lambda: [pod(age=BRIEFLY)],
            "a job": lambda: [pod(owner=job("once"), age=900)],
            "ended well beside a sidecar": lambda: [pod(state=ended(0, "Completed"))],
        },
    ),
    "no-progress": Scene(
        {
            "deadline": lambda: [
                deployment(
                    conditions=[condition("Progressing", "False", BRIEFLY, reason="ProgressDeadlineExceeded")], ready=3
                )
            ],
        },
        {"rolling": lambda: [deployment(conditions=[condition("Progressing", "True", reason="ReplicaSetUpdated")])]},
    ),
    "not-created": Scene(
        {
            "quota": lambda: [
                deployment(
                    ready=1,
                    conditions=[condition("ReplicaFailure", "True", reason="FailedCreate", message="exceeded quota")],
                )
            ],
        },
        {
            "for a moment": lambda: [
                deployment(conditions=[condition("ReplicaFailure", "True", BRIEFLY, reason="FailedCreate")])
            ],
        },
    ),
    "replicas": Scene(
        {
            "unavailable": lambda: [deployment(ready=1, conditions=[condition("Available", "False")])],
            "a stateful set": lambda: [workload("StatefulSet", "db", ready=2, age=LONG)],
            "a daemon set": lambda: [workload("DaemonSet", "agent", ready=0, age=LONG)],
            "a bare replica set": lambda: [
                workload("ReplicaSet", "bare", ready=0, conditions=[condition("Available", "False")])
            ],
        },
        {
            "rolling": lambda: [deployment(ready=2, conditions=[condition("Available", "False", BRIEFLY)])],
            "a stateful set that moves": lambda: [workload("StatefulSet", "db", ready=2, age=BRIEFLY)],
            "scaled to nothing": lambda: [deployment(wanted=0, ready=0)],
            "an old status": lambda: [generation(deployment(ready=0, conditions=[condition("Available", "False")]), 7)],
            "all ready": lambda: [deployment(), workload("DaemonSet", "agent", age=LONG)],
        },
    ),
    "failed-job": Scene(
        {
            "failed": lambda: [job("once", FAILED)],
            "the last one of a cron job": lambda: [
                job("backup-1", COMPLETE, owner=CRON),
                job("backup-2", FAILED, owner=CRON, created=60),
            ],
            "beside a good one of the same operator": lambda: [
                job("train-worker", FAILED, owner=resource("train")),
                job("train-driver", COMPLETE, owner=resource("train"), created=60),
            ],
        },
        {
            "running": lambda: [job("once")],
            "complete": lambda: [job("once", COMPLETE)],
            "followed by a good one": lambda: [
                job("backup-1", FAILED, owner=CRON),
                job("backup-2", COMPLETE, owner=CRON, created=60),
            ],
        },
    ),
    "node": Scene(
        {
            "not ready": lambda: [node("node-1", condition("Ready", "False", reason="KubeletNotReady"))],
            "not heard of": lambda: [node("node-1", condition("Ready", "Unknown", reason="NodeStatusUnknown"))],
        },
        {
            "starting": lambda: [node("node-1", condition("Ready", "False", BRIEFLY))],
            "ready": lambda: [node("node-1", TRUE, condition("MemoryPressure", "False"))],
            "cordoned": lambda: [{**node("node-1", TRUE), "spec": {"unschedulable": True}}],
        },
    ),
    "pressure": Scene(
        {
            kind: lambda kind=kind: [node("node-1", TRUE, condition(kind, "True"))]  # type: ignore[misc]
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "KernelDeadlock")
        },
        {"for a moment": lambda: [node("node-1", TRUE, condition("DiskPressure", "True", BRIEFLY))]},
    ),
    "volume-lost": Scene(
        {
            "a claim": lambda: [claim("data", "Lost")],
            "a volume": lambda: [
                make(
                    "PersistentVolume",
                    "pv-1",
                    namespace="",
                    spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
                    status={"phase": "Failed", "message": "the disk is gone"},
                )
            ],
        },
        {"bound": lambda: [claim("data", "Bound")]},
    ),
    "volume-pending": Scene(
        {
            "no class": lambda: [claim("data", "Pending")],
            "at once": lambda: [storage_class("fast", "Immediate"), claim("data", "Pending", storage_class="fast")],
            "for a pod": lambda: [
                storage_class("late", "WaitForFirstConsumer"),
                claim(
                    "data",
                    "Pending",
                    storage_class="late",
                    annotations={"volume.kubernetes.io/selected-node": "node-1"},
                ),
            ],
        },
        {
            "no pod yet": lambda: [
                storage_class("late", "WaitForFirstConsumer"),
                claim("data", "Pending", storage_class="late"),
            ],
            "for a moment": lambda: [claim("data", "Pending", age=BRIEFLY)],
        },
    ),
    "stalled": Scene(
        {
            "Stalled": lambda: [resource("a", condition("Stalled", "True", reason="BuildFailed"))],
            "Degraded": lambda: [resource("a", TRUE, condition("Degraded", "True"))],
            "an error without status": lambda: [
                written(resource("a", {"type": "SyncError", "message": "no such branch"}), LONG)
            ],
            "NotReady": lambda: [resource("a", condition("NotReady", "True"))],
            "Failing": lambda: [resource("a", TRUE, condition("Failing", "True"))],
            "of a listener": lambda: [
                resource("a", TRUE, listeners=[{"conditions": [condition("Conflicted", "True")]}])
            ],
            "the health of Argo CD": lambda: [written(resource("a", health={"status": "Degraded"}), LONG)],
        },
        {
            "false": lambda: [resource("a", TRUE, condition("Stalled", "False"), condition("Degraded", "False"))],
            "for a moment": lambda: [resource("a", condition("Stalled", "True", BRIEFLY))],
            "without a time": lambda: [written(resource("a", {"type": "Stalled", "status": "True"}), BRIEFLY)],
        },
    ),
    "condition": Scene(
        {
            "Ready": lambda: [resource("a", condition("Ready", "False", reason="SecretNotFound", message="no tls"))],
            "Synced": lambda: [resource("a", condition("Synced", "False"), TRUE)],
            "Available": lambda: [resource("a", condition("Available", "False"))],
            "unknown for long": lambda: [resource("a", condition("Ready", "Unknown"))],
            "of one parent of two": lambda: [
                resource(
                    "a",
                    parents=[{"conditions": [condition("Accepted", status)]} for status in ("True", "False")],
                )
            ],
        },
        {
            "true": lambda: [resource("a", TRUE)],
            "starting": lambda: [resource("a", condition("Ready", "False", BRIEFLY))],
            "unknown": lambda: [resource("a", condition("Ready", "Unknown", 600))],
            "for information": lambda: [resource("a", condition("Ready", "False", severity="Info"))],
            "of an earlier spec": lambda: [
                generation(resource("a", condition("Ready", "False", observedGeneration=2)), 3)
            ],
            "others": lambda: [resource("a", condition("Progressing", "False"), condition("Paused", "True"))],
            "no conditions": lambda: [resource("a")],
            "of any shape": lambda: [
                make("Widget", "a", api="example.com/v1", status={"conditions": "Ready"}),
                make("Widget", "b", api="example.com/v1", status={"conditions": [1, {"type": 3, "status": []}]}),
                make("Widget", "c", api="example.com/v1", status=["conditions"]),
            ],
        },
    ),
    "unobserved": Scene(
        {
            "a custom resource": lambda: [spec_written(generation(resource("a", observedGeneration=2), 3), LONG)],
            "a workload": lambda: [spec_written(generation(workload("StatefulSet", "db"), 2), LONG)],
        },
        {
            "for a moment": lambda: [spec_written(generation(resource("a", observedGeneration=2), 3), BRIEFLY)],
            "observed": lambda: [spec_written(generation(resource("a", observedGeneration=3), 3), LONG)],
            "no controller that says so": lambda: [spec_written(generation(resource("a"), 3), LONG)],
        },
    ),
}
