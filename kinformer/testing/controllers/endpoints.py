"""The EndpointSlice controller: the addresses of the pods that a Service selects (staging, endpointslice)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kinformer.testing.controllers.cluster import Actor, Cluster, Object, is_terminating, labels_of
from kinformer.testing.controllers.replica_sets import PODS, is_ready, owner_reference
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["EndpointSliceController"]

SERVICES, SLICES = "v1/services", "discovery.k8s.io/v1/endpointslices"
_ACTOR = Actor("endpointslice-controller")
_SERVICE, _MANAGED = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"
_HEADLESS = "service.kubernetes.io/headless"
_MOST = 100  # endpoints of a slice

_Ports: TypeAlias = tuple[tuple[str, int, str], ...]


class EndpointSliceController:
    """Keeps the EndpointSlices of Services with a selector."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return the Services that a change concerns."""
        one = new or old
        assert one is not None
        metadata = one["metadata"]
        if resource.kind == "Service" and not resource.group:
            return [(metadata["namespace"], metadata["name"])]
        if resource.kind == "EndpointSlice" and labels_of(one).get(_MANAGED) == _MANAGER:
            return [(metadata["namespace"], labels_of(one).get(_SERVICE, ""))]
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
        """Write the slices of a Service."""
        service = self._cluster.get(SERVICES, namespace, name)
        if service is None or is_terminating(service) or not service["spec"].get("selector"):
            return
        groups: dict[_Ports, list[Object]] = {}
        for pod in self._cluster.all_of(PODS, namespace):
            status = pod.get("status") or {}
            if _selects(service, pod) and status.get("podIP") and status.get("phase") not in ("Succeeded", "Failed"):
                groups.setdefault(_ports(service, pod), []).append(_endpoint(pod))
        wanted = [
            (ports, endpoints[start : start + _MOST])
            for ports, endpoints in sorted(groups.items())
            for start in range(0, len(endpoints), _MOST)
        ]
        existing = self._cluster.owned(SLICES, service)
        if not wanted:
            wanted = [((), [])]
        for place, (ports, endpoints) in enumerate(wanted):
            self._write(service, existing[place] if place < len(existing) else None, ports, endpoints)
        for one in existing[len(wanted) :]:
            self._cluster.delete(SLICES, one)

    def _write(self, service: Object, existing: Object | None, ports: _Ports, endpoints: Sequence[Object]) -> None:
        metadata = service["metadata"]
        labels = {**labels_of(service), _MANAGED: _MANAGER, _SERVICE: metadata["name"]}
        if service["spec"].get("clusterIP") == "None":
            labels[_HEADLESS] = ""
        shown = [{"name": name, "port": port, "protocol": protocol} for name, port, protocol in ports]
        content = {"endpoints": list(endpoints), "ports": shown}
        if existing is None:
            prefix = f"{metadata['name']}-"
            place = {"namespace": metadata["namespace"], "labels": labels, "generateName": prefix}
            place["name"] = self._cluster.fresh_name(SLICES, metadata["namespace"], prefix)
            place["ownerReferences"] = [owner_reference(service)]
            head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
            self._cluster.create(_ACTOR, {**head, "metadata": place, **content})
            return
        if labels_of(existing) == labels and all((existing.get(field) or []) == content[field] for field in content):
            return

        def change(one: Object) -> None:
            one["metadata"]["labels"] = labels
            one.update(content)

        self._cluster.patch(_ACTOR, SLICES, existing, change)


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
    found = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = named.get(target) if isinstance(target, str) else target
        if number is not None:
            found.append((port.get("name", ""), number, port.get("protocol", "TCP")))
    return tuple(found)


def _endpoint(pod: Object) -> Object:
    metadata, ready, terminating = pod["metadata"], is_ready(pod), is_terminating(pod)
    endpoint: Object = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": ready and not terminating, "serving": ready, "terminating": terminating},
        "targetRef": {
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
    }
    if pod["spec"].get("nodeName"):
        endpoint["nodeName"] = pod["spec"]["nodeName"]
    return endpoint
