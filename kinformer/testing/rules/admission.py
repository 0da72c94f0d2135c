"""Fields that admission plugins and strategies add to an object after its defaults. They have no owner.

The plugins are enabled in kube-apiserver by default and have effects that are visible without a controller:
DefaultTolerationSeconds, Priority, TaintNodesByCondition, StorageObjectInUseProtection and NamespaceLifecycle. The
strategies are for jobs (pkg/registry/batch/job), services (pkg/registry/core/service/storage/alloc.go) and requests of
certificates (pkg/registry/certificates).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from kinformer.apiserver.status import failure
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.builtin.pod_defaults import admit_pod
from kinformer.testing.rules.defaults import TEMPLATE_GENERATION
from kinformer.testing.store.ledger import Ledger

__all__ = ["IMMORTAL", "PROTECTION", "Admission"]

Object = dict[str, Any]

IMMORTAL = ("default", "kube-public", "kube-system")
PROTECTION = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
}
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_FIRST_ADDRESS = ipaddress.IPv4Address("10.0.0.10")
_NODE_PORTS = range(30_000, 32_768)


class Admission:
    """Adds the fields, and allocates addresses and node ports for the services of one server.

    `_given` grows with each address. A deleted service does not give its address back.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._given = 0  # number of allocated addresses

    def create(
        self, resource: ResourceType, obj: Object, *, admin: bool, user: Mapping[str, Any] | None = None
    ) -> None:
        """Add fields to a new object of a user (a UserInfo), in place.

        An object created directly by a test is neither tainted nor protected.
        """
        if not resource.builtin:
            return
        kind = resource.kind
        if kind == "Pod":
            admit_pod(obj)
        elif kind == "Namespace":
            obj["spec"].setdefault("finalizers", ["kubernetes"])
        elif kind == "Node" and not admin:
            taints = obj["spec"].setdefault("taints", [])
            if not any(taint.get("key") == _NOT_READY["key"] for taint in taints):
                taints.append(dict(_NOT_READY))
        elif kind in PROTECTION and not admin:
            finalizers = obj["metadata"].setdefault("finalizers", [])
            if PROTECTION[kind] not in finalizers:
                finalizers.append(PROTECTION[kind])
        elif kind == "DaemonSet":
            obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"
        elif kind == "Job":
            _label_job(obj)
        elif kind == "CertificateSigningRequest" and not admin:
            _name_requester(obj["spec"], user or {})
        elif kind == "Service":
            self._allocate(obj)

    def update(self, resource: ResourceType, obj: Object, old: Object) -> None:
        """Add fields to an updated object, in place."""
        if not resource.builtin:
            return
        if resource.kind == "DaemonSet":
            _count_template(obj, old)
        elif resource.kind == "Pod":
            admit_pod(obj)
            if "qosClass" in (old.get("status") or {}):
                obj.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])
        elif resource.kind == "Service":
            _keep_allocated(obj, old)
            self._allocate(obj)

    def check_delete(self, resource: ResourceType, name: str) -> None:
        """Raise a 403 `StatusError` for a namespace that every cluster has."""
        if resource.builtin and resource.kind == "Namespace" and name in IMMORTAL:
            message = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            raise failure(403, message, details={"name": name, "kind": "namespaces"})

    def _allocate(self, obj: Object) -> None:
        spec = obj["spec"]
        kind = spec.get("type", "ClusterIP")
        if kind == "ExternalName":
            return
        if not spec.get("clusterIP"):
            spec["clusterIP"] = str(_FIRST_ADDRESS + self._given)
            self._given += 1
        spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if kind in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts", True):
            self._allocate_ports(spec)

    def _allocate_ports(self, spec: Object) -> None:
        unnumbered = [port for port in spec.get("ports") or [] if not port.get("nodePort")]
        if not unnumbered:
            return
        services = self._ledger.registry.find("v1/services")
        used = {port.get("nodePort") for port in spec["ports"]}
        for stored in self._ledger.collection(services).objects.values():
            if b'"nodePort":' in stored.raw:  # most services have none, and need not be decoded
                used |= {
                    port.get("nodePort") for port in self._ledger.read(services, stored)["spec"].get("ports") or []
                }
        free = (number for number in _NODE_PORTS if number not in used)
        for port in unnumbered:
            port["nodePort"] = next(free, 0)


def _count_template(obj: Object, old: Object) -> None:
    """Count the generation of a DaemonSet's template, kept in an annotation (extensions/v1beta1 had a field for it)."""
    before = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
    if (obj.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template") and before.isdigit():
        before = str(int(before) + 1)
    obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = before


def _name_requester(spec: Object, user: Mapping[str, Any]) -> None:
    """Set the user who requests a certificate (certificates/certificates/strategy.go)."""
    for name in ("username", "uid", "groups", "extra"):
        spec.pop(name, None)
        if user.get(name):
            spec[name] = user[name]


def _label_job(obj: Object) -> None:
    """Set the labels by which a job finds its pods."""
    spec, metadata = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    labels = {
        "batch.kubernetes.io/controller-uid": metadata["uid"],
        "batch.kubernetes.io/job-name": metadata["name"],
        "controller-uid": metadata["uid"],
        "job-name": metadata["name"],
    }
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    # A job without labels gets the labels of its template (job/strategy.go, through a shared map).
    if not metadata.get("labels"):
        metadata["labels"] = dict(template["labels"])
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}})


def _keep_allocated(obj: Object, old: Object) -> None:
    """Restore server-allocated fields that an update may omit (core/service/storage, patchAllocatedValues)."""
    spec, before = obj["spec"], old.get("spec") or {}
    if spec.get("type") == "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
        return
    if before.get("clusterIP"):
        if not spec.get("clusterIP"):
            spec["clusterIP"], spec["clusterIPs"] = before["clusterIP"], before.get("clusterIPs")
        elif spec["clusterIP"] != before["clusterIP"] and spec.get("clusterIPs") == before.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if before.get(name) and not spec.get(name):
            spec[name] = before[name]
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        node_ports = {
            (port.get("port"), port.get("protocol")): port.get("nodePort") for port in before.get("ports") or []
        }
        for port in spec.get("ports") or []:
            node_port = node_ports.get((port.get("port"), port.get("protocol")))
            if node_port and not port.get("nodePort"):
                port["nodePort"] = node_port
    else:
        for port in spec.get("ports") or []:
            port.pop("nodePort", None)
