"""A small simulated cluster, which makes the writes of controllers, a scheduler and kubelets.

It runs no containers. It writes the objects and changes that an informer of a real cluster would see: deployments that
scale, their replica sets, pods that start, run, fail and are removed, jobs that finish, nodes that drop out, and the
corresponding Events.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

__all__ = ["DEPLOYMENTS", "JOBS", "NAMESPACES", "LivingCluster", "ObjectWriter"]

NAMESPACES = ("batch", "payments", "search", "shop")
DEPLOYMENTS: Mapping[tuple[str, str], int] = {
    ("payments", "api"): 4,
    ("payments", "ledger"): 2,
    ("search", "index"): 5,
    ("search", "query"): 3,
    ("shop", "cart"): 3,
    ("shop", "catalog"): 6,
    ("shop", "web"): 8,
}
JOBS = ("report", "backup", "import")
_NODES = 5
_TICK = 0.1  # seconds between two steps
_EVENTS = 200  # Events that are kept. A real cluster deletes them after an hour
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # as in Kubernetes, without vowels. Names are shorter, to fit on a terminal

_API_VERSIONS = {"Deployment": "apps/v1", "Job": "batch/v1", "Node": "v1", "Pod": "v1", "ReplicaSet": "apps/v1"}

Object = dict[str, Any]


class ObjectWriter(Protocol):
    """The write methods of `kinformer.testing.APIServer`."""

    def create(self, obj: Any, /) -> Any: ...
    def update(self, obj: Any, /) -> Any: ...
    def delete(self, resource: str, namespace: str, name: str, /) -> Any: ...


@dataclass(slots=True, eq=False)
class _Pod:
    """A pod, and the time of its next event."""

    namespace: str
    name: str
    owner: str
    body: Object
    due: float
    parent: str  # its replica set or job
    phase: str = "Pending"

    @property
    def active(self) -> bool:
        return self.phase in ("Pending", "Running")


class LivingCluster:
    """A simulated cluster, written to a server.

    Args:
        server: The server to write to.
        chance: The random number generator. The same seed gives the same sequence of events.
    """

    def __init__(self, server: ObjectWriter, chance: random.Random | None = None) -> None:
        self._server = server
        self._chance = chance or random.Random()
        self._now = 0.0
        self._replicas = dict(DEPLOYMENTS)
        self._ready: dict[tuple[str, str], tuple[int, int]] = {}
        self._pods: list[_Pod] = []
        self._nodes = [f"node-{number}" for number in range(1, _NODES + 1)]
        self._down: dict[str, float] = {}  # node -> time at which it is back
        self._next_scale, self._next_job, self._next_outage = 1.0, 0.5, 4.0
        self._uids: dict[tuple[str, str, str], str] = {}  # by kind, namespace and name
        self._replica_sets = {key: f"{key[1]}-{self._suffix(1)}" for key in self._replicas}
        self._events: deque[tuple[str, str]] = deque()  # namespace and name, oldest first

    def populate(self) -> None:
        """Write the initial cluster: namespaces, nodes, deployments, and pods that are already running."""
        for namespace in NAMESPACES:
            self._server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for name in self._nodes:
            self._server.create(self._node(name, ready=True))
        for key, replicas in self._replicas.items():
            self._server.create(self._deployment(key, ready=0, updated=0))
            self._server.create(self._replica_set(key, ready=0, pods=0))
            for _ in range(replicas):
                self._start(*key)
        for pod in self._pods:
            self._run(pod)
        self._report_readiness()

    async def run(self) -> None:
        """Change the cluster until cancelled."""
        while True:
            self.step(_TICK)
            await asyncio.sleep(_TICK)

    def step(self, seconds: float) -> None:
        """Advance the simulation by a number of seconds."""
        self._now += seconds
        self._scale()
        self._start_job()
        self._fail_a_node()
        for pod in [pod for pod in self._pods if pod.due <= self._now]:
            self._advance(pod)
        self._reconcile()
        self._report_readiness()

    # --- what happens -----------------------------------------------------------------------------------

    def _scale(self) -> None:
        if self._now < self._next_scale:
            return
        self._next_scale = self._now + self._chance.uniform(1.0, 3.0)
        key = self._chance.choice(sorted(self._replicas))
        before = self._replicas[key]
        self._replicas[key] = now = max(1, min(10, before + self._chance.choice((-3, -2, -1, 1, 2, 3))))
        if now != before:
            way = "up" if now > before else "down"
            message = f"Scaled {way} replica set {self._replica_sets[key]} from {before} to {now}"
            self._tell("Deployment", *key, "ScalingReplicaSet", message, by="deployment-controller")

    def _start_job(self) -> None:
        if self._now < self._next_job:
            return
        self._next_job = self._now + self._chance.uniform(0.5, 1.6)
        self._start("batch", self._chance.choice(JOBS))

    def _fail_a_node(self) -> None:
        for name in [name for name, until in self._down.items() if until <= self._now]:
            del self._down[name]
            self._server.update(self._node(name, ready=True))
        if self._now < self._next_outage:
            return
        self._next_outage = self._now + self._chance.uniform(8.0, 14.0)
        name = self._chance.choice(self._nodes)
        if name in self._down:
            return
        self._down[name] = self._now + self._chance.uniform(3.0, 6.0)
        self._server.update(self._node(name, ready=False))
        self._tell("Node", "", name, "NodeNotReady", f"Node {name} status is now: NodeNotReady", by="node-controller")
        for pod in self._pods:
            if pod.active and pod.owner not in JOBS and pod.body["spec"].get("nodeName") == name:
                self._finish(pod, "Failed", "Evicted")

    def _advance(self, pod: _Pod) -> None:
        """Advance a pod's life cycle: start it, end it, or remove it."""
        if pod.phase == "Pending":
            if "nodeName" not in pod.body["spec"]:
                self._schedule(pod)
            else:
                self._run(pod)
        elif pod.phase == "Running":
            if pod.owner not in JOBS:
                self._finish(pod, "Failed", "Error")
            elif self._chance.random() < 0.25:
                self._finish(pod, "Failed", "OOMKilled")
            else:
                self._finish(pod, "Succeeded", "Completed")
        else:
            self._remove(pod)

    def _reconcile(self) -> None:
        """Create and remove pods as the deployment controller would."""
        for (namespace, name), wanted in self._replicas.items():
            own = [pod for pod in self._pods if pod.namespace == namespace and pod.owner == name and pod.active]
            for _ in range(wanted - len(own)):
                self._start(namespace, name)
            # Pods that are not running are removed first, then the youngest.
            for pod in sorted(own, key=lambda pod: pod.phase == "Running", reverse=True)[wanted:]:
                self._remove(pod)

    def _report_readiness(self) -> None:
        for key, wanted in self._replicas.items():
            running = sum(1 for pod in self._pods if (pod.namespace, pod.owner) == key and pod.phase == "Running")
            if self._ready.get(key) != (wanted, running):
                self._ready[key] = (wanted, running)
                self._server.update(self._deployment(key, ready=running, updated=wanted))
                self._server.update(self._replica_set(key, ready=running, pods=wanted))

    # --- pods --------------------------------------------------------------------------------------------

    def _start(self, namespace: str, owner: str) -> None:
        is_job = owner in JOBS
        kind, parent = (
            ("Job", f"{owner}-{self._suffix(1)}") if is_job else ("ReplicaSet", self._replica_sets[namespace, owner])
        )
        name = f"{parent}-{self._suffix(3)}"
        if any(pod.namespace == namespace and name.startswith(pod.name) for pod in self._pods):
            return  # the next step tries another name
        if is_job:
            if ("Job", namespace, parent) in self._uids:
                return
            self._server.create(self._job(namespace, parent, owner))
        body: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": owner},
                "uid": self._uid("Pod", namespace, name),
                "ownerReferences": [self._owner(kind, namespace, parent)],
            },
            "spec": {
                "containers": [{"name": "main", "image": f"registry.example/{owner}:1.{self._chance.randrange(9)}"}],
                "restartPolicy": "Never" if owner in JOBS else "Always",
            },
            "status": {"phase": "Pending"},
        }
        pod = _Pod(namespace, name, owner, body, self._now + self._chance.uniform(0.2, 0.6), parent)
        self._server.create(body)
        self._pods.append(pod)

    def _schedule(self, pod: _Pod) -> None:
        nodes = [name for name in self._nodes if name not in self._down]
        pod.body["spec"]["nodeName"] = self._chance.choice(nodes or self._nodes)
        self._report(pod, "Pending", ready=False, state={"waiting": {"reason": "ContainerCreating"}})
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.body['spec']['nodeName']}"
        self._tell("Pod", pod.namespace, pod.name, "Scheduled", message, by="default-scheduler")
        pod.due = self._now + self._chance.uniform(0.5, 2.0)

    def _run(self, pod: _Pod) -> None:
        if "nodeName" not in pod.body["spec"]:
            pod.body["spec"]["nodeName"] = self._chance.choice(self._nodes)
        self._report(pod, "Running", ready=True, state={"running": {"startedAt": _now()}})
        self._tell("Pod", pod.namespace, pod.name, "Started", "Started container main", by="kubelet")
        life = self._chance.uniform(2.0, 7.0) if pod.owner in JOBS else self._chance.expovariate(1 / 90)
        pod.due = self._now + max(1.0, life)

    def _finish(self, pod: _Pod, phase: str, reason: str) -> None:
        code = 0 if phase == "Succeeded" else 137 if reason == "OOMKilled" else 1
        self._report(pod, phase, ready=False, state={"terminated": {"exitCode": code, "reason": reason}})
        pod.due = self._now + self._chance.uniform(3.0, 7.0)
        if phase == "Failed":
            message = f"Container main failed with exit code {code}: {reason}"
            self._tell("Pod", pod.namespace, pod.name, reason, message, by="kubelet", kind_of_event="Warning")
        if pod.owner in JOBS:
            self._server.update(self._job(pod.namespace, pod.parent, pod.owner, succeeded=code == 0))

    def _report(self, pod: _Pod, phase: str, *, ready: bool, state: Object) -> None:
        pod.phase = phase
        container = {"name": "main", "ready": ready, "restartCount": 0, "state": state}
        pod.body["status"] = {"phase": phase, "containerStatuses": [container]}
        self._server.update(pod.body)

    def _remove(self, pod: _Pod) -> None:
        self._pods.remove(pod)
        self._server.delete("v1/pods", pod.namespace, pod.name)
        self._uids.pop(("Pod", pod.namespace, pod.name), None)
        if pod.owner in JOBS:
            self._server.delete("batch/v1/jobs", pod.namespace, pod.parent)
            self._uids.pop(("Job", pod.namespace, pod.parent), None)

    # --- the other objects -----------------------------------------------------------------------------

    def _deployment(self, key: tuple[str, str], *, ready: int, updated: int) -> Object:
        namespace, name = key
        labels = {"app": name}
        container = {"name": "main", "image": f"registry.example/{name}:1.0"}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": labels,
                "uid": self._uid("Deployment", namespace, name),
            },
            "spec": {
                "replicas": self._replicas[key],
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
            "status": {
                "replicas": updated,
                "updatedReplicas": updated,
                "readyReplicas": ready,
                "availableReplicas": ready,
            },
        }

    def _replica_set(self, key: tuple[str, str], *, ready: int, pods: int) -> Object:
        namespace, app = key
        deployment, name = self._deployment(key, ready=ready, updated=pods), self._replica_sets[key]
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": app},
                "uid": self._uid("ReplicaSet", namespace, name),
                "ownerReferences": [self._owner("Deployment", namespace, app)],
            },
            "spec": deployment["spec"],
            "status": {"replicas": pods, "readyReplicas": ready, "availableReplicas": ready},
        }

    def _job(self, namespace: str, name: str, app: str, *, succeeded: bool | None = None) -> Object:
        status: Object = {"active": 1}
        if succeeded is not None:
            kind = "Complete" if succeeded else "Failed"
            status = {"succeeded" if succeeded else "failed": 1, "conditions": [{"type": kind, "status": "True"}]}
        template = {"containers": [{"name": "main", "image": f"registry.example/{app}:1.0"}], "restartPolicy": "Never"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": app},
                "uid": self._uid("Job", namespace, name),
            },
            "spec": {"template": {"metadata": {"labels": {"app": app}}, "spec": template}},
            "status": status,
        }

    def _owner(self, kind: str, namespace: str, name: str) -> Object:
        return {
            "apiVersion": _API_VERSIONS[kind],
            "kind": kind,
            "name": name,
            "uid": self._uid(kind, namespace, name),
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def _uid(self, kind: str, namespace: str, name: str) -> str:
        key = (kind, namespace, name)
        if key not in self._uids:
            self._uids[key] = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        return self._uids[key]

    def _suffix(self, length: int) -> str:
        return "".join(self._chance.choices(_SUFFIX, k=length))

    def _tell(
        self, kind: str, namespace: str, name: str, reason: str, text: str, *, by: str, kind_of_event: str = "Normal"
    ) -> None:
        """Write an Event about an object, and delete the oldest one if there are too many."""
        where = namespace or "default"
        event = f"{name}.{self._chance.getrandbits(64):016x}"
        now = _now()
        about = {"apiVersion": _API_VERSIONS[kind], "kind": kind, "name": name, "uid": self._uid(kind, namespace, name)}
        self._server.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": event, "namespace": where},
                "involvedObject": {**about, "namespace": namespace} if namespace else about,
                "type": kind_of_event,
                "reason": reason,
                "message": text,
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": by},
            }
        )
        self._events.append((where, event))
        if len(self._events) > _EVENTS:
            self._server.delete("v1/events", *self._events.popleft())

    def _node(self, name: str, *, ready: bool) -> Object:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"node-role.kubernetes.io/worker": ""},
                "uid": self._uid("Node", "", name),
            },
            "spec": {},
            "status": {"conditions": [condition], "nodeInfo": {"kubeletVersion": "v1.36.0"}},
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
