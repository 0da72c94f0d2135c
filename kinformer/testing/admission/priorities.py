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
    classes = [one for one in lookup.list(_CLASSES) if one.get("globalDefault")]
    return min(classes, key=lambda one: int(one.get("value", 0))) if classes else None


def admit_priority(lookup: Lookup, write: Attributes) -> None:
    """Set a new pod's priority and preemptionPolicy from its class. Raises a 403 `StatusError` for an unknown class."""
    spec = write.subject["spec"]
    name = spec.get("priorityClassName")
    if not name:
        found = None if lookup.is_empty(_CLASSES) else _default_class(lookup)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    else:
        found = lookup.get(_CLASSES, "", name)
        if found is None and name in _SYSTEM:
            found = {"value": _SYSTEM[name]}
        if found is None:
            raise write.refused(f"no PriorityClass with name {name} was found")
    value = int((found or {}).get("value", 0))
    policy = (found or {}).get("preemptionPolicy") or _PREEMPTS
    given = spec.get("priority")
    if given is not None and given != value:
        raise write.refused(
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller"
            f" computed {value} from the given PriorityClass name"
        )
    wanted = spec.get("preemptionPolicy")
    if wanted is not None and wanted != policy:
        raise write.refused(
            f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec; priority admission"
            f" controller computed {policy} from the given PriorityClass name"
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy


def check_priority_class(lookup: Lookup, write: Attributes) -> None:
    """Raise a 403 `StatusError` for a second default class."""
    if write.obj is None or not write.obj.get("globalDefault"):
        return
    found = _default_class(lookup)
    if found is not None and (write.operation == "CREATE" or found["metadata"]["name"] != write.name):
        name = found["metadata"]["name"]
        raise write.refused(f"PriorityClass {name} is already marked as default. Only one default can exist")


def _runtime_class(lookup: Lookup, write: Attributes) -> Object | None:
    name = write.subject["spec"].get("runtimeClassName")
    if name is None:
        return None
    found = lookup.get(_RUNTIMES, "", name)
    if found is None:
        raise write.refused(f'pod rejected: RuntimeClass "{name}" not found')
    return found


def admit_runtime_class(lookup: Lookup, write: Attributes) -> None:
    """Give a new pod the overhead, node selector and tolerations of its class. Raises a 403 `StatusError`."""
    found = _runtime_class(lookup, write)
    if found is None:
        return
    spec = write.subject["spec"]
    overhead = (found.get("overhead") or {}).get("podFixed")
    if overhead:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise write.refused("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(overhead)
    scheduling = found.get("scheduling") or {}
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
    tolerations += [one for one in scheduling.get("tolerations") or [] if one not in tolerations]


def check_runtime_class(lookup: Lookup, write: Attributes) -> None:
    """Raise a 403 `StatusError` for a pod whose overhead differs from its class's."""
    overhead = ((_runtime_class(lookup, write) or {}).get("overhead") or {}).get("podFixed")
    given = write.subject["spec"].get("overhead")
    if overhead and given != overhead:
        raise write.refused("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if not overhead and given is not None:
        raise write.refused("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
