"""The backends that an EndpointSlice or a pod describes, by the rules of the Kubernetes API."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kinformer import KubeObject
from kinformer.contrib.backends.backend import Backend, Family, Listing, key_of

__all__ = ["POD_FIELDS", "backends_of_pod", "backends_of_slice"]

# The fields of a pod that are read here. The cache drops the others.
POD_FIELDS = (
    "metadata.deletionTimestamp",
    "spec.nodeName",
    "spec.containers[*].ports",
    "spec.initContainers[*].ports",
    "spec.initContainers[*].restartPolicy",
    "status.conditions",
    "status.phase",
    "status.podIP",
    "status.podIPs",
)
_ZONE = "topology.kubernetes.io/zone"

Port = str | int | None


class _Port(msgspec.Struct, rename="camel"):
    name: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class _Conditions(msgspec.Struct):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class _Reference(msgspec.Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Zone(msgspec.Struct):
    name: str = ""


class _Hints(msgspec.Struct, rename="camel"):
    for_zones: list[_Zone] | None = None


class _Endpoint(msgspec.Struct, rename="camel"):
    addresses: list[str] | None = None
    conditions: _Conditions | None = None
    target_ref: _Reference | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: _Hints | None = None


class _Slice(msgspec.Struct, rename="camel"):
    address_type: Family
    endpoints: list[_Endpoint] | None = None
    ports: list[_Port] | None = None


class _ContainerPort(msgspec.Struct, rename="camel"):
    name: str | None = None
    container_port: int = 0


class _Container(msgspec.Struct, rename="camel"):
    ports: list[_ContainerPort] | None = None
    restart_policy: str | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    node_name: str | None = None


class _PodIP(msgspec.Struct):
    ip: str = ""


class _PodCondition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _PodStatus(msgspec.Struct):
    conditions: list[_PodCondition] | None = None
    phase: str | None = None
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    pod_ips: list[_PodIP] | None = msgspec.field(name="podIPs", default=None)


class _PodMetadata(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Pod(msgspec.Struct):
    metadata: _PodMetadata = msgspec.field(default_factory=_PodMetadata)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


# --- EndpointSlices -------------------------------------------------------------------------------------------------


def backends_of_slice(port: Port, family: Family | None) -> Callable[[KubeObject], Listing | None]:
    """Return the function that reads an EndpointSlice.

    `ready: null` is ready. Only the first address of an endpoint has a meaning. (kubernetes, staging/src/k8s.io/api/
    discovery/v1/types.go)
    """

    def backends_of(obj: KubeObject) -> Listing | None:
        content = obj.decode(_Slice)
        if not content.endpoints or family not in (None, content.address_type):
            return None
        number, protocol, problem = _port_of_slice(content.ports or (), port)
        if problem:
            return Listing(obj.key, problem=problem)
        endpoints = [endpoint for endpoint in content.endpoints if endpoint.addresses]
        backends = (_backend(obj, content.address_type, endpoint, number, protocol) for endpoint in endpoints)
        return Listing(obj.key, tuple(backends))

    return backends_of


def _port_of_slice(ports: Sequence[_Port], port: Port) -> tuple[int, str, str]:
    """Return the number of the requested port, its application protocol, and the reason if there is none."""
    if isinstance(port, int):
        # A slice without ports, or with a port without a number, restricts nothing.
        for listed in ports:
            if listed.port in (port, None):
                return port, listed.app_protocol or "", ""
        return (port, "", "") if not ports else (0, "", _no_port(port, [str(listed.port) for listed in ports]))
    fitting = [listed for listed in ports if listed.port is not None and port in (None, listed.name or "")]
    if len(fitting) == 1 and fitting[0].port is not None:
        return fitting[0].port, fitting[0].app_protocol or "", ""
    return 0, "", _no_port(port, [listed.name or str(listed.port) for listed in ports])


def _backend(obj: KubeObject, family: Family, endpoint: _Endpoint, port: int, protocol: str) -> Backend:
    conditions = endpoint.conditions or _Conditions()
    terminating = bool(conditions.terminating)
    ready = not terminating if conditions.ready is None else conditions.ready
    reference = endpoint.target_ref or _Reference()
    host = (endpoint.addresses or [""])[0]
    return Backend(
        key=key_of(host, port),
        host=host,
        port=port,
        family=family,
        ready=ready,
        serving=ready if conditions.serving is None else conditions.serving,
        terminating=terminating,
        target=f"{reference.namespace or obj.namespace}/{reference.name}" if reference.kind == "Pod" else "",
        uid=reference.uid,
        node=endpoint.node_name or "",
        zone=endpoint.zone or "",
        zones=tuple(zone.name for zone in (endpoint.hints and endpoint.hints.for_zones) or ()),
        app_protocol=protocol,
    )


# --- Pods -----------------------------------------------------------------------------------------------------------


def backends_of_pod(port: Port, family: Family | None) -> Callable[[KubeObject], Listing | None]:
    """Return the function that reads a Pod.

    The rules are those by which EndpointSlices are made: a pod that has ended has no backend, since another pod may
    have its address by now. `ready` is `kinformer.conditions.is_pod_serving`, here on the fields that are read anyway:
    a relist of thousands of pods is read at once.
    """

    def backends_of(obj: KubeObject) -> Listing | None:
        content = obj.decode(_Pod)  # once, because each read unpacks the object
        host = _address_of(content.status, family)
        if not host or content.status.phase in ("Succeeded", "Failed"):
            return None
        number, problem = _port_of_pod(content.spec, port)
        if problem:
            return Listing(obj.key, problem=problem)
        terminating = content.metadata.deletion_timestamp is not None
        serving = ("Ready", "True") in (
            (condition.type, condition.status) for condition in content.status.conditions or ()
        )
        backend = Backend(
            key=key_of(host, number),
            host=host,
            port=number,
            family=_family_of(host),
            ready=serving and not terminating,
            serving=serving,
            terminating=terminating,
            target=obj.key,
            uid=obj.uid,
            node=content.spec.node_name or "",
            zone=obj.labels.get(_ZONE, ""),
        )
        return Listing(obj.key, (backend,))

    return backends_of


def _address_of(status: _PodStatus, family: Family | None) -> str:
    addresses = [status.pod_ip or "", *(entry.ip for entry in status.pod_ips or ())]
    return next((address for address in addresses if address and family in (None, _family_of(address))), "")


def _family_of(address: str) -> Family:
    return "IPv6" if ":" in address else "IPv4"


def _port_of_pod(spec: _PodSpec, port: Port) -> tuple[int, str]:
    """Return the number of the requested port, and the reason if there is none."""
    if isinstance(port, int):
        return port, ""  # a container may listen on a port that it does not declare
    sidecars = [container for container in spec.init_containers or () if container.restart_policy == "Always"]
    ports = [declared for container in (*(spec.containers or ()), *sidecars) for declared in container.ports or ()]
    fitting = [declared for declared in ports if port in (None, declared.name)]
    if fitting and (port is not None or len(fitting) == 1):
        return fitting[0].container_port, ""
    return 0, _no_port(port, [declared.name or str(declared.container_port) for declared in ports])


def _no_port(port: Port, ports: Sequence[str]) -> str:
    listed = ", ".join(ports) or "none"
    if port is None:
        return f"port= is needed, because there is not exactly one port; ports: {listed}"
    return f"no port {port!r}; ports: {listed}"
