"""The endpoints of Services: the addresses of the pods that they select, as EndpointSlices and as Endpoints.

Sources: pkg/controller/endpoint, staging/src/k8s.io/endpointslice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kinformer.testing.controllers.cluster import Actor, APIClient, Object, is_terminating, labels_of
from kinformer.testing.controllers.replica_sets import PODS, is_ready, owner_reference
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["EndpointsController"]

SERVICES, SLICES, ENDPOINTS = "v1/services", "discovery.k8s.io/v1/endpointslices", "v1/endpoints"
_ACTOR, _ENDPOINTS_ACTOR = Actor("endpointslice-controller"), Actor("endpoint-controller")
_SERVICE, _MANAGED = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"
_ENDPOINTS_MANAGED, _ENDPOINTS_MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
_HEADLESS = "service.kubernetes.io/headless"
_MOST = 100  # endpoints of a slice

_Ports: TypeAlias = tuple[tuple[str, int, str], ...]
_Groups: TypeAlias = list[tuple[_Ports, list[Object]]]


class EndpointsController:
    """Keeps the EndpointSlices and the Endpoints of Services with a selector, made from the same pods and ports."""

    def __init__(self, cluster: APIClient) -> None:
        self._cluster = cluster

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return the Services that a change concerns."""
        changed = new or old
        assert changed is not None
        metadata = changed["metadata"]
        if resource.kind in ("Service", "Endpoints") and not resource.group:
            return [(metadata["namespace"], metadata["name"])]
        if resource.kind == "EndpointSlice" and labels_of(changed).get(_MANAGED) == _MANAGER:
            return [(metadata["namespace"], labels_of(changed).get(_SERVICE, ""))]
        if resource.kind != "Pod" or resource.group:
            return []
        services = self._cluster.all_of(SERVICES, metadata["namespace"])
        pods = [pod for pod in (old, new) if pod is not None]
        return [
            (metadata["namespace"], service["metadata"]["name"])
            for service in services
            if any(_selects(service, pod) for pod in pods)
        ]

    def reconcile(self, namespace: str, name: str) -> None:
        """Write the slices and the Endpoints of a Service."""
        service = self._cluster.get(SERVICES, namespace, name)
        endpoints = self._cluster.get(ENDPOINTS, namespace, name)
        if service is None or is_terminating(service):
            if endpoints is not None and labels_of(endpoints).get(_ENDPOINTS_MANAGED) == _ENDPOINTS_MANAGER:
                self._cluster.delete(ENDPOINTS, endpoints)  # slices have an owner, these have none
            return
        if not service["spec"].get("selector"):
            return
        groups: dict[_Ports, list[Object]] = {}
        for pod in self._cluster.all_of(PODS, namespace):
            status = pod.get("status") or {}
            if _selects(service, pod) and status.get("podIP") and status.get("phase") not in ("Succeeded", "Failed"):
                groups.setdefault(_ports(service, pod), []).append(pod)
        self._write_slices(service, sorted(groups.items()))
        self._write_endpoints(service, endpoints, sorted(groups.items()))

    # -- EndpointSlices -------------------------------------------------------------------------------------------

    def _write_slices(self, service: Object, groups: _Groups) -> None:
        planned = [
            (ports, [_endpoint(service, pod) for pod in pods[start : start + _MOST]])
            for ports, pods in groups
            for start in range(0, len(pods), _MOST)
        ]
        existing = self._cluster.owned(SLICES, service)
        if not planned:
            planned = [((), [])]
        for place, (ports, endpoints) in enumerate(planned):
            self._write_slice(service, existing[place] if place < len(existing) else None, ports, endpoints)
        for surplus in existing[len(planned) :]:
            self._cluster.delete(SLICES, surplus)

    def _write_slice(self, service: Object, existing: Object | None, ports: _Ports, endpoints: list[Object]) -> None:
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        metadata: Object = {"labels": _labels(service, {_MANAGED: _MANAGER, _SERVICE: name})}
        if existing is None:
            metadata |= {"namespace": namespace, "generateName": f"{name}-"}
            metadata["name"] = self._cluster.fresh_name(SLICES, namespace, f"{name}-")
            metadata["ownerReferences"] = [owner_reference(service)]
        head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
        content = {"endpoints": endpoints, "ports": _shown(ports)}
        self._write(_ACTOR, SLICES, existing, {**head, "metadata": metadata}, content)

    # -- Endpoints ------------------------------------------------------------------------------------------------

    def _write_endpoints(self, service: Object, existing: Object | None, groups: _Groups) -> None:
        metadata = {field: service["metadata"][field] for field in ("name", "namespace")}
        metadata["labels"] = _labels(service, {_ENDPOINTS_MANAGED: _ENDPOINTS_MANAGER})
        subsets = [_subset(service, ports, pods) for ports, pods in groups]
        content = {"subsets": [subset for subset in subsets if len(subset) > 1]}  # without those of terminating pods
        head = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
        self._write(_ENDPOINTS_ACTOR, ENDPOINTS, existing, head, content)

    def _write(self, actor: Actor, resource: str, existing: Object | None, head: Object, content: Object) -> None:
        """Create an object, or give an existing one its labels and content."""
        labels = head["metadata"]["labels"]

        def change(newest: Object) -> None:
            newest["metadata"]["labels"] = labels
            newest.update(content)

        if existing is None:
            self._cluster.create(actor, {**head, **content})
        elif labels_of(existing) != labels or any((existing.get(field) or []) != content[field] for field in content):
            self._cluster.patch(actor, resource, existing, change)


def _labels(service: Object, own: Mapping[str, str]) -> Object:
    headless = {_HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {}
    return {**labels_of(service), **own, **headless}


def _selects(service: Object, pod: Object) -> bool:
    selector: Mapping[str, str] = service["spec"].get("selector") or {}
    return bool(selector) and selector.items() <= labels_of(pod).items()


def _ports(service: Object, pod: Object) -> _Ports:
    """Return the ports of a Service as numbers of this pod. A name that the pod lacks is left out."""
    named: dict[Any, int] = {
        port["name"]: port["containerPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if "name" in port
    }
    numbers = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = named.get(target) if isinstance(target, str) else target
        if number is not None:
            numbers.append((port.get("name", ""), number, port.get("protocol", "TCP")))
    return tuple(numbers)


def _shown(ports: _Ports) -> list[Object]:
    return [{"name": name, "port": port, "protocol": protocol} for name, port, protocol in ports]


def _endpoint(service: Object, pod: Object) -> Object:
    serving, terminating = is_ready(pod), is_terminating(pod)
    ready = _tolerates_unready(service) or (serving and not terminating)
    endpoint: Object = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": _reference(pod),
    }
    return endpoint | _node(pod)


def _subset(service: Object, ports: _Ports, pods: Sequence[Object]) -> Object:
    """Return the subset of pods with the same ports. A terminating pod is in none."""
    subset: Object = {}
    for pod in sorted(pods, key=lambda pod: str(pod["status"]["podIP"])):
        if _tolerates_unready(service) or not is_terminating(pod):
            field = "addresses" if _tolerates_unready(service) or is_ready(pod) else "notReadyAddresses"
            address = {"ip": pod["status"]["podIP"], "targetRef": _reference(pod), **_node(pod)}
            subset.setdefault(field, []).append(address)
    return subset | {"ports": [{key: value for key, value in port.items() if value} for port in _shown(ports)]}


def _tolerates_unready(service: Object) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses"))


def _node(pod: Object) -> Object:
    return {"nodeName": pod["spec"]["nodeName"]} if pod["spec"].get("nodeName") else {}


def _reference(pod: Object) -> Object:
    return {"kind": "Pod", **{field: pod["metadata"][field] for field in ("name", "namespace", "uid")}}
