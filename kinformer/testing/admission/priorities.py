"""The plugins Priority and RuntimeClass, which complete a pod from the classes that it names."""

from __future__ import annotations

from typing import Any

from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.lookup import Lookup

__all__ = ["admit_priority", "admit_runtime_class", "check_priority_class", "check_runtime_class"]

Object = dict[str, Any]

_CLASSES = "scheduling.k8s.io/v1/priorityclasses"
_RUNTIMES = "node.k8s.io/v1/runtimeclasses"
# Classes that exist on every server, stored or not (pkg/apis/scheduling/v1/helpers.go).
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTS = "PreemptLowerPriority"


def _default_class(lookup: Lookup) -> Object | None:
    classes = [candidate for candidate in lookup.list(_CLASSES) if candidate.get("globalDefault")]
    return min(classes, key=lambda candidate: int(candidate.get("value", 0))) if classes else None


def admit_priority(lookup: Lookup, write: Attributes) -> None:
    """Set a new pod's priority and preemptionPolicy from its class. Raises a 403 `StatusError` for an unknown class."""
    spec = write.subject["spec"]
    name = spec.get("priorityClassName")
    if not name:
        priority_class = None if lookup.is_empty(_CLASSES) else _default_class(lookup)
        if priority_class is not None:
            spec["priorityClassName"] = priority_class["metadata"]["name"]
    else:
        priority_class = lookup.get(_CLASSES, "", name)
        if priority_class is None and name in _SYSTEM:
            priority_class = {"value": _SYSTEM[name]}
        if priority_class is None:
            raise write.refused(f"no PriorityClass with name {name} was found")
    value = int((priority_class or {}).get("value", 0))
    policy = (priority_class or {}).get("preemptionPolicy") or _PREEMPTS
    given = spec.get("priority")
    if given is not None and given != value:
        raise write.refused(
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller"
            f" computed {value} from the given PriorityClass name"
        )
    stated = spec.get("preemptionPolicy")
    if stated is not None and stated != policy:
        raise write.refused(
            f"the string value of PreemptionPolicy ({stated}) must not be provided in pod spec; priority admission"
            f" controller computed {policy} from the given PriorityClass name"
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy


def check_priority_class(lookup: Lookup, write: Attributes) -> None:
    """Raise a 403 `StatusError` for a second default class."""
    if write.obj is None or not write.obj.get("globalDefault"):
        return
    default = _default_class(lookup)
    if default is not None and (write.operation == "CREATE" or default["metadata"]["name"] != write.name):
        name = default["metadata"]["name"]
        raise write.refused(f"PriorityClass {name} is already marked as default. Only one default can exist")


def _runtime_class(lookup: Lookup, write: Attributes) -> Object | None:
    name = write.subject["spec"].get("runtimeClassName")
    if name is None:
        return None
    runtime_class = lookup.get(_RUNTIMES, "", name)
    if runtime_class is None:
        raise write.refused(f'pod rejected: RuntimeClass "{name}" not found')
    return runtime_class


def admit_runtime_class(lookup: Lookup, write: Attributes) -> None:
    """Give a new pod the overhead, node selector and tolerations of its class. Raises a 403 `StatusError`."""
    runtime_class = _runtime_class(lookup, write)
    if runtime_class is None:
        return
    spec = write.subject["spec"]
    overhead = (runtime_class.get("overhead") or {}).get("podFixed")
    if overhead:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise write.refused("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(overhead)
    scheduling = runtime_class.get("scheduling") or {}
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            raise write.refused(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] ="
                f" {selector[key]}"
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    tolerations = spec.setdefault("tolerations", [])
    tolerations += [toleration for toleration in scheduling.get("tolerations") or [] if toleration not in tolerations]


def check_runtime_class(lookup: Lookup, write: Attributes) -> None:
    """Raise a 403 `StatusError` for a pod whose overhead differs from its class's."""
    overhead = ((_runtime_class(lookup, write) or {}).get("overhead") or {}).get("podFixed")
    given = write.subject["spec"].get("overhead")
    if overhead and given != overhead:
        raise write.refused("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if not overhead and given is not None:
        raise write.refused("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
