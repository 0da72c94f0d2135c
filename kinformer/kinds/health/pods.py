"""The problems of pods: they crash, wait, cannot be scheduled, or are not ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kinformer.kinds.health.diagnosis import Diagnosis, controller_kind
from kinformer.objects.accessors import flag_at, moment_at, number_at, string_at, tables_at, value_at
from kinformer.objects.conditions import condition_of
from kinformer.objects.types import Object

__all__ = [
    "crashes",
    "fails",
    "has_no_image",
    "is_healthy",
    "is_not_ready",
    "is_not_started",
    "is_starting",
    "is_unschedulable",
]

# Reasons of waiting containers (kubernetes, pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime, container.go).
_IMAGE = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_START = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
        "StartError",
    }
)
_SETTLED = 600.0  # seconds of a run after which earlier ends do not count (kubelet, MaxContainerBackOff is reset)
_OFTEN = 3  # restarts after which a container that is not ready is crashing
# Reasons of failed pods that were told to go (kubernetes, pkg/kubelet, eviction, nodeshutdown, preemption).
_TOLD_TO_GO = frozenset({"DeadlineExceeded", "Evicted", "NodeShutdown", "Preempting", "Shutdown", "Terminated"})


def is_healthy(pod: Object) -> bool:
    """Return True if no rule can apply to a pod: it has ended well, its owner replaces it, or it is ready and stays."""
    if value_at(pod, "metadata", "deletionTimestamp"):
        return False
    phase = string_at(pod, "status", "phase")
    if phase == "Failed":
        return bool(tables_at(pod, "metadata", "ownerReferences"))
    return phase == "Succeeded" or (phase == "Running" and (condition_of(pod, "Ready") or {}).get("status") == "True")


def crashes(pod: Object) -> Diagnosis | None:
    """Find a container that ends again and again."""
    for name, status, is_init in _unready_containers(pod):
        if value_at(status, "state", "terminated", "exitCode") == 0:
            continue  # it has ended well, at last
        waits = string_at(status, "state", "waiting", "reason")
        runs_since = moment_at(status, "state", "running", "startedAt")
        ended = value_at(status, "lastState", "terminated") or value_at(status, "state", "terminated")
        restarts = number_at(status, "restartCount")
        often = restarts >= _OFTEN and _ran_for(ended) < _SETTLED
        if waits != "CrashLoopBackOff" and not (often and number_at(ended, "exitCode")):
            continue
        place = f"{'init container' if is_init else 'container'} {name}"
        return Diagnosis(
            reason=waits or _ended(ended) or "Error",
            message=f"{place} {_how_it_ended(ended)}, restarted {_times(restarts)}",
            since=_unready_since(pod),
            grace=0.0 if often and runs_since is None else None,
            until=None if runs_since is None else runs_since + _SETTLED,
            events=False,
        )
    return None


def has_no_image(pod: Object) -> Diagnosis | None:
    """Find a container whose image cannot be pulled."""
    return _waiting(pod, _IMAGE)


def is_not_started(pod: Object) -> Diagnosis | None:
    """Find a container that cannot be created or started."""
    return _waiting(pod, _START)


def is_unschedulable(pod: Object) -> Diagnosis | None:
    """Find a pod for which there is no node, or which no scheduler looks at."""
    scheduled = condition_of(pod, "PodScheduled") or {}
    if scheduled.get("reason") == "SchedulingGated":
        return None  # it waits for a program, not for a node
    waits = string_at(pod, "status", "phase") == "Pending" and not string_at(pod, "spec", "nodeName")
    if scheduled.get("status") == "True" or not (waits or scheduled.get("reason") == "Unschedulable"):
        return None
    return Diagnosis(
        reason=string_at(scheduled, "reason") or "NotScheduled",
        message=string_at(scheduled, "message") or "there is no node for it",
        since=moment_at(scheduled, "lastTransitionTime") or _created(pod),
        events=not scheduled,
    )


def fails(pod: Object) -> Diagnosis | None:
    """Find a failed pod that nothing replaces."""
    if string_at(pod, "status", "phase") != "Failed" or tables_at(pod, "metadata", "ownerReferences"):
        return None
    reason = string_at(pod, "status", "reason")
    if reason in _TOLD_TO_GO or condition_of(pod, "DisruptionTarget"):
        return None
    message, since = string_at(pod, "status", "message"), None
    for status in tables_at(pod, "status", "containerStatuses"):
        ended = value_at(status, "state", "terminated")
        if number_at(ended, "exitCode"):
            message = message or f"container {string_at(status, 'name')} {_how_it_ended(ended)}"
            reason = reason or _ended(ended)
            since = since or moment_at(ended, "finishedAt")
    return Diagnosis(
        reason=reason or "Failed", message=message or "the pod has failed", since=since or _unready_since(pod)
    )


def is_starting(pod: Object) -> Diagnosis | None:
    """Find a scheduled pod whose containers do not start."""
    if string_at(pod, "status", "phase") != "Pending" or not string_at(pod, "spec", "nodeName"):
        return None
    for name, status, is_init in _unready_containers(pod):
        if value_at(status, "state", "running") is not None:
            reason, what = "Initializing", f"init container {name} has not ended"
            if not is_init:
                break
        else:
            reason = string_at(status, "state", "waiting", "reason") or "Pending"
            what = string_at(status, "state", "waiting", "message") or f"container {name} waits"
        return Diagnosis(reason=reason, message=what, since=_scheduled(pod))
    return Diagnosis(reason="Pending", message="the kubelet has not started it", since=_scheduled(pod))


def is_not_ready(pod: Object) -> Diagnosis | None:
    """Find a running pod that is not ready."""
    ready = condition_of(pod, "Ready") or {}
    if string_at(pod, "status", "phase") not in ("Running", "Unknown") or ready.get("status") not in (
        "False",
        "Unknown",
    ):
        return None
    unready = [
        (name, status)
        for name, status, _ in _unready_containers(pod)
        if value_at(status, "state", "terminated") is None or number_at(status, "state", "terminated", "exitCode")
    ]
    if not unready and ready.get("reason") != "ReadinessGatesNotReady":
        return None  # containers that have ended well, such as those of a Job beside a sidecar
    what = (
        f"container {unready[0][0]} is not ready" if unready else string_at(ready, "message") or "the pod is not ready"
    )
    return Diagnosis(
        reason=string_at(ready, "reason") or "NotReady",
        message=what,
        since=_unready_since(pod),
        grace=1800.0 if controller_kind(pod) == "Job" else None,  # they serve nobody, and may take their time
    )


# --- containers -----------------------------------------------------------------------------------------


def _unready_containers(pod: Object) -> Iterator[tuple[str, Object, bool]]:
    """Yield the name and status of each container that is not ready, and whether it is an init container."""
    for status in tables_at(pod, "status", "initContainerStatuses"):
        ended = value_at(status, "state", "terminated")
        if not flag_at(status, "ready") and not (isinstance(ended, Mapping) and not number_at(ended, "exitCode")):
            yield string_at(status, "name"), status, True
    for status in tables_at(pod, "status", "containerStatuses"):
        if not flag_at(status, "ready"):
            yield string_at(status, "name"), status, False


def _waiting(pod: Object, reasons: frozenset[str]) -> Diagnosis | None:
    for name, status, is_init in _unready_containers(pod):
        reason = string_at(status, "state", "waiting", "reason")
        if reason in reasons:
            what = string_at(status, "state", "waiting", "message") or f"image {string_at(status, 'image')}"
            place = f"{'init container' if is_init else 'container'} {name}"
            return Diagnosis(reason=reason, message=f"{place}: {what}", since=_unready_since(pod), events=False)
    return None


def _ended(terminated: object) -> str:
    return string_at(terminated, "reason") or ("Error" if number_at(terminated, "exitCode") else "")


def _how_it_ended(terminated: object) -> str:
    """Return how a container ended: `ended with exit code 137 (OOMKilled)`."""
    if not isinstance(terminated, Mapping):
        return "ended"
    code, reason = number_at(terminated, "exitCode"), string_at(terminated, "reason")
    signal = number_at(terminated, "signal")
    end = f"ended by signal {signal}" if signal else f"ended with exit code {code}"
    return f"{end} ({reason})" if reason not in ("", "Error", "Completed") else end


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _ran_for(terminated: object) -> float:
    """Return the seconds of a run that has ended, or 0 if it does not tell."""
    began, ended = moment_at(terminated, "startedAt"), moment_at(terminated, "finishedAt")
    return 0.0 if began is None or ended is None else ended - began


# --- times ----------------------------------------------------------------------------------------------


def _created(pod: Object) -> float | None:
    return moment_at(pod, "metadata", "creationTimestamp")


def _unready_since(pod: Object) -> float | None:
    ready = condition_of(pod, "Ready") or {}
    return moment_at(ready, "lastTransitionTime") or _scheduled(pod)


def _scheduled(pod: Object) -> float | None:
    return moment_at(condition_of(pod, "PodScheduled") or {}, "lastTransitionTime") or _created(pod)
