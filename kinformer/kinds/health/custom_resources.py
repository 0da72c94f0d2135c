"""The problems that conditions of custom resources report, by the conventions of Kubernetes and of common operators.

A condition is good if true, such as `Ready`, or bad if true, such as `Stalled` (kstatus).
"""

from __future__ import annotations

from kinformer.kinds.health.diagnosis import Diagnosis, current_conditions
from kinformer.objects.accessors import flag_at, moment_at, string_at, table_at
from kinformer.objects.types import Object

__all__ = ["BAD_PHASES", "is_stalled", "is_stopped", "is_unready"]

# Good if true, the first that is false counts.
_GOOD = (
    *("Ready", "Available", "Healthy", "Synced"),  # kstatus, cert-manager, Flux, Knative, Cluster API, Crossplane
    *("Established", "NamesAccepted"),  # definitions
    *("Accepted", "Programmed", "ResolvedRefs"),  # the Gateway API
    *("Reconciled", "ReconcileSuccess", "Valid"),  # the Prometheus operator, OLM's operators
    *("ClusterAvailable", "ContinuousArchiving"),  # RabbitMQ, CloudNativePG
)
# Bad if true.
_BAD = (
    # kstatus, Argo CD, OpenShift, Kubeflow
    *("Stalled", "Degraded", "Failed", "Failure", "Failing", "Unhealthy", "Unavailable"),
    *("Error", "ErrorOccurred", "ReconcileError", "Errored"),  # Argo CD, OLM's operators, Knative
    *("NotReady", "Fallback", "Conflicted", "ACK.Terminal"),  # Strimzi, KEDA, the Gateway API, ACK
)
BAD_PHASES = ("Degraded", "Error", "Failed", "Failure", "Red", "Unhealthy")
_ENDS = ("completionTime", "completionTimestamp", "finishedAt", "terminationTime")
_SLOW = 900.0  # seconds for which a condition may be unknown

# Stopped on purpose: fields of the spec, annotations without their prefix, and conditions or their reasons. From Flux,
# Argo, KEDA, Crossplane, KubeVirt, Knative, Spark, Cluster API, Rancher, Strimzi and CloudNativePG.
_PAUSES = ("paused", "pause", "suspend", "suspended", "stopped", "halted", "hibernate", "hibernated")
_COUNTS = ("replicas", "instances", "numberOfInstances", "size")
_MARKS = ("paused", "pause", "pause-reconciliation", "reconcile-paused", "hibernation", "suspend")
_OFF = ("false", "off")
_STOPPED = (
    *("Paused", "ReconciliationPaused", "ReconcilePaused", "Suspended", "Hibernated", "Hibernation"),
    *("Halted", "Stopped", "ScaledToZero", "Disabled", "VMINotExists"),
)


def is_stopped(obj: Object) -> bool:
    """Return True if an object is paused, halted or scaled to zero on purpose."""
    spec, annotations = table_at(obj, "spec"), table_at(obj, "metadata", "annotations")
    return (
        any(flag_at(spec, name) for name in _PAUSES)
        or any(type(spec.get(name)) is int and spec[name] == 0 for name in _COUNTS)
        or spec.get("running") is False
        or spec.get("runStrategy") == "Halted"
        or any(str(name).rpartition("/")[2] in _MARKS and value not in _OFF for name, value in annotations.items())
        or any(
            string_at(condition, "type" if condition.get("status") == "True" else "reason") in _STOPPED
            for condition in current_conditions(obj)
        )
    )


def is_stalled(obj: Object) -> Diagnosis | None:
    """Find a condition that is bad if true, such as `Stalled`."""
    for condition in current_conditions(obj):
        kind, status = string_at(condition, "type"), condition.get("status")
        # Conditions of Argo CD have no status. They exist while they hold.
        if (kind in _BAD and status == "True") or (kind.endswith("Error") and status in ("True", None)):
            return _diagnosis(condition, f"{kind}={status or 'True'}")
    if string_at(obj, "status", "health", "status") == "Degraded":  # Argo CD
        return Diagnosis(reason="Degraded", message=string_at(obj, "status", "health", "message") or "degraded")
    return _by_phase(obj)


def _by_phase(obj: Object) -> Diagnosis | None:
    """Find an object without conditions whose phase is bad. A run that has ended is over, however it ended."""
    status = table_at(obj, "status")
    phase = "Red" if status.get("health") == "red" else string_at(status, "phase")  # ECK
    if phase not in BAD_PHASES or any(name in status for name in _ENDS):
        return None
    message = string_at(status, "message") or string_at(status, "reason") or f"its phase is {phase}"
    return Diagnosis(reason=phase, message=message)


def is_unready(obj: Object) -> Diagnosis | None:
    """Find a condition that is good if true, such as `Ready`, and is false."""
    conditions = [condition for condition in current_conditions(obj) if condition.get("status") in ("False", "Unknown")]
    for kind in _GOOD:
        for condition in conditions:
            if condition.get("type") == kind:
                status = condition["status"]
                return _diagnosis(condition, f"{kind}={status}", grace=_SLOW if status == "Unknown" else None)
    return None


def _diagnosis(condition: Object, name: str, grace: float | None = None) -> Diagnosis:
    reason, message = string_at(condition, "reason"), string_at(condition, "message")
    return Diagnosis(
        reason=name,
        message=": ".join(part for part in (reason, message) if part) or name,
        since=moment_at(condition, "lastTransitionTime"),
        grace=grace,
    )
