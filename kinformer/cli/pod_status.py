"""The three words about a pod that need more than a look at one field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinformer.cli.ages import age

__all__ = ["pod_ready", "pod_restarts", "pod_status"]

Object = Mapping[str, Any]


def pod_status(pod: Object) -> str:
    """`Running`, `CrashLoopBackOff`, `Init:1/2`, `Completed`, `Terminating`: the first thing to know.

    (kubernetes, pkg/printers/internalversion/printers.go, printPod.)
    """
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "Unknown")
    initializing = _init_reason(pod)
    if initializing is not None:
        reason = initializing
    else:
        reason = _container_reason(_statuses(pod, "containerStatuses"), reason)
        if reason == "Completed" and any(_is_running_ready(one) for one in _statuses(pod, "containerStatuses")):
            reason = "Running" if _has_ready_condition(status) else "NotReady"
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def pod_ready(pod: Object) -> str:
    """Ready containers of all: `1/2`."""
    ready = sum(1 for one in _statuses(pod, "containerStatuses") if one.get("ready"))
    return f"{ready}/{len((pod.get('spec') or {}).get('containers') or ())}"


def pod_restarts(pod: Object) -> str:
    """How often its containers were started again, and when that was last: `3 (5m ago)`."""
    statuses = _statuses(pod, "containerStatuses")
    restarts = sum(int(one.get("restartCount") or 0) for one in statuses)
    ends = [
        str(ended)
        for one in statuses
        if (ended := ((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    return f"{restarts} ({age(max(ends))} ago)" if restarts and ends else str(restarts)


def _statuses(pod: Object, name: str) -> Sequence[Object]:
    return (pod.get("status") or {}).get(name) or ()


def _init_reason(pod: Object) -> str | None:
    """What the init containers are at; None once they are through."""
    spec = pod.get("spec") or {}
    containers = spec.get("initContainers") or ()
    # A sidecar is an init container that restarts always: it holds the others up only until it has started.
    sidecars = {one.get("name") for one in containers if one.get("restartPolicy") == "Always"}
    for number, one in enumerate(_statuses(pod, "initContainerStatuses")):
        state = one.get("state") or {}
        terminated = state.get("terminated")
        if terminated and not terminated.get("exitCode"):
            continue
        if one.get("name") in sidecars and one.get("started"):
            continue
        if terminated:
            return f"Init:{_termination(terminated)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{number}/{len(containers)}"
    return None


def _container_reason(statuses: Sequence[Object], reason: str) -> str:
    for one in reversed(statuses):
        state = one.get("state") or {}
        if waiting := (state.get("waiting") or {}).get("reason"):
            reason = str(waiting)
        elif terminated := state.get("terminated"):
            reason = _termination(terminated)
    return reason


def _termination(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _is_running_ready(status: Object) -> bool:
    return bool(status.get("ready")) and "running" in (status.get("state") or {})


def _has_ready_condition(status: Object) -> bool:
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
