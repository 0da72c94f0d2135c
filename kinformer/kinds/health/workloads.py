"""The problems of workloads: rollouts that are stuck, missing replicas and failed Jobs."""

from __future__ import annotations

from kinformer.kinds.health.diagnosis import Diagnosis, controller_kind
from kinformer.objects.accessors import moment_at, number_at, string_at
from kinformer.objects.conditions import condition_of, is_observed
from kinformer.objects.types import Object

__all__ = ["cannot_create", "has_failed", "is_short", "is_stuck"]


def is_stuck(deployment: Object) -> Diagnosis | None:
    """Find a rollout that has made no progress within its deadline."""
    progressing = condition_of(deployment, "Progressing") or {}
    if progressing.get("status") != "False" or progressing.get("reason") != "ProgressDeadlineExceeded":
        return None
    return Diagnosis(
        reason="ProgressDeadlineExceeded",
        message=string_at(progressing, "message") or "the rollout makes no progress",
        since=moment_at(progressing, "lastTransitionTime"),
    )


def cannot_create(workload: Object) -> Diagnosis | None:
    """Find a workload whose pods are refused, by a quota for example."""
    failure = condition_of(workload, "ReplicaFailure") or {}
    if failure.get("status") != "True":
        failure = condition_of(workload, "Progressing") or {}
        if failure.get("status") != "False" or failure.get("reason") == "ProgressDeadlineExceeded":
            return None
    return Diagnosis(
        reason=string_at(failure, "reason") or "ReplicaFailure",
        message=string_at(failure, "message") or "pods cannot be created",
        since=moment_at(failure, "lastTransitionTime"),
        events=False,
    )


def is_short(workload: Object) -> Diagnosis | None:
    """Find a workload with fewer ready replicas than wanted."""
    kind = string_at(workload, "kind")
    if kind == "ReplicaSet" and controller_kind(workload):
        return None  # its Deployment tells
    if not is_observed(workload):
        return None  # the status is that of an earlier spec
    if kind == "DaemonSet":
        desired = number_at(workload, "status", "desiredNumberScheduled")
        ready = number_at(workload, "status", "numberReady")
    else:
        desired = number_at(workload, "spec", "replicas", default=1)
        ready = number_at(workload, "status", "readyReplicas")
    if ready >= desired:
        return None
    available = condition_of(workload, "Available") or {}
    since = moment_at(available, "lastTransitionTime") if available.get("status") == "False" else None
    return Diagnosis(
        reason="ReplicasMissing",
        message=f"{ready:,} of {desired:,} replicas ready",
        since=since,
        count=desired - ready,
        unit="replicas",
    )


def has_failed(job: Object) -> Diagnosis | None:
    """Find a Job that has failed."""
    failed = condition_of(job, "Failed") or {}
    if failed.get("status") != "True":
        return None
    return Diagnosis(
        reason=string_at(failed, "reason") or "Failed",
        message=string_at(failed, "message") or "the Job has failed",
        since=moment_at(failed, "lastTransitionTime"),
        needs_others=controller_kind(job) == "CronJob",  # whose later Job may have succeeded
    )
