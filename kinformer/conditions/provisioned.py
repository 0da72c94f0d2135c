"""Conditions of what a controller of the cluster provides: resource definitions and load balancers."""

from __future__ import annotations

from kinformer.conditions.anything import Object, condition_status

__all__ = ["is_crd_established", "is_loadbalancer_ready"]


def is_crd_established(crd: Object | None) -> bool:
    """True if the CustomResourceDefinition is established: its objects can be read and written.

    (kube-rs, kube-runtime/src/wait.rs, `is_crd_established`) Discovery may notice it a little later.
    """
    return condition_status(crd, "Established") == "True"


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
