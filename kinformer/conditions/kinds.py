"""Conditions for specific kinds: Pods, Jobs, Deployments, CustomResourceDefinitions, Services and Ingresses."""

from __future__ import annotations

from kinformer.conditions.anything import Object, condition_status, false_of_none
from kinformer.objects.accessors import number_at, string_at, tables_at, value_at

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
    """Return True if the phase of the pod is Running. Its containers have started, but may not respond yet.

    (kube-rs, kube-runtime/src/wait.rs, `is_pod_running`)
    """
    return string_at(pod, "status", "phase") == "Running"


@false_of_none
def is_pod_ready(pod: Object | None) -> bool:
    """Return True if the pod's condition Ready is True, which may still hold while the pod is being deleted.

    (kubernetes, pkg/api/v1/pod/util.go, `IsPodReady`)
    """
    return condition_status(pod, "Ready") == "True"


@false_of_none
def is_pod_serving(pod: Object | None) -> bool:
    """Return True if a Service sends requests to the pod, because it is ready and not being deleted.

    (kubernetes, staging/src/k8s.io/endpointslice/utils.go, `podToEndpoint`: `ready`)
    """
    return is_pod_ready(pod) and not value_at(pod, "metadata", "deletionTimestamp")


@false_of_none
def is_job_complete(job: Object | None) -> bool:
    """Return True if the job's condition Complete is True. This is never so for a failed job. See `is_job_failed`.

    (kube-rs, kube-runtime/src/wait.rs, `is_job_completed`)
    """
    return condition_status(job, "Complete") == "True"


@false_of_none
def is_job_failed(job: Object | None) -> bool:
    """Return True if the job's condition Failed is True, so that it will not be retried.

    (kubernetes, pkg/controller/job/utils.go, `IsJobFinished`: Complete or Failed)
    """
    return condition_status(job, "Failed") == "True"


@false_of_none
def is_deployment_rolled_out(deployment: Object | None) -> bool:
    """Return True if all replicas have the newest template and are available, and no old ones are left.

    The rules are the same as in `kubectl rollout status` (kubectl, pkg/polymorphichelpers/rollout_status.go,
    `DeploymentStatusViewer`). A deployment whose progress deadline has passed is not rolled out. This is an error in
    kubectl but not here, because it may still succeed. Use `has_condition("Progressing", False)` to detect it.
    """
    if deployment is None:
        return False
    if number_at(deployment, "status", "observedGeneration") < number_at(deployment, "metadata", "generation"):
        return False
    for one in tables_at(deployment, "status", "conditions"):
        if one.get("type") == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded":
            return False
    wanted = 1 if value_at(deployment, "spec", "replicas") is None else number_at(deployment, "spec", "replicas")
    replicas, updated, available = (
        number_at(deployment, "status", name) for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    return updated >= wanted and replicas <= updated <= available


@false_of_none
def is_crd_established(crd: Object | None) -> bool:
    """Return True if the CustomResourceDefinition is established, so that its objects can be read and written.

    (kube-rs, kube-runtime/src/wait.rs, `is_crd_established`) Discovery may list it a little later.
    """
    return condition_status(crd, "Established") == "True"


@false_of_none
def is_loadbalancer_ready(obj: Object | None) -> bool:
    """Return True if the load balancer of a Service or an Ingress has an address, or if a Service needs none.

    (kube-rs, kube-runtime/src/wait.rs, `is_service_loadbalancer_provisioned`, `is_ingress_provisioned`. Here, an empty
    list of addresses counts as no address.)
    """
    if obj is None:
        return False
    if obj.get("kind") == "Service" and string_at(obj, "spec", "type") != "LoadBalancer":
        return True
    addresses = tables_at(obj, "status", "loadBalancer", "ingress")
    return bool(addresses) and all(one.get("ip") or one.get("hostname") for one in addresses)
