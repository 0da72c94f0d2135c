"""Subresources that are more than a part of their object: scale, binding, eviction, finalize."""

from __future__ import annotations

from typing import Any

from kinformer.testing.forms import decode_stored
from kinformer.testing.ledger import Written
from kinformer.testing.resources import ResourceType
from kinformer.testing.status import bad_request, conflict
from kinformer.testing.storage import Stored
from kinformer.testing.write import WriteOptions, Writer

__all__ = ["bind", "read_scale", "scale_of", "with_scale"]

Object = dict[str, Any]

_SCALE_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _walk(obj: Object, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _selector(resource: ResourceType, obj: Object) -> str:
    if resource.scale is not None:
        path = resource.scale.get("labelSelectorPath")
        return str(_walk(obj, path) or "") if path else ""
    selector = (obj.get("spec") or {}).get("selector") or {}
    labels = selector.get("matchLabels", selector)
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _paths(resource: ResourceType) -> tuple[str, str]:
    scale = resource.scale or {}
    return scale.get("specReplicasPath", ".spec.replicas"), scale.get("statusReplicasPath", ".status.replicas")


def scale_of(resource: ResourceType, obj: Object) -> Object:
    """The `autoscaling/v1` Scale of an object."""
    spec_path, status_path = _paths(resource)
    status: Object = {"replicas": _walk(obj, status_path) or 0}
    selector = _selector(resource, obj)
    if selector:
        status["selector"] = selector
    metadata = obj["metadata"]
    replicas = _walk(obj, spec_path)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SCALE_META if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def read_scale(resource: ResourceType, stored: Stored) -> Object:
    """GET of `/scale`."""
    return scale_of(resource, decode_stored(resource, stored))


def with_scale(resource: ResourceType, obj: Object, scale: Object) -> Object:
    """The object with the replicas of a Scale. A 400 `StatusError` for what is no number."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise bad_request(f"spec.replicas: {replicas!r} is no number of replicas")
    *parents, last = _paths(resource)[0].strip(".").split(".")
    node = obj
    for part in parents:
        node = node.setdefault(part, {})
    node[last] = replicas
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        obj["metadata"]["resourceVersion"] = version
    return obj


def bind(
    writer: Writer, resource: ResourceType, namespace: str, name: str, binding: Object, options: WriteOptions
) -> Written:
    """POST of `/binding`: puts a pod on a node. A 409 `StatusError` where it is on one."""
    target = (binding.get("target") or {}).get("name")
    if not target:
        raise bad_request("target.name: Required value")

    def assign(pod: Object) -> Object:
        node = (pod.get("spec") or {}).get("nodeName")
        if node:
            raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{node}"')
        pod.setdefault("spec", {})["nodeName"] = target
        status = pod.setdefault("status", {})
        conditions = [one for one in status.get("conditions") or [] if one.get("type") != "PodScheduled"]
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": writer.ledger.timestamp(),
        }
        status["conditions"] = [*conditions, scheduled]
        return pod

    options.tracked = False  # a binding owns nothing of the pod
    return writer.patch(resource, namespace, name, assign, options, subresource="binding")
