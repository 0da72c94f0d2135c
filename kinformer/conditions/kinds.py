"""Conditions of one kind each: Pods, Jobs, Deployments, definitions and Services."""

from __future__ import annotations

from kinformer.conditions.anything import Object, condition_status, false_of_none

__all__ = [
    "is_crd_established",
    "is_deployment_rolled_out",
    "is_job_complete",
    "is_job_failed",
    "is_loadbalancer_ready",
    "is_pod_ready",
    "is_pod_running",
    "is_pod_serving",
]


@false_of_none
def is_pod_running(pod: Object | None) -> bool:
    """True if the phase of the pod is Running: its containers have been started, not that they answer.

    (kube-rs, kube-runtime/src/wait.rs, `is_pod_running`)
    """
    return pod is not None and (pod.get("status") or {}).get("phase") == "Running"


@false_of_none
def is_pod_ready(pod: Object | None) -> bool:
    """True if the condition Ready of the pod is True, which a pod that is being deleted may still be.

    (kubernetes, pkg/api/v1/pod/util.go, `IsPodReady`)
    """
    return condition_status(pod, "Ready") == "True"


@false_of_none
def is_pod_serving(pod: Object | None) -> bool:
    """True if a Service sends requests to the pod: it is ready, and is not being deleted.

    (kubernetes, staging/src/k8s.io/endpointslice/utils.go, `podToEndpoint`: `ready`)
    """
    return is_pod_ready(pod) and not ((pod or {}).get("metadata") or {}).get("deletionTimestamp")


@false_of_none
def is_job_complete(job: Object | None) -> bool:
    """True if the condition Complete of the job is True. A job that failed never is: see `is_job_failed`.

    (kube-rs, kube-runtime/src/wait.rs, `is_job_completed`)
    """
    return condition_status(job, "Complete") == "True"


@false_of_none
def is_job_failed(job: Object | None) -> bool:
    """True if the condition Failed of the job is True: it will not be tried again.

    (kubernetes, pkg/controller/job/utils.go, `IsJobFinished`: Complete or Failed)
    """
    return condition_status(job, "Failed") == "True"


@false_of_none
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


@false_of_none
def is_crd_established(crd: Object | None) -> bool:
    """True if the CustomResourceDefinition is established: its objects can be read and written.

    (kube-rs, kube-runtime/src/wait.rs, `is_crd_established`) Discovery may notice it a little later.
    """
    return condition_status(crd, "Established") == "True"


@false_of_none
def is_loadbalancer_ready(obj: Object | None) -> bool:
    """True if the load balancer of a Service or an Ingress has an address; also of a Service that needs none.

    (kube-rs, kube-runtime/src/wait.rs, `is_service_loadbalancer_provisioned`, `is_ingress_provisioned`; a load balancer
    with an empty list of addresses has none here)
    """
    if obj is None:
        return False
    spec = obj.get("spec") or {}
    if obj.get("kind") == "Service" and spec.get("type") != "LoadBalancer":
        return True
    addresses = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return bool(addresses) and all(one.get("ip") or one.get("hostname") for one in addresses)
