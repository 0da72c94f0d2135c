"""The troubles of the demo: a crash loop of five pods, a pod that no node can take, and a node that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from kinformer.cli.living.contents import deployment, node, timestamp
from kinformer.testing import APIServer

__all__ = ["AilingWorkloads"]

_CRASHING = ("payments", "checkout", 5)
_WAITING = ("search", "embeddings", 1)
_NODE = "node-6"
_RESTARTS = 60  # seconds between two restarts of a container
_AWAY = 120  # seconds for which the node is away, and then there
_BEFORE = 600.0  # seconds for which all of it has lasted at the start: no grace time hides it

Object = dict[str, Any]


class AilingWorkloads:
    """Keeps some workloads of a server ill, while its controllers run.

    Args:
        server: The server to write to. It has the namespaces of a `LivingCluster`.
    """

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._began = timestamp(_BEFORE)
        self._seconds = 0

    async def run(self) -> None:
        """Create the workloads, and keep them ill until cancelled."""
        self._server.create(deployment(*_CRASHING))
        waiting = deployment(*_WAITING)
        waiting["spec"]["template"]["spec"]["nodeSelector"] = {"accelerator": "gpu"}
        self._server.create(waiting)
        self._server.create(node(_NODE, ready="Unknown", ago=_BEFORE))
        while True:
            for pod in self._pods(_CRASHING):
                self._crash(pod)
            for pod in self._pods(_WAITING):
                self._wait(pod)
            await asyncio.sleep(1)
            self._seconds += 1
            if self._seconds % _AWAY == 0 and (host := self._server.get("v1/nodes", None, _NODE)) is not None:
                fresh = node(_NODE, ready="Unknown" if self._seconds // _AWAY % 2 == 0 else "True")
                self._server.update({**host, "status": {**host["status"], "conditions": fresh["status"]["conditions"]}})

    def _pods(self, workload: tuple[str, str, int]) -> Iterator[Object]:
        for pod in self._server.list("v1/pods", workload[0]):
            if pod["metadata"].get("labels", {}).get("app") == workload[1]:
                yield pod

    def _crash(self, pod: Object) -> None:
        """Let the container of a pod that has started end again and again."""
        status, restarts = pod.get("status") or {}, 6 + self._seconds // _RESTARTS
        if "deletionTimestamp" in pod["metadata"] or status.get("phase") != "Running":
            return
        (container,) = status["containerStatuses"]
        if container["restartCount"] == restarts:
            return
        ended = {"exitCode": 1, "reason": "Error", "startedAt": timestamp(3), "finishedAt": timestamp()}
        message = "back-off 5m0s restarting failed container=main"
        container.update(ready=False, started=False, restartCount=restarts, lastState={"terminated": ended})
        container["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        for condition in status["conditions"]:
            if condition["type"] in ("Ready", "ContainersReady") and condition["status"] == "True":
                condition.update(status="False", reason="ContainersNotReady", lastTransitionTime=timestamp())
        self._server.update(pod)

    def _wait(self, pod: Object) -> None:
        """Let a pod have waited for long, also when the scheduler has just counted the nodes again."""
        for condition in pod.get("status", {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["lastTransitionTime"] != self._began:
                condition["lastTransitionTime"] = self._began
                self._server.update(pod)
