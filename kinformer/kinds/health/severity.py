"""The severity of an object: whether something is wrong with it, and how far it is, by its readiness."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kinformer.kinds.health.custom_resources import BAD_PHASES
from kinformer.kinds.health.diagnosis import current_conditions, one_line
from kinformer.kinds.health.rules import ailment_of
from kinformer.kinds.state import condition_of_status
from kinformer.objects.accessors import number_at, string_at, tables_at, value_at
from kinformer.objects.pod_status import PodState
from kinformer.objects.types import Object

__all__ = ["Severity", "severity_of"]


class Severity(NamedTuple):
    """How well an object is.

    Attributes:
        level: `good`, `busy` (on its way), `bad`, `over` (finished, or scaled to zero), or "" if its kind has no state.
        changes_at: The time from which a busy object counts as bad, or a bad one no longer does, if nothing changes.
            In seconds since the epoch. None: never.
        reason: The reason in a few words, unless the object is good.
    """

    level: str
    changes_at: float | None = None
    reason: str = ""

    @property
    def bad_from(self) -> float | None:
        """The time from which a busy object counts as bad, or None."""
        return self.changes_at if self.level == "busy" else None


_NONE, _GOOD = Severity(""), Severity("good")
_REASON = 120  # characters


def severity_of(obj: Object, *, now: float | None = None, since: float | None = None) -> Severity:
    """Return how well an object is. Fields of another type than expected count as absent.

    An object is `bad` exactly when a rule of `kinformer.contrib.problems` has applied to it for longer than its grace
    time, unless other objects may show that nothing is wrong. Until then it is `busy`.

    Args:
        obj: A `KubeObject` or a dict, with apiVersion and kind.
        now: The time in seconds since the epoch. By default, the machine's.
        since: The time from which the present state counts, if the object does not tell.
    """
    now = time.time() if now is None else now
    ailment = ailment_of(obj, now)
    if ailment is None:
        group = string_at(obj, "apiVersion").rpartition("/")[0]
        return _KINDS.get((group, string_at(obj, "kind")), _other)(obj)
    began = ailment.began(obj)
    began = since if began is None else began
    reason = one_line(ailment.diagnosis.message, _REASON)
    if ailment.diagnosis.needs_others or began is None:
        return Severity("busy", reason=reason)
    bad_from = began + ailment.grace
    return Severity("bad", ailment.diagnosis.until, reason) if bad_from <= now else Severity("busy", bad_from, reason)


# --- objects to which no rule applies ---------------------------------------------------------------------------------


def _pod(pod: Object) -> Severity:
    phase, state = string_at(pod, "status", "phase"), PodState.of(pod)
    if phase in ("Succeeded", "Failed"):
        return Severity("over", reason=state.reason)
    if not phase:  # an informer may leave out the status
        return _NONE
    whole = state.ready + _finished(pod) >= state.total and condition_of_status(pod, "Ready") != "False"
    return _GOOD if phase == "Running" and whole else Severity("busy", reason=state.reason)


def _finished(pod: Object) -> int:
    """Return the number of containers that have ended well and are not started again."""
    if string_at(pod, "spec", "restartPolicy") in ("", "Always"):
        return 0
    statuses = tables_at(pod, "status", "containerStatuses")
    return sum(value_at(status, "state", "terminated", "exitCode") == 0 for status in statuses)


def _node(node: Object) -> Severity:
    if condition_of_status(node, "Ready") != "True":
        return Severity("busy", reason="does not report")
    return Severity("busy", reason="accepts no new pods") if value_at(node, "spec", "unschedulable") else _GOOD


def _replicated(workload: Object) -> Severity:
    desired = number_at(workload, "spec", "replicas", default=1)
    # A partition keeps the pods below it on their revision on purpose, and so does OnDelete.
    partition = number_at(workload, "spec", "updateStrategy", "rollingUpdate", "partition")
    updated = number_at(workload, "status", "updatedReplicas", default=desired)
    ready = number_at(workload, "status", "readyReplicas")
    return _workload(workload, desired, ready, number_at(workload, "status", "replicas"), updated + partition)


def _daemon_set(workload: Object) -> Severity:
    names = ("desiredNumberScheduled", "numberReady", "currentNumberScheduled")
    desired, ready, current = (number_at(workload, "status", name) for name in names)
    updated = number_at(workload, "status", "updatedNumberScheduled", default=desired)
    return _workload(workload, desired, ready, current, updated)


def _workload(workload: Object, desired: int, ready: int, current: int, updated: int) -> Severity:
    if not desired:
        return Severity("busy", reason="scales to zero") if current else Severity("over", reason="scaled to zero")
    if ready < desired:
        return Severity("busy", reason=f"{ready} of {desired} ready")
    on_delete = string_at(workload, "spec", "updateStrategy", "type") == "OnDelete"
    return _GOOD if on_delete or updated >= desired else Severity("busy", reason="is being updated")


def _job(job: Object) -> Severity:
    for name in ("Complete", "Suspended"):
        if condition_of_status(job, name) == "True":
            return Severity("over", reason=name.lower())
    failed = number_at(job, "status", "failed")
    return Severity("busy", reason=f"{failed} pods have failed") if failed else _GOOD


_PHASES = {
    "good": ("Active", "Available", "Bound", "Healthy", "Ready", "Running", "Succeeded"),
    "busy": (
        *("Creating", "Pending", "Progressing", "Provisioning", "Released", "Terminating", "Unknown", "Updating"),
        *("NotReady", *BAD_PHASES),
    ),
    "over": ("Completed", "Complete", "Suspended"),
}
_LEVELS = {phase: level for level, phases in _PHASES.items() for phase in phases}


def _by_phase(obj: Object) -> Severity:
    phase = string_at(obj, "status", "phase")
    level = _LEVELS.get(phase, "")
    return Severity(level, reason="" if level in ("", "good") else phase)


def _event(event: Object) -> Severity:
    return Severity("busy", reason="a warning") if event.get("type") == "Warning" else _NONE


def _other(obj: Object) -> Severity:
    """Return the severity of a custom resource, by the condition that most controllers write, or by its phase."""
    status = {string_at(condition, "type"): string_at(condition, "status") for condition in current_conditions(obj)}
    ready = status.get("Ready") or status.get("Available")
    return _by_phase(obj) if not ready else _GOOD if ready == "True" else Severity("busy", reason="not ready")


_KINDS: Mapping[tuple[str, str], Callable[[Object], Severity]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _event,
    ("apps", "Deployment"): _replicated,
    ("apps", "ReplicaSet"): _replicated,
    ("apps", "StatefulSet"): _replicated,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
}
