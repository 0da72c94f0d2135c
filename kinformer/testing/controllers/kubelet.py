"""The kubelets of all nodes: pods start, become ready, end by themselves, and end when they are deleted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from kinformer.testing.controllers.cluster import Actor, APIClient, Object, condition_of, is_terminating, set_condition
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["Fate", "Kubelet", "Outcome"]

PODS, NODES = "v1/pods", "v1/nodes"
_ACTOR = Actor("kubelet", "kubelet")
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")

Fate: TypeAlias = Literal["Running", "Succeeded", "Failed", "Unready", "Waiting"]
"""What becomes of a pod: it becomes ready, ends, runs without becoming ready, or never starts (a missing image)."""

Outcome: TypeAlias = Callable[[Mapping[str, Any]], "Fate | None"]
"""Decides the fate of a pod. None leaves it to the pod's restartPolicy."""


class _Run(NamedTuple):
    """The next step of a pod, and its time."""

    step: str
    at: float


class Kubelet:
    """Runs pods without containers.

    A pod starts when it has a node or, in a cluster without nodes, at once. Its status is only written at a step of its
    life, so a test may change it in between.

    Args:
        cluster: The objects.
        now: Returns the time of the event loop.
        startup, runtime, shutdown, outcome: As for `Controllers`.
    """

    def __init__(
        self,
        cluster: APIClient,
        now: Callable[[], float],
        startup: float,
        runtime: float,
        shutdown: float,
        outcome: Outcome | None,
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._seconds = {"start": startup, "end": runtime, "stop": shutdown}
        self._outcome = outcome
        self._runs: dict[str, _Run] = {}  # by uid
        self._addresses = 0  # pod IPs given so far

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return the pods that a change concerns."""
        if resource.group or resource.kind not in ("Pod", "Node"):
            return []
        if resource.kind == "Node":
            pods = self._cluster.all_of(PODS) if old is None or new is None else []
            return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods if _step(pod)]
        if new is None:
            assert old is not None
            self._runs.pop(old["metadata"]["uid"], None)
            return []
        return [(new["metadata"]["namespace"], new["metadata"]["name"])]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Take the next step of a pod if it is due, and return the seconds until the one after it."""
        pod = self._cluster.get(PODS, namespace, name)
        if pod is None or not (step := _step(pod)) or not self._has_place(pod):
            return None
        uid, now = pod["metadata"]["uid"], self._now()
        run = self._runs.get(uid)
        if run is None or run.step != step:
            if step == "start":
                pod = self._prepare(pod)
            run = self._runs[uid] = _Run(step, now + self._delay(pod, step))
        if run.at > now:
            return run.at - now
        fate = self._fate(pod)
        if step == "stop":
            self._stop(pod)
        elif step == "start":
            self._start(pod, fate)
        elif fate in ("Succeeded", "Failed"):
            self._end(pod, fate)
        return None

    def _fate(self, pod: Object) -> Fate:
        chosen = self._outcome(copy.deepcopy(pod)) if self._outcome is not None else None
        if chosen is not None:
            return chosen
        return "Running" if pod["spec"].get("restartPolicy", "Always") == "Always" else "Succeeded"

    def _delay(self, pod: Object, step: str) -> float:
        if step != "stop":
            return self._seconds[step]
        grace: float = pod["metadata"].get("deletionGracePeriodSeconds", 30)
        return min(self._seconds["stop"], grace)

    def _has_place(self, pod: Object) -> bool:
        return bool(pod["spec"].get("nodeName")) or not self._cluster.all_of(NODES)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _prepare(self, pod: Object) -> Object:
        """Write that the containers are being created."""
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        return self._report(pod, "Pending", lambda _: waiting, ready=False)

    def _start(self, pod: Object, fate: Fate) -> None:
        if fate == "Waiting":
            image = pod["spec"]["containers"][0].get("image", "")
            self._report(pod, "Pending", lambda _: {"waiting": {"reason": "ImagePullBackOff"}}, ready=False)
            self._cluster.event(_ACTOR, pod, "Failed", f'Failed to pull image "{image}"', "Warning")
            return
        started = {"running": {"startedAt": self._cluster.timestamp()}}
        self._report(pod, "Running", lambda _: started, ready=fate != "Unready")
        self._cluster.event(_ACTOR, pod, "Started", f"Started container {pod['spec']['containers'][0]['name']}")

    def _end(self, pod: Object, fate: Fate) -> None:
        code, reason = (0, "Completed") if fate == "Succeeded" else (1, "Error")
        self._report(pod, fate, lambda old: self._terminated(old, code, reason), ready=False)

    def _terminated(self, old: Object, code: int, reason: str) -> Object:
        now = self._cluster.timestamp()
        started = ((old.get("state") or {}).get("running") or {}).get("startedAt", now)
        return {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}}

    def _stop(self, pod: Object) -> None:
        """End a deleted pod: report what is left of it, then let the server remove it."""
        phase = (pod.get("status") or {}).get("phase")
        if phase not in ("Succeeded", "Failed"):
            own = pod["spec"].get("restartPolicy", "Always") != "Always"
            pod = self._report(
                pod,
                "Failed" if own else phase or "Pending",
                lambda old: self._terminated(old, 143 if own else 0, "Error" if own else "Completed"),
                ready=False,
            )
            self._cluster.event(_ACTOR, pod, "Killing", f"Stopping container {pod['spec']['containers'][0]['name']}")
        self._cluster.delete(PODS, pod, grace=0)

    # -- status ---------------------------------------------------------------------------------------------------

    def _report(self, pod: Object, phase: str, state: Callable[[Object], Object], *, ready: bool) -> Object:
        """Write the status of a pod and of its containers."""
        spec, now = pod["spec"], self._cluster.timestamp()
        status: Object = copy.deepcopy(pod.get("status") or {})
        before = {old["name"]: old for old in status.get("containerStatuses") or ()}
        status["phase"] = phase
        status.setdefault("startTime", now)
        self._address(status, spec.get("nodeName", ""))
        running = phase == "Running"
        for kind in _CONDITIONS:
            holds = kind == "Initialized" or (kind == "PodReadyToStartContainers" and running) or (running and ready)
            condition = {"type": kind, "status": "True" if holds else "False", "lastProbeTime": None}
            if not holds and kind in ("Ready", "ContainersReady"):
                condition["reason"] = "PodCompleted" if phase == "Succeeded" else "ContainersNotReady"
            set_condition(status, {**condition, "lastTransitionTime": now})
        if condition_of(status, "PodScheduled") is None:
            scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            set_condition(status, scheduled)
        status["containerStatuses"] = [
            _container(container, before.get(container["name"], {}), state, ready=running and ready)
            for container in spec["containers"]
        ]
        if spec.get("initContainers") and phase != "Pending":
            status["initContainerStatuses"] = [
                _container(container, {}, lambda old: self._terminated(old, 0, "Completed"), ready=True)
                for container in spec["initContainers"]
            ]
        return self._cluster.set_status(_ACTOR, PODS, pod, status)

    def _address(self, status: Object, node: str) -> None:
        if node:
            host = (self._cluster.get(NODES, "", node) or {}).get("status") or {}
            addresses = (entry["address"] for entry in host.get("addresses") or () if entry["type"] == "InternalIP")
            status["hostIP"] = next(addresses, "10.0.0.254")
            status["hostIPs"] = [{"ip": status["hostIP"]}]
        if "podIP" not in status:
            self._addresses += 1
            status["podIP"] = f"10.244.{self._addresses >> 8 & 255}.{self._addresses & 255}"
            status["podIPs"] = [{"ip": status["podIP"]}]


def _container(container: Object, before: Object, state: Callable[[Object], Object], *, ready: bool) -> Object:
    current = state(before)
    runs = "running" in current
    status = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": before.get("imageID", ""),
        "ready": ready,
        "started": runs,
        "restartCount": before.get("restartCount", 0),
        "state": current,
        "lastState": before.get("lastState", {}),
    }
    if runs:
        status["imageID"] = f"{container.get('image', '')}@sha256:0"
        status["containerID"] = f"containerd://{container['name']}"
    return status


def _step(pod: Object) -> str:
    """Return the next step of a pod: `start`, `end`, `stop`, or "" if it has ended."""
    phase = (pod.get("status") or {}).get("phase", "Pending")
    if is_terminating(pod):
        return "stop"
    if phase == "Pending":
        return "start" if not _is_stuck(pod) else ""
    return "end" if phase == "Running" else ""


def _is_stuck(pod: Object) -> bool:
    states = [container.get("state") or {} for container in (pod.get("status") or {}).get("containerStatuses") or ()]
    return any((container.get("waiting") or {}).get("reason") == "ImagePullBackOff" for container in states)
