"""The state of an object in a word, as the STATUS column of `kubectl get` has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kinformer.objects.accessors import flag_at, string_at, tables_at, value_at
from kinformer.objects.pod_status import PodState
from kinformer.objects.types import Object

__all__ = ["condition_of_status", "job_state", "node_state", "phase", "state_of"]


_ENDED = ("Complete", "Failed")
_HALTED = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
_READY = {"True": "Ready", "False": "NotReady"}


def state_of(obj: Object) -> str:
    """Return the state of an object, such as `Running`, `CrashLoopBackOff`, `Ready` or `Bound`, or "" if it has none.

    Pods, nodes and Jobs have the words of `kubectl get`. Other objects have their `status.phase`, or else `Ready` or
    `NotReady` by their condition `Ready` or `Available`. `Terminating` is an object that is being deleted.

    Args:
        obj: A `KubeObject` or a dict, with apiVersion and kind.
    """
    group = string_at(obj, "apiVersion").rpartition("/")[0]
    state = _STATES.get((group, string_at(obj, "kind")))
    if state is not None:
        return state(obj)
    if word := phase(obj):
        return word
    status = condition_of_status(obj, "Ready") or condition_of_status(obj, "Available")
    return _READY.get(status, status)


def condition_of_status(obj: Object, kind: str) -> str:
    """Return the status of a condition, whatever generation it is for, or "" if there is none."""
    conditions = tables_at(obj, "status", "conditions")
    return next((string_at(entry, "status") for entry in conditions if string_at(entry, "type") == kind), "")


def phase(obj: Object) -> str:
    """Return `status.phase`, or `Terminating` for an object that is being deleted."""
    return "Terminating" if value_at(obj, "metadata", "deletionTimestamp") else string_at(obj, "status", "phase")


def node_state(node: Object) -> str:
    """Return `Ready`, `NotReady` or `Unknown`, and whether scheduling is disabled."""
    status = condition_of_status(node, "Ready")
    ready = "Unknown" if not status else "Ready" if status == "True" else "NotReady"
    return f"{ready},SchedulingDisabled" if flag_at(node, "spec", "unschedulable") else ready


def job_state(job: Object) -> str:
    """Return the condition that a Job has reached, or else `Running`."""
    conditions = tables_at(job, "status", "conditions")
    true = {string_at(condition, "type") for condition in conditions if condition.get("status") == "True"}
    ended = next((kind for kind in _ENDED if kind in true), "")
    if not ended and value_at(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    return ended or next((kind for kind in _HALTED if kind in true), "Running")


_STATES: Mapping[tuple[str, str], Callable[[Object], str]] = {
    ("", "Pod"): lambda pod: PodState.of(pod).reason or "Unknown",
    ("", "Node"): node_state,
    ("batch", "Job"): job_state,
}
