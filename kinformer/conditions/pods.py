"""Conditions of pods. (`kinformer.PodState` has the rest of what `kubectl get pods` shows of one.)"""

from __future__ import annotations

from kinformer.conditions.anything import Object, condition_status

__all__ = ["is_pod_ready", "is_pod_running", "is_pod_serving"]


def is_pod_running(pod: Object | None) -> bool:
    """True if the phase of the pod is Running: its containers have been started, not that they answer.

    (kube-rs, kube-runtime/src/wait.rs, `is_pod_running`)
    """
    return pod is not None and (pod.get("status") or {}).get("phase") == "Running"


def is_pod_ready(pod: Object | None) -> bool:
    """True if the condition Ready of the pod is True, which a pod that is being deleted may still be.

    (kubernetes, pkg/api/v1/pod/util.go, `IsPodReady`)
    """
    return condition_status(pod, "Ready") == "True"


def is_pod_serving(pod: Object | None) -> bool:
    """True if a Service sends requests to the pod: it is ready, and is not being deleted.

    (kubernetes, staging/src/k8s.io/endpointslice/utils.go, `podToEndpoint`: `ready`)
    """
    return is_pod_ready(pod) and not ((pod or {}).get("metadata") or {}).get("deletionTimestamp")
