"""The problems of workloads: rollouts that are stuck, missing replicas and failed Jobs."""

from __future__ import annotations

from kinformer import KubeObject
from kinformer.contrib.problems.fields import moment, number, text
from kinformer.contrib.problems.problem import Found
from kinformer.objects import condition_of, controller_of

__all__ = ["cannot_create", "has_failed", "is_short", "is_stuck"]


def is_stuck(deployment: KubeObject) -> Found | None:
    """Find a rollout that has made no progress within its deadline."""
    progressing = condition_of(deployment, "Progressing") or {}
    if progressing.get("status") != "False" or progressing.get("reason") != "ProgressDeadlineExceeded":
        return None
    return Found(
        reason="ProgressDeadlineExceeded",
        message=text(progressing, "message") or "the rollout makes no progress",
        since=moment(progressing, "lastTransitionTime"),
    )


def cannot_create(workload: KubeObject) -> Found | None:
    """Find a workload whose pods are refused, by a quota for example."""
    failure = condition_of(workload, "ReplicaFailure") or {}
    if failure.get("status") != "True":
        return None
    return Found(
        reason=text(failure, "reason") or "ReplicaFailure",
        message=text(failure, "message") or "pods cannot be created",
        since=moment(failure, "lastTransitionTime"),
        events=False,
    )


def is_short(workload: KubeObject) -> Found | None:
    """Find a workload with fewer ready replicas than wanted."""
    if workload.kind == "ReplicaSet" and controller_of(workload) is not None:
        return None  # its Deployment tells
    if number(workload, "status", "observedGeneration") < number(workload, "metadata", "generation"):
        return None  # the status is that of an earlier spec
    if workload.kind == "DaemonSet":
        wanted = number(workload, "status", "desiredNumberScheduled")
        ready = number(workload, "status", "numberReady")
    else:
        wanted = number(workload, "spec", "replicas", default=1)
        ready = number(workload, "status", "readyReplicas")
    if ready >= wanted:
        return None
    available = condition_of(workload, "Available") or {}
    since = moment(available, "lastTransitionTime") if available.get("status") == "False" else None
    return Found(
        reason="ReplicasMissing",
        message=f"{ready:,} of {wanted:,} replicas ready",
        since=since,
        count=wanted - ready,
        unit="replicas",
    )


def has_failed(job: KubeObject) -> Found | None:
    """Find a Job that has failed."""
    failed = condition_of(job, "Failed") or {}
    if failed.get("status") != "True":
        return None
    return Found(
        reason=text(failed, "reason") or "Failed",
        message=text(failed, "message") or "the Job has failed",
        since=moment(failed, "lastTransitionTime"),
    )
