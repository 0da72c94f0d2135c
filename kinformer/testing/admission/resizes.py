"""PodResize: the node of a pod that is resized must exist and have the resources (plugin/pkg/admission/podresize)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from kinformer.objects.units import amount
from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.lookup import Lookup
from kinformer.testing.admission.pod_resources import pod_resources

__all__ = ["check_resize"]

Object = dict[str, Any]

_NODES = "v1/nodes"


def check_resize(lookup: Lookup, write: Attributes) -> None:
    """Raise a 403 `StatusError` for a resize that the node of the pod cannot make."""
    spec = write.subject.get("spec") or {}
    name = spec.get("nodeName")
    if not name or write.old is None or spec == write.old.get("spec"):
        return
    node = lookup.get(_NODES, "", name)
    if node is None:
        raise write.refused(f'node "{name}" not found')
    system = (node["metadata"].get("labels") or {}).get("kubernetes.io/os", "linux")
    if system != "linux":
        text = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
        raise _refused(write, text, "UnsupportedPlatform")
    lacking = _lacking(spec, (node.get("status") or {}).get("allocatable") or {})
    if lacking:
        text = f"node didn't have enough allocatable resources: {'; '.join(lacking)}"
        raise _refused(write, text, "NodeCapacity")


def _refused(write: Attributes, text: str, reason: str) -> Exception:
    error = write.refused(text)
    assert isinstance(error.body, dict), "the body of a plugin's refusal is a Status"
    error.body["details"]["causes"] = [{"reason": reason}]
    return error


def _lacking(spec: Object, allocatable: Object) -> list[str]:
    requested, lacking = pod_resources(spec, "requests"), []
    for name, unit in (("cpu", 1000), ("memory", 1)):
        request = requested[name].value if name in requested else Decimal(0)
        given = amount(str(allocatable.get(name, "0")))
        if request > given:
            lacking.append(f"{name}, requested: {_whole(request * unit)}, allocatable: {_whole(given * unit)}")
    return lacking


def _whole(number: Decimal) -> int:
    return int(number.to_integral_value(rounding="ROUND_CEILING"))
