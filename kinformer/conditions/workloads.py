"""Conditions of jobs and deployments."""

from __future__ import annotations

from kinformer.conditions.anything import Object, condition_status

__all__ = ["is_deployment_rolled_out", "is_job_complete", "is_job_failed"]


def is_job_complete(job: Object | None) -> bool:
    """True if the condition Complete of the job is True. A job that failed never is: see `is_job_failed`.

    (kube-rs, kube-runtime/src/wait.rs, `is_job_completed`)
    """
    return condition_status(job, "Complete") == "True"


def is_job_failed(job: Object | None) -> bool:
    """True if the condition Failed of the job is True: it will not be tried again.

    (kubernetes, pkg/controller/job/utils.go, `IsJobFinished`: Complete or Failed)
    """
    return condition_status(job, "Failed") == "True"


def is_deployment_rolled_out(deployment: Object | None) -> bool:
    """True if all replicas of the deployment are of its newest template and available, and no old ones are left.

    The rules of `kubectl rollout status` (kubectl, pkg/polymorphichelpers/rollout_status.go, `DeploymentStatusViewer`).
    A deployment whose progress deadline has passed is not rolled out; it may be yet, so kubectl's error is none here:
    `has_condition("Progressing", False)` tells.
    """
    if deployment is None:
        return False
    metadata, spec = deployment.get("metadata") or {}, deployment.get("spec") or {}
    status = deployment.get("status") or {}
    if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0):
        return False
    for one in status.get("conditions") or ():
        if one.get("type") == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded":
            return False
    wanted = spec.get("replicas")
    replicas, updated, available = (
        status.get(name) or 0 for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    return bool(updated >= (1 if wanted is None else wanted) and replicas <= updated <= available)
