"""Twelve breakages of a cluster that lives, each with what says it, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kinformer.testing import APIServer
from tests.support.kube import widget_definition

__all__ = ["BREAKAGES", "DEFINITION", "PLACE", "Breakage", "workloads"]

DEFINITION = widget_definition()
PLACE = "planted"

Object = dict[str, Any]
Mend = Callable[[], object]


class Breakage(NamedTuple):
    """A thing to break.

    Attributes:
        name: Its name.
        rule: The rule that says it.
        owner: The name of the owner of the problem.
        plant: Breaks it, and returns what mends it.
        grace: Seconds until it is said, if it is not the grace time of the rule.
    """

    name: str
    rule: str
    owner: str
    plant: Callable[[APIServer], Mend]
    grace: float | None = None


def _made(server: APIServer, obj: Object) -> Mend:
    """Create an object whose existence is the breakage."""
    created = server.create(obj)
    metadata = created["metadata"]
    resource = {
        "Pod": "v1/pods",
        "Job": "batch/v1/jobs",
        "PersistentVolumeClaim": "v1/persistentvolumeclaims",
        "StatefulSet": "apps/v1/statefulsets",
        "DaemonSet": "apps/v1/daemonsets",
        "Widget": "example.com/v1/widgets",
    }[obj["kind"]]
    return lambda: server.delete(resource, metadata["namespace"], metadata["name"])


def _now(server: APIServer) -> str:
    """Return the time of the server, which is that of its newest object."""
    probe = server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "t-", **_there()}})
    server.delete("v1/configmaps", PLACE, probe["metadata"]["name"])
    return str(probe["metadata"]["creationTimestamp"])


def _there() -> Object:
    return {"namespace": PLACE}


def _object(api: str, kind: str, **content: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": f"broken-{kind.lower()}", **_there()}, **content}


def _condition(server: APIServer, kind: str, status: str, **more: Any) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": _now(server), **more}


TEMPLATE = {
    "metadata": {"labels": {"app": "broken"}},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}
WORKLOAD = {"selector": {"matchLabels": {"app": "broken"}}, "template": TEMPLATE}


def workloads() -> list[Object]:
    """Return the Deployments whose pods are broken."""
    return [_deployment(name) for name in ("crash", "image", "config", "probe")]


def _deployment(name: str) -> Object:
    labels = {"app": name}
    template = {**TEMPLATE, "metadata": {"labels": labels}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, **_there()}, "spec": spec}


def _with_pod(name: str, change: Callable[[APIServer, Object], None]) -> Callable[[APIServer], Mend]:
    """Return a function that breaks a pod of one of these Deployments. Its controllers leave it alone."""

    def plant(server: APIServer) -> Mend:
        pod = next(pod for pod in server.list("v1/pods") if (pod["metadata"].get("labels") or {}).get("app") == name)
        change(server, pod)
        server.update(pod)
        return lambda: _delete_if_there(server, pod)

    return plant


def _delete_if_there(server: APIServer, pod: Object) -> None:
    if server.get("v1/pods", pod["metadata"]["namespace"], pod["metadata"]["name"]) is not None:
        server.delete("v1/pods", pod["metadata"]["namespace"], pod["metadata"]["name"])


def _waiting(reason: str, restarts: int = 0) -> Callable[[APIServer, Object], None]:
    def change(server: APIServer, pod: Object) -> None:
        now = _now(server)
        status = pod["status"]["containerStatuses"][0]
        status.update(ready=False, restartCount=restarts, state={"waiting": {"reason": reason, "message": reason}})
        if restarts:
            status["lastState"] = {
                "terminated": {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}
            }
        _unready(pod, now)

    return change


def _unready(pod: Object, now: str) -> None:
    for entry in pod["status"]["conditions"]:
        if entry["type"] in ("Ready", "ContainersReady"):
            entry.update(status="False", lastTransitionTime=now)


def _not_ready(server: APIServer, pod: Object) -> None:
    pod["status"]["containerStatuses"][0]["ready"] = False
    _unready(pod, _now(server))


def _unschedulable(server: APIServer) -> Mend:
    spec = {"nodeSelector": {"disk": "none"}, "containers": TEMPLATE["spec"]["containers"]}  # type: ignore[index]
    return _made(server, _object("v1", "Pod", spec=spec))


def _hanging(server: APIServer) -> Mend:
    pod = _object("v1", "Pod", spec={**TEMPLATE["spec"], "schedulerName": "another"})  # type: ignore[dict-item]
    pod["metadata"].update(name="hanging", finalizers=["example.com/held"])
    created = server.create(pod)
    server.delete("v1/pods", PLACE, "hanging")

    def release() -> None:
        held = server.get("v1/pods", PLACE, "hanging") or created
        held["metadata"]["finalizers"] = []
        server.update(held)

    return release


def _dead_node(server: APIServer) -> Mend:
    name = "node-000"
    node = server.get("v1/nodes", None, name)
    assert node is not None
    before = [dict(entry) for entry in node["status"]["conditions"]]
    for entry in node["status"]["conditions"]:
        if entry["type"] == "Ready":
            entry.update(status="Unknown", reason="NodeStatusUnknown", lastTransitionTime=_now(server))
    server.update(node)

    def restart() -> None:
        current = server.get("v1/nodes", None, name)
        assert current is not None
        current["status"]["conditions"] = before
        server.update(current)

    return restart


def _failed_job(server: APIServer) -> Mend:
    spec = {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}, "suspend": True}  # type: ignore[dict-item]
    return _made(
        server, _object("batch/v1", "Job", spec=spec, status={"conditions": [_condition(server, "Failed", "True")]})
    )


def _refused(server: APIServer) -> Mend:
    condition = _condition(server, "ReplicaFailure", "True", reason="FailedCreate", message="exceeded quota")
    status = {"replicas": 0, "observedGeneration": 1, "conditions": [condition]}
    return _made(server, _object("apps/v1", "StatefulSet", spec={**WORKLOAD, "serviceName": "x"}, status=status))


def _short(server: APIServer) -> Mend:
    counts = {"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberReady": 2, "numberMisscheduled": 0}
    return _made(server, _object("apps/v1", "DaemonSet", spec=WORKLOAD, status={**counts, "observedGeneration": 1}))


def _lost_claim(server: APIServer) -> Mend:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return _made(server, _object("v1", "PersistentVolumeClaim", spec=spec, status={"phase": "Lost"}))


def _unready_resource(server: APIServer) -> Mend:
    conditions = [_condition(server, "Ready", "False", reason="NoSuchSecret")]
    return _made(server, _object("example.com/v1", "Widget", status={"conditions": conditions}))


BREAKAGES: tuple[Breakage, ...] = (
    Breakage("a crash loop", "crashes", "crash", _with_pod("crash", _waiting("CrashLoopBackOff", 4)), 0.0),
    Breakage("an image that does not exist", "image", "image", _with_pod("image", _waiting("ImagePullBackOff"))),
    Breakage("no such ConfigMap", "not-started", "config", _with_pod("config", _waiting("CreateContainerConfigError"))),
    Breakage("a probe that fails", "not-ready", "probe", _with_pod("probe", _not_ready)),
    Breakage("no node", "unschedulable", "broken-pod", _unschedulable),
    Breakage("a pod that does not go", "hangs", "hanging", _hanging),
    Breakage("a dead node", "node", "node-000", _dead_node),
    Breakage("a failed Job", "failed-job", "broken-job", _failed_job),
    Breakage("a quota", "not-created", "broken-statefulset", _refused),
    Breakage("a missing replica", "replicas", "broken-daemonset", _short),
    Breakage("a lost volume", "volume-lost", "broken-persistentvolumeclaim", _lost_claim),
    Breakage("a custom resource that is not ready", "condition", "broken-widget", _unready_resource),
)
