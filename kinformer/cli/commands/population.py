"""The objects of `kinformer serve`, and the changes that controllers and kubelets would make to them."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kinformer.cli.commands.contents import content, node
from kinformer.cli.output.screen import Loading
from kinformer.cli.usage import UsageError
from kinformer.client import APIResource
from kinformer.exceptions import InvalidError
from kinformer.testing import APIServer

__all__ = ["Population"]

_SLICE = 200  # objects that are created before the event loop gets a turn
_NAMESPACES = 20  # namespaces that objects are spread over, team-00 to team-19
_TRUE_TO_LIFE = ("v1/pods", "v1/configmaps")  # the server generates these, of 8 KB and 1 KB each
_PODS = 10  # pods on a node, if the number of nodes is not given
_FEWEST, _MOST = 3, 500  # nodes for pods
_TICK = 0.05  # seconds between two rounds of changes
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # as in Kubernetes: without vowels, so that no words are formed

Object = dict[str, Any]
_Key = tuple[APIResource, str, str]


class Population:
    """Generates objects, and changes them.

    Args:
        server: The server to write to.
        chance: The source of randomness.
    """

    def __init__(self, server: APIServer, chance: random.Random | None = None) -> None:
        self._server = server
        self._chance = chance or random.Random()
        self._keys: list[_Key] = []
        self._starting: deque[_Key] = deque()  # pods that have no node yet
        self._nodes: list[str] = []
        self._turn = 0

    async def add(self, counts: Mapping[APIResource, int]) -> AsyncIterator[str]:
        """Create objects; gives what was created, in words, a line for each resource.

        Pods and configmaps look as in real clusters, others are small. The nodes of pods are created too; if nodes are
        asked for, pods are on these.

        Raises:
            UsageError: A kind needs more than a generated object has.
        """
        nodes = next((resource for resource in counts if str(resource) == "v1/nodes"), None)
        pods = sum(count for resource, count in counts.items() if str(resource) == "v1/pods")
        number = counts[nodes] if nodes is not None and counts[nodes] else _nodes_for(pods)
        if pods or nodes is not None:
            self._nodes = [f"node-{one:03}" for one in range(number if pods else counts[nodes] if nodes else 0)]
            for name in self._nodes:
                self._server.create(node(name))
        for resource, count in counts.items():
            if resource != nodes:
                await self._fill(resource, count)
            elif count:
                self._keys += [(resource, "", name) for name in self._nodes]
            beside = f" on {number:,} nodes" if str(resource) == "v1/pods" and count else ""
            yield f"{count:,} {resource.name}{beside}"

    async def _fill(self, resource: APIResource, count: int) -> None:
        before = {_key_of(resource, obj) for obj in self._server.list(resource.gvr)}
        with Loading(resource.name) as loading:
            if str(resource) in _TRUE_TO_LIFE:
                steps = self._server.generate(resource.gvr, count, nodes=max(1, len(self._nodes)))
            else:
                steps = self._bare(resource, count)
            for done in steps:
                loading.update(f"{done:,} of {count:,}")
                await asyncio.sleep(0)
        found = (_key_of(resource, obj) for obj in self._server.list(resource.gvr))
        self._keys += [key for key in found if key not in before]  # nothing that the server has made at its start

    def _bare(self, resource: APIResource, count: int) -> Iterator[int]:
        singular = resource.singular or resource.kind.lower()
        for number in range(count):
            app = f"app-{number % 20}"
            body: Object = {
                "apiVersion": resource.gvr.api_version,
                "kind": resource.kind,
                "metadata": {"name": f"{singular}-{number:06}", "labels": {"app": app}},
                **content(resource.kind, app),
            }
            if resource.namespaced:
                body["metadata"]["namespace"] = f"team-{number % _NAMESPACES:02}"
            try:
                self._server.create(body)
            except InvalidError as error:
                raise UsageError(f"--objects cannot fill in {resource}: {error}") from error
            if number % _SLICE == 0:
                yield number
        yield count

    async def churn(self, rate: float) -> None:
        """Change `rate` objects per second, until cancelled: most are updated, one in ten is replaced by another."""
        loop = asyncio.get_running_loop()
        due, before = 0.0, loop.time()
        while self._keys:
            await asyncio.sleep(_TICK)
            now = loop.time()
            # Changes that a second was too short for are dropped.
            due = min(due + (now - before) * rate, max(1.0, rate))
            before = now
            while due >= 1 and self._keys:
                due -= 1
                self._change()
                if self._turn % _SLICE == 0:
                    await asyncio.sleep(0)

    def _change(self) -> None:
        """Update or replace a random object; forget it if it was deleted by another client."""
        self._turn += 1
        if self._starting and self._chance.random() < 0.5:
            self._start(self._starting.popleft())
            return
        number = self._chance.randrange(len(self._keys))
        resource, namespace, name = key = self._keys[number]
        document = self._server.get(resource.gvr, namespace, name)
        if document is None:
            self._keys[number] = self._keys[-1]
            self._keys.pop()
        elif self._turn % 10 or resource.kind in ("Node", "Namespace"):  # which last, and have others in them
            _CHANGES.get(resource.kind, _annotate)(document, self._turn)
            self._server.update(document)
        else:
            self._keys[number] = self._replace(key, document)

    def _replace(self, key: _Key, document: Object) -> _Key:
        """Delete an object, and create another one like it under a new name, as a controller would."""
        resource, namespace, name = key
        self._server.delete(resource.gvr, namespace, name)
        metadata = document["metadata"]
        for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
            metadata.pop(field, None)
        metadata["name"] = f"{name.rpartition('-')[0] or name}-{''.join(self._chance.choices(_SUFFIX, k=5))}"
        replaced = (resource, namespace, metadata["name"])
        if resource.kind == "Pod":
            document["spec"].pop("nodeName", None)
            document["status"] = {
                "phase": "Pending",
                "qosClass": document.get("status", {}).get("qosClass", "BestEffort"),
            }
            self._starting.append(replaced)
        self._server.create(document)
        return replaced

    def _start(self, key: _Key) -> None:
        """Put a pod on a node, and let its containers run."""
        resource, namespace, name = key
        document = self._server.get(resource.gvr, namespace, name)
        if document is None:
            return
        now = _now()
        document["spec"]["nodeName"] = self._chance.choice(self._nodes or ["node-000"])
        document["status"] = {
            **document["status"],
            "phase": "Running",
            "startTime": now,
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": one["name"],
                    "image": one.get("image", ""),
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                    "lastState": {},
                }
                for one in document["spec"]["containers"]
            ],
        }
        self._server.update(document)


def _nodes_for(pods: int) -> int:
    return min(_MOST, max(_FEWEST, -(-pods // _PODS)))


def _key_of(resource: APIResource, obj: Object) -> _Key:
    return resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- one change of each kind ----------------------------------------------------------------------------------------


def _restart_or_unready(pod: Object, turn: int) -> None:
    """A container is restarted, or is not ready for a while."""
    status = pod.get("status") or {}
    containers = status.get("containerStatuses")
    if not containers:
        _annotate(pod, turn)
        return
    now, one = _now(), containers[turn % len(containers)]
    if not one.get("ready"):
        one["ready"] = True
    elif turn % 3:
        one["ready"] = False
    else:
        began = one.get("state", {}).get("running", {}).get("startedAt", now)
        ended = {"exitCode": 1, "reason": "Error", "startedAt": began, "finishedAt": now}
        one["lastState"] = {"terminated": ended}
        one["state"] = {"running": {"startedAt": now}}
        one["restartCount"] = one.get("restartCount", 0) + 1
    ready = "True" if all(each.get("ready") for each in containers) else "False"
    for condition in status.get("conditions", ()):
        if condition.get("type") in ("Ready", "ContainersReady") and condition.get("status") != ready:
            condition.update(status=ready, lastTransitionTime=now)


def _roll(workload: Object, turn: int) -> None:
    """One replica becomes unavailable, or available again."""
    status, wanted = workload.setdefault("status", {}), workload["spec"].get("replicas", 1)
    available = wanted if status.get("availableReplicas", 0) < wanted else max(0, wanted - 1)
    status.update(readyReplicas=available, availableReplicas=available)


def _roll_daemon(daemon: Object, turn: int) -> None:
    status = daemon.setdefault("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    ready = wanted if status.get("numberReady", 0) < wanted else max(0, wanted - 1)
    status.update(numberReady=ready, numberAvailable=ready, numberUnavailable=wanted - ready)


def _beat(node: Object, turn: int) -> None:
    """The kubelet reports."""
    for condition in node["status"]["conditions"]:
        condition["lastHeartbeatTime"] = _now()


def _edit(configmap: Object, turn: int) -> None:
    data = configmap.setdefault("data", {})
    key = sorted(data)[turn % len(data)] if data else "key"
    data[key] = f"value {turn}"


def _annotate(obj: Object, turn: int) -> None:
    obj["metadata"].setdefault("annotations", {})["example.com/checked-at"] = f"{_now()}, check {turn}"


_CHANGES: Mapping[str, Callable[[Object, int], None]] = {
    "Pod": _restart_or_unready,
    "Deployment": _roll,
    "ReplicaSet": _roll,
    "StatefulSet": _roll,
    "DaemonSet": _roll_daemon,
    "Node": _beat,
    "ConfigMap": _edit,
}
