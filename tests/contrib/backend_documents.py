"""EndpointSlices and Pods as documents, for the tests of backends."""

from __future__ import annotations

from typing import Any

from tests.support.kube import pod

HTTP = {"name": "http", "port": 8080}


def endpoint(*addresses: str, pod: str = "", uid: str = "", **fields: Any) -> dict[str, Any]:
    """Return an endpoint. `ready`, `serving` and `terminating` are its conditions."""
    names = ("ready", "serving", "terminating")
    document: dict[str, Any] = {"addresses": list(addresses)}
    if conditions := {name: fields.pop(name) for name in names if name in fields}:
        document["conditions"] = conditions
    if pod:
        document["targetRef"] = {"kind": "Pod", "namespace": "default", "name": pod, "uid": uid or f"uid-{pod}"}
    return document | fields


def endpoint_slice(
    name: str,
    *endpoints: dict[str, Any],
    service: str = "web",
    ports: list[dict[str, Any]] | None = None,
    family: str = "IPv4",
    namespace: str = "default",
) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": service}
    document: dict[str, Any] = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "addressType": family,
        "endpoints": list(endpoints),
    }
    if ports != []:
        document["ports"] = [HTTP] if ports is None else ports
    return document


def backend_pod(
    name: str, address: str, *, ready: bool = True, phase: str = "Running", port: str = "http", **metadata: Any
) -> dict[str, Any]:
    """Return a Pod that listens on 8080, with the label app=web."""
    container = {"name": "main", "image": "i", "ports": [{"name": port, "containerPort": 8080}]}
    addresses = address.split(",")
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"podIP": addresses[0], "podIPs": [{"ip": one} for one in addresses], "conditions": conditions}
    metadata = {"labels": {"app": "web"}} | metadata
    return pod(name, phase=phase, spec={"containers": [container]}, status=status, **metadata)
