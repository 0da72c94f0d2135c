"""The problems of pods: they crash, wait, cannot be scheduled, or are not ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kinformer import KubeObject
from kinformer.contrib.problems.fields import Object, flag, moment, number, tables, text, value
from kinformer.contrib.problems.problem import Found
from kinformer.objects import condition_of, controller_of

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
_OFTEN = 3  # restarts after which a container that is not ready is crashing, however short its last run was
# Reasons of failed pods that were told to go (kubernetes, pkg/kubelet, eviction, nodeshutdown, preemption).
_TOLD_TO_GO = frozenset({"DeadlineExceeded", "Evicted", "NodeShutdown", "Preempting", "Shutdown", "Terminated"})


def is_healthy(pod: KubeObject) -> bool:
    """Return True if no rule can apply to a pod: it has ended well, or is ready and stays."""
    if value(pod, "metadata", "deletionTimestamp"):
        return False
    phase = text(pod, "status", "phase")
    return phase == "Succeeded" or (phase == "Running" and (condition_of(pod, "Ready") or {}).get("status") == "True")


def crashes(pod: KubeObject) -> Found | None:
    """Find a container that ends again and again."""
    for name, status, is_init in _unready_containers(pod):
        waits = text(status, "state", "waiting", "reason")
        ended = value(status, "lastState", "terminated") or value(status, "state", "terminated")
        restarts = number(status, "restartCount")
        if waits != "CrashLoopBackOff" and not (restarts >= _OFTEN and number(ended, "exitCode")):
            continue
        place = f"{'init container' if is_init else 'container'} {name}"
        return Found(
            reason=waits or _ended(ended) or "Error",
            message=f"{place} {_how_it_ended(ended)}, restarted {_times(restarts)}",
            since=_unready_since(pod),
            grace=0.0 if restarts >= _OFTEN else None,
            events=False,
        )
    return None


def has_no_image(pod: KubeObject) -> Found | None:
    """Find a container whose image cannot be pulled."""
    return _waiting(pod, _IMAGE)


def is_not_started(pod: KubeObject) -> Found | None:
    """Find a container that cannot be created or started."""
    return _waiting(pod, _START)


def is_unschedulable(pod: KubeObject) -> Found | None:
    """Find a pod for which there is no node."""
    scheduled = condition_of(pod, "PodScheduled") or {}
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return None  # a pod with scheduling gates waits for a program, not for a node
    since = moment(scheduled, "lastTransitionTime") or _created(pod)
    return Found(
        reason="Unschedulable",
        message=text(scheduled, "message") or "there is no node for it",
        since=since,
        events=False,
    )


def fails(pod: KubeObject) -> Found | None:
    """Find a failed pod that nothing replaces."""
    if text(pod, "status", "phase") != "Failed" or pod.owner_references:
        return None
    reason = text(pod, "status", "reason")
    if reason in _TOLD_TO_GO or condition_of(pod, "DisruptionTarget"):
        return None
    message, since = text(pod, "status", "message"), None
    for status in tables(pod, "status", "containerStatuses"):
        ended = value(status, "state", "terminated")
        if number(ended, "exitCode"):
            message = message or f"container {text(status, 'name')} {_how_it_ended(ended)}"
            reason = reason or _ended(ended)
            since = since or moment(ended, "finishedAt")
    return Found(reason=reason or "Failed", message=message or "the pod has failed", since=since or _unready_since(pod))


def is_starting(pod: KubeObject) -> Found | None:
    """Find a scheduled pod whose containers do not start."""
    if text(pod, "status", "phase") != "Pending" or not text(pod, "spec", "nodeName"):
        return None
    for name, status, is_init in _unready_containers(pod):
        if value(status, "state", "running") is not None:
            reason, what = "Initializing", f"init container {name} has not ended"
            if not is_init:
                break
        else:
            reason = text(status, "state", "waiting", "reason") or "Pending"
            what = text(status, "state", "waiting", "message") or f"container {name} waits"
        return Found(reason=reason, message=what, since=_scheduled(pod))
    return Found(reason="Pending", message="the kubelet has not started it", since=_scheduled(pod))


def is_not_ready(pod: KubeObject) -> Found | None:
    """Find a running pod that is not ready."""
    ready = condition_of(pod, "Ready") or {}
    if text(pod, "status", "phase") not in ("Running", "Unknown") or ready.get("status") not in ("False", "Unknown"):
        return None
    unready = [
        (name, status)
        for name, status, _ in _unready_containers(pod)
        if value(status, "state", "terminated") is None or number(status, "state", "terminated", "exitCode")
    ]
    if not unready and ready.get("reason") != "ReadinessGatesNotReady":
        return None  # containers that have ended well, such as those of a Job beside a sidecar
    what = f"container {unready[0][0]} is not ready" if unready else text(ready, "message") or "the pod is not ready"
    return Found(
        reason=text(ready, "reason") or "NotReady",
        message=what,
        since=_unready_since(pod),
        grace=None if _is_served(pod) else 1800.0,
    )


def _is_served(pod: KubeObject) -> bool:
    """Return True unless the pod belongs to a Job, whose pods serve nobody and may take their time."""
    owner = controller_of(pod)
    return owner is None or owner.kind != "Job"


# --- containers -----------------------------------------------------------------------------------------


def _unready_containers(pod: KubeObject) -> Iterator[tuple[str, Object, bool]]:
    """Yield the name and status of each container that is not ready, and whether it is an init container."""
    for status in tables(pod, "status", "initContainerStatuses"):
        ended = value(status, "state", "terminated")
        if not flag(status, "ready") and not (isinstance(ended, Mapping) and not number(ended, "exitCode")):
            yield text(status, "name"), status, True
    for status in tables(pod, "status", "containerStatuses"):
        if not flag(status, "ready"):
            yield text(status, "name"), status, False


def _waiting(pod: KubeObject, reasons: frozenset[str]) -> Found | None:
    for name, status, is_init in _unready_containers(pod):
        reason = text(status, "state", "waiting", "reason")
        if reason in reasons:
            what = text(status, "state", "waiting", "message") or f"image {text(status, 'image')}"
            place = f"{'init container' if is_init else 'container'} {name}"
            return Found(reason=reason, message=f"{place}: {what}", since=_unready_since(pod), events=False)
    return None


def _ended(terminated: object) -> str:
    return text(terminated, "reason") or ("Error" if number(terminated, "exitCode") else "")


def _how_it_ended(terminated: object) -> str:
    """Return how a container ended: `ended with exit code 137 (OOMKilled)`."""
    if not isinstance(terminated, Mapping):
        return "ended"
    code, reason = number(terminated, "exitCode"), text(terminated, "reason")
    signal = number(terminated, "signal")
    end = f"ended by signal {signal}" if signal else f"ended with exit code {code}"
    return f"{end} ({reason})" if reason not in ("", "Error", "Completed") else end


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


# --- times ----------------------------------------------------------------------------------------------


def _created(pod: KubeObject) -> float | None:
    return moment(pod, "metadata", "creationTimestamp")


def _unready_since(pod: KubeObject) -> float | None:
    ready = condition_of(pod, "Ready") or {}
    return moment(ready, "lastTransitionTime") or _scheduled(pod)


def _scheduled(pod: KubeObject) -> float | None:
    return moment(condition_of(pod, "PodScheduled") or {}, "lastTransitionTime") or _created(pod)
