"""The status of a pod as `kubectl get` prints it: kubernetes, pkg/printers/internalversion/printers.go, printPod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["PodState"]

Object = Mapping[str, Any]


class PodState:
    """The counts and the reason that `kubectl get` derives from the statuses of a pod's containers.

    Attributes:
        ready, total: The number of containers that are ready, and of all; sidecars included.
        restarts, restarted: The number of restarts of containers, and the time of the last one; empty if unknown.
        reason: The most important fact: `Running`, `CrashLoopBackOff`, `Init:1/2`, `Completed`, `Terminating`.
    """

    def __init__(self, pod: Object) -> None:
        self._spec: Object = pod.get("spec") or {}
        self._status: Object = pod.get("status") or {}
        self._restartable = {
            one.get("name") for one in self._spec.get("initContainers") or [] if one.get("restartPolicy") == "Always"
        }
        self.total = len(self._spec.get("containers") or []) + len(self._restartable)
        self.ready = 0
        self.restarts = 0
        self.restarted = ""
        self.reason: str = self._status.get("reason") or self._status.get("phase") or ""
        for condition in self._status.get("conditions") or []:
            if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
                self.reason = "SchedulingGated"
        if not self._initializing() or self._is_true("Initialized"):
            self._containers()
        terminal = self._status.get("phase") in ("Succeeded", "Failed")
        if (pod.get("metadata") or {}).get("deletionTimestamp"):
            if self._status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif not terminal:
                self.reason = "Terminating"

    def _is_true(self, condition: str) -> bool:
        found = (one for one in self._status.get("conditions") or [] if one.get("type") == condition)
        return any(one.get("status") == "True" for one in found)

    def _count(self, status: Object) -> None:
        self.restarts += int(status.get("restartCount") or 0)
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.restarted = max(self.restarted, ended)

    def _initializing(self) -> bool:
        """True if an init container is still running, or has failed; `reason` says which."""
        kept = (0, "")
        for index, status in enumerate(self._status.get("initContainerStatuses") or []):
            self._count(status)
            restartable = status.get("name") in self._restartable
            if restartable:
                ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
                kept = (kept[0] + int(status.get("restartCount") or 0), max(kept[1], ended))
            state = status.get("state") or {}
            terminated, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason")
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if restartable and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            if terminated is not None:
                self.reason = "Init:" + _ended(terminated)
            elif waiting and waiting != "PodInitializing":
                self.reason = f"Init:{waiting}"
            else:
                self.reason = f"Init:{index}/{len(self._spec.get('initContainers') or [])}"
            return True
        self.restarts, self.restarted = kept
        return False

    def _containers(self) -> None:
        running, failed = False, ""
        for status in reversed(self._status.get("containerStatuses") or []):
            self._count(status)
            state = status.get("state") or {}
            terminated, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason")
            if waiting:
                self.reason = waiting
            elif terminated is not None:
                self.reason = _ended(terminated)
                if terminated.get("exitCode"):
                    failed = self.reason
            elif status.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and self._is_true("Ready"):
                self.reason = "Running"
            elif failed:
                self.reason = failed
            elif running:
                self.reason = "NotReady"

    def gates(self) -> str:
        """Return the number of open readiness gates, of all."""
        wanted = [one.get("conditionType", "") for one in self._spec.get("readinessGates") or []]
        return f"{sum(map(self._is_true, wanted))}/{len(wanted)}" if wanted else "<none>"


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"
