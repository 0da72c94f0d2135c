"""The state of a pod, as shown by `kubectl get` (kubernetes, pkg/printers/internalversion/printers.go, printPod)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = ["PodState"]

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """The state of a pod, as shown by `kubectl get pods`. Created by `of`.

    Attributes:
        reason: The STATUS column: `Running`, `CrashLoopBackOff`, `Init:1/2`, `Completed`, `Terminating`, ...
        ready: The number of containers that are ready.
        total: The number of containers, including sidecars.
        restarts: The number of restarts of all containers.
        last_restart: The time when a container last ended before its restart, or None if unknown.
        open_gates: The number of readiness gates whose condition is true.
        gates: The number of readiness gates.
    """

    reason: str
    ready: int
    total: int
    restarts: int
    last_restart: datetime | None = None
    open_gates: int = 0
    gates: int = 0

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> PodState:
        """Return the state of a Pod, given as a `KubeObject` or as a dict."""
        return _ContainerTally(pod).state()


class _ContainerTally:
    """One pass over the statuses of a pod's containers."""

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

    def state(self) -> PodState:
        """Return the result."""
        gates = [one.get("conditionType", "") for one in self._spec.get("readinessGates") or []]
        return PodState(
            reason=self.reason,
            ready=self.ready,
            total=self.total,
            restarts=self.restarts,
            last_restart=_moment(self.restarted),
            open_gates=sum(map(self._is_true, gates)),
            gates=len(gates),
        )

    def _is_true(self, condition: str) -> bool:
        conditions = (one for one in self._status.get("conditions") or [] if one.get("type") == condition)
        return any(one.get("status") == "True" for one in conditions)

    def _count(self, status: Object) -> None:
        self.restarts += int(status.get("restartCount") or 0)
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.restarted = max(self.restarted, ended)

    def _initializing(self) -> bool:
        """Return True if an init container still runs or has failed, and set `reason` accordingly."""
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


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
