"""The state of a pod, as shown by `kubectl get` (kubernetes, pkg/printers/internalversion/printers.go, printPod)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kinformer.objects.accessors import flag_at, number_at, string_at, tables_at, value_at

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
        self._pod = pod
        self._restartable = {
            string_at(container, "name")
            for container in tables_at(pod, "spec", "initContainers")
            if string_at(container, "restartPolicy") == "Always"
        }
        self._conditions = tables_at(pod, "status", "conditions")
        self.total = len(tables_at(pod, "spec", "containers")) + len(self._restartable)
        self.ready = 0
        self.restarts = 0
        self.restarted = ""
        phase, reason = string_at(pod, "status", "phase"), string_at(pod, "status", "reason")
        self.reason = reason or phase
        for condition in self._conditions:
            if string_at(condition, "type") == "PodScheduled" and string_at(condition, "reason") == "SchedulingGated":
                self.reason = "SchedulingGated"
        if not self._initializing() or self._is_true("Initialized"):
            self._containers()
        if value_at(pod, "metadata", "deletionTimestamp"):
            if reason == "NodeLost":
                self.reason = "Unknown"
            elif phase not in ("Succeeded", "Failed"):
                self.reason = "Terminating"

    def state(self) -> PodState:
        """Return the result."""
        gates = [string_at(gate, "conditionType") for gate in tables_at(self._pod, "spec", "readinessGates")]
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
        matching = (entry for entry in self._conditions if string_at(entry, "type") == condition)
        return any(string_at(entry, "status") == "True" for entry in matching)

    def _count(self, status: Object) -> tuple[int, str]:
        """Count a container's restarts. Returns their number, and the time when it last ended."""
        count, ended = number_at(status, "restartCount"), string_at(status, "lastState", "terminated", "finishedAt")
        self.restarts += count
        self.restarted = max(self.restarted, ended)
        return count, ended

    def _initializing(self) -> bool:
        """Return True if an init container still runs or has failed, and set `reason` accordingly."""
        kept = (0, "")
        for index, status in enumerate(tables_at(self._pod, "status", "initContainerStatuses")):
            count, ended = self._count(status)
            restartable = string_at(status, "name") in self._restartable
            if restartable:
                kept = (kept[0] + count, max(kept[1], ended))
            terminated, waiting = _state(status)
            if terminated is not None and not number_at(terminated, "exitCode"):
                continue
            if restartable and flag_at(status, "started"):
                self.ready += flag_at(status, "ready")
                continue
            if terminated is not None:
                self.reason = "Init:" + _ended(terminated)
            elif waiting and waiting != "PodInitializing":
                self.reason = f"Init:{waiting}"
            else:
                self.reason = f"Init:{index}/{len(tables_at(self._pod, 'spec', 'initContainers'))}"
            return True
        self.restarts, self.restarted = kept
        return False

    def _containers(self) -> None:
        running, failed = False, ""
        for status in reversed(tables_at(self._pod, "status", "containerStatuses")):
            self._count(status)
            terminated, waiting = _state(status)
            if waiting:
                self.reason = waiting
            elif terminated is not None:
                self.reason = _ended(terminated)
                if number_at(terminated, "exitCode"):
                    failed = self.reason
            elif flag_at(status, "ready") and value_at(status, "state", "running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and self._is_true("Ready"):
                self.reason = "Running"
            elif failed:
                self.reason = failed
            elif running:
                self.reason = "NotReady"


def _state(status: Object) -> tuple[Object | None, str]:
    """Return how a container ended, or None, and why it waits, or ""."""
    terminated = value_at(status, "state", "terminated")
    return terminated if isinstance(terminated, Mapping) else None, string_at(status, "state", "waiting", "reason")


def _ended(terminated: Object) -> str:
    if reason := string_at(terminated, "reason"):
        return reason
    signal = number_at(terminated, "signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{number_at(terminated, 'exitCode')}"


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
