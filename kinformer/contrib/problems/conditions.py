"""The problems that conditions of custom resources report, by the conventions of Kubernetes and of common operators.

A condition is good if true, such as `Ready`, or bad if true, such as `Stalled` (kstatus). A condition for an earlier
generation does not count. Conditions may have a `severity` (Cluster API, Knative), of which `Info` is no problem.
"""

from __future__ import annotations

from collections.abc import Iterator

from kinformer import KubeObject
from kinformer.contrib.problems.fields import Object, moment, number, tables, text
from kinformer.contrib.problems.problem import Found

__all__ = ["is_stalled", "is_unready"]

# Good if true: kstatus, cert-manager, Flux, Knative, Cluster API, Crossplane, Gateway API, Strimzi, KEDA.
_GOOD = (
    "Ready",
    "Available",
    "Healthy",
    "Synced",
    "Established",
    "NamesAccepted",
    "Accepted",
    "Programmed",
    "ResolvedRefs",
    "Reconciled",
    "ReconcileSuccess",
    "Valid",
)
_BAD = ("Stalled", "Degraded", "Failed", "Failure", "Error", "ReconcileError", "Errored", "Fallback")  # bad if true
_SLOW = 900.0  # seconds for which a condition may be unknown


def is_stalled(obj: KubeObject) -> Found | None:
    """Find a condition that is bad if true, such as `Stalled`."""
    for one in _conditions(obj):
        kind, status = text(one, "type"), one.get("status")
        # Conditions of Argo CD have no status. They exist while they hold.
        if (kind in _BAD and status == "True") or (kind.endswith("Error") and status in ("True", None)):
            return _found(one, f"{kind}={status or 'True'}")
    if text(obj, "status", "health", "status") == "Degraded":  # Argo CD
        return Found(reason="Degraded", message=text(obj, "status", "health", "message") or "degraded")
    return None


def is_unready(obj: KubeObject) -> Found | None:
    """Find a condition that is good if true, such as `Ready`, and is false."""
    found = {text(one, "type"): one for one in _conditions(obj)}
    for kind in _GOOD:
        one = found.get(kind, {})
        if one.get("status") in ("False", "Unknown"):
            return _found(one, f"{kind}={one['status']}", grace=_SLOW if one["status"] == "Unknown" else None)
    return None


def _conditions(obj: KubeObject) -> Iterator[Object]:
    """Yield the conditions for the current generation that are not for information only."""
    generation, of_status = number(obj, "metadata", "generation"), number(obj, "status", "observedGeneration")
    for one in tables(obj, "status", "conditions"):
        observed = number(one, "observedGeneration") or of_status
        if one.get("severity") != "Info" and not (observed and observed < generation):
            yield one


def _found(one: Object, name: str, grace: float | None = None) -> Found:
    reason, message = text(one, "reason"), text(one, "message")
    return Found(
        reason=name,
        message=": ".join(part for part in (reason, message) if part) or name,
        since=moment(one, "lastTransitionTime"),
        grace=grace,
    )
