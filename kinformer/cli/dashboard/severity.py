"""The severity of an object, by its readiness rather than its phase. The page shows it as a colour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kinformer.cli.dashboard.ticking import moment
from kinformer.cli.output.cells import value_at
from kinformer.contrib.problems import RULES
from kinformer.objects import PodState

__all__ = ["Severity", "severity_of"]

# The grace times of the rules for problems, so that a red object is on both pages.
_GRACES = {rule.name: rule.grace for rule in RULES}

Object = Mapping[str, Any]


class Severity(NamedTuple):
    """How well an object does.

    Attributes:
        level: `good`, `busy` (on its way), `bad`, `over` (finished, or scaled to zero), or "" if its kind has no state.
        bad_from: The time from which a busy object counts as bad. None: never.
        reason: The reason in a few words, unless the object is good.
    """

    level: str
    bad_from: float | None = None
    reason: str = ""


_NONE = Severity("")
_GOOD = Severity("good")


def severity_of(group: str, kind: str, document: Object) -> Severity:
    """Return the severity of an object. Fields of another type than expected count as absent."""
    severity = _KINDS.get((group, kind), _other)(document)
    deleted = moment(value_at(document, "metadata.deletionTimestamp"))
    if deleted is not None and severity.level not in ("bad", "over"):
        return Severity("busy", deleted + _GRACES["hangs"], "is being deleted")
    return severity


# --- what several kinds have --------------------------------------------------------------------------------------


def _number(document: Object, path: str, default: int = 0) -> int:
    value = value_at(document, path, default)
    return value if isinstance(value, int) else default


def _tables(document: Object, path: str) -> list[Object]:
    found = value_at(document, path, ())
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _conditions(document: Object) -> dict[str, Object]:
    return {str(one.get("type")): one for one in _tables(document, "status.conditions")}


def _is(condition: Object | None, status: str) -> bool:
    return condition is not None and condition.get("status") == status


def _after(rule: str, *times: Any) -> float | None:
    """Return the end of a rule's grace, which begins at the first of some times that is known."""
    return next((found + _GRACES[rule] for time in times if (found := moment(time)) is not None), None)


def _touched(document: Object) -> Any:
    """Return the time of the last write, if the server keeps it, or else of the creation."""
    written = [str(one.get("time", "")) for one in _tables(document, "metadata.managedFields")]
    return max(written, default="") or value_at(document, "metadata.creationTimestamp")


def _because(condition: Object) -> str:
    return str(condition.get("reason") or condition.get("type") or "")


# --- pods and nodes -----------------------------------------------------------------------------------------------


def _pod(pod: Object) -> Severity:
    state, phase = PodState.of(pod), value_at(pod, "status.phase")
    if phase == "Succeeded":
        return Severity("over", reason="completed")
    if not phase:  # an informer may leave out the status
        return _NONE
    reason = state.reason.removeprefix("Init:")
    if phase == "Failed" or _fails(reason):
        return Severity("bad", reason=state.reason)
    conditions = _conditions(pod)
    created, started = value_at(pod, "metadata.creationTimestamp"), value_at(pod, "status.startTime")
    scheduled = conditions.get("PodScheduled", {})
    if _is(scheduled, "False") and scheduled.get("reason") == "Unschedulable":
        return Severity(
            "busy", _after("unschedulable", scheduled.get("lastTransitionTime"), created), "cannot be scheduled"
        )
    if phase != "Running":
        gated = state.reason == "SchedulingGated"
        return Severity("busy", None if gated else _after("starting", started, created), state.reason)
    statuses, ready = _tables(pod, "status.containerStatuses"), conditions.get("Ready")
    if state.ready + _finished(pod, statuses) >= state.total and not _is(ready, "False"):
        return _GOOD
    running = [str(value_at(one, "state.running.startedAt", "")) for one in statuses]
    since = (ready or {}).get("lastTransitionTime") or max(running, default="")
    return Severity(
        "busy", _after("not-ready", since, started, created), f"{state.ready} of {state.total} containers are ready"
    )


def _fails(reason: str) -> bool:
    """Return True if a reason is that of a container which cannot start, or which has failed."""
    if reason.startswith(("Err", "Invalid", "ExitCode:", "Signal:")):
        return reason != "ExitCode:0"
    return reason.endswith(("Error", "BackOff")) or reason in ("OOMKilled", "Evicted", "ContainerCannotRun", "Unknown")


def _finished(pod: Object, statuses: Iterable[Object]) -> int:
    """Return the number of containers that have ended well and are not started again."""
    if value_at(pod, "spec.restartPolicy", "Always") == "Always":
        return 0
    return sum(value_at(one, "state.terminated.exitCode") == 0 for one in statuses)


def _node(node: Object) -> Severity:
    conditions = _conditions(node)
    ready = conditions.get("Ready")
    if not _is(ready, "True"):
        return Severity("bad", reason="not ready" if _is(ready, "False") else "does not report")
    ill = [name for name, one in conditions.items() if name.endswith(("Pressure", "Unavailable")) and _is(one, "True")]
    if ill:
        return Severity("bad", reason=", ".join(ill))
    return Severity("busy", reason="accepts no new pods") if value_at(node, "spec.unschedulable") else _GOOD


# --- workloads ----------------------------------------------------------------------------------------------------


def _replicated(workload: Object) -> Severity:
    status = value_at(workload, "status", {})
    updated = _number(status, "updatedReplicas", -1)
    wanted = _number(workload, "spec.replicas", 1)
    return _workload(workload, wanted, _number(status, "readyReplicas"), _number(status, "replicas"), updated)


def _daemon_set(workload: Object) -> Severity:
    status = value_at(workload, "status", {})
    wanted, current = _number(status, "desiredNumberScheduled"), _number(status, "currentNumberScheduled")
    return _workload(
        workload, wanted, _number(status, "numberReady"), current, _number(status, "updatedNumberScheduled", -1)
    )


def _workload(workload: Object, wanted: int, ready: int, current: int, updated: int) -> Severity:
    """Return the severity by the numbers of pods. `updated` is -1 if it is not known."""
    conditions = _conditions(workload)
    for name, status in (("Progressing", "False"), ("ReplicaFailure", "True")):
        if _is(conditions.get(name), status):
            return Severity("bad", reason=_because(conditions[name]))
    if not wanted:
        return Severity("busy", reason="scales to zero") if current else Severity("over", reason="scaled to zero")
    if ready >= wanted:
        on_delete = value_at(workload, "spec.updateStrategy.type") == "OnDelete"
        return _GOOD if on_delete or not 0 <= updated < wanted else Severity("busy", reason="is being updated")
    available = conditions.get("Available")
    since = available.get("lastTransitionTime") if available is not None and _is(available, "False") else None
    if ready and since is None:  # some pods serve
        return Severity("busy", reason=f"{ready} of {wanted} ready")
    progress = conditions.get("Progressing", {}).get("lastUpdateTime")
    return Severity("busy", _after("replicas", since, progress, _touched(workload)), f"{ready} of {wanted} ready")


def _job(job: Object) -> Severity:
    conditions = _conditions(job)
    for name in ("Failed", "FailureTarget"):
        if _is(conditions.get(name), "True"):
            return Severity("bad", reason=_because(conditions[name]))
    for name in ("Complete", "Suspended"):
        if _is(conditions.get(name), "True"):
            return Severity("over", reason=name.lower())
    failed = _number(job, "status.failed")
    return Severity("busy", reason=f"{failed} pods have failed") if failed else _GOOD


# --- other kinds --------------------------------------------------------------------------------------------------

_PHASES = {
    "good": ("Active", "Available", "Bound", "Healthy", "Ready", "Running", "Succeeded"),
    "busy": ("Creating", "Pending", "Progressing", "Provisioning", "Released", "Terminating", "Unknown", "Updating"),
    "bad": ("Degraded", "Error", "Failed", "Lost", "NotReady", "Unhealthy"),
    "over": ("Completed", "Complete", "Suspended"),
}
_LEVELS = {phase: level for level, phases in _PHASES.items() for phase in phases}
_ILL_IF_TRUE = ("Stalled", "Degraded", "Failed")


def _by_phase(document: Object) -> Severity:
    phase = str(value_at(document, "status.phase", ""))
    level = _LEVELS.get(phase, "")
    return Severity(level, reason="" if level in ("", "good") else phase)


def _event(event: Object) -> Severity:
    return Severity("busy", reason="a warning") if event.get("type") == "Warning" else _NONE


def _other(document: Object) -> Severity:
    """Return the severity of a custom resource, by the conditions that most controllers write, or by its phase."""
    conditions = _conditions(document)
    for name in _ILL_IF_TRUE:
        if _is(conditions.get(name), "True"):
            return Severity("bad", reason=_because(conditions[name]))
    ready = conditions.get("Ready") or conditions.get("Available")
    if ready is None:
        return _by_phase(document)
    if _is(ready, "True"):
        return _GOOD
    unknown = not _is(ready, "False")
    since = None if unknown else _after("condition", ready.get("lastTransitionTime"), _touched(document))
    return Severity("busy", since, _because(ready))


_KINDS: Mapping[tuple[str, str], Callable[[Object], Severity]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _event,
    ("", "Namespace"): _by_phase,
    ("", "PersistentVolume"): _by_phase,
    ("", "PersistentVolumeClaim"): _by_phase,
    ("apps", "Deployment"): _replicated,
    ("apps", "ReplicaSet"): _replicated,
    ("apps", "StatefulSet"): _replicated,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
}
