"""The plugin LimitRanger: defaults and limits for container resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.lookup import Lookup
from kinformer.testing.admission.pod_resources import Amount, Amounts, as_amounts, containers_of, pod_resources

__all__ = ["admit_limits", "check_limits"]

Object = dict[str, Any]

KIND = "v1/limitranges"
_ANNOTATION = "kubernetes.io/limit-ranger"


def admit_limits(lookup: Lookup, write: Attributes) -> None:
    """Set the namespace's defaults in the containers of a new pod, and annotate it accordingly."""
    for limit_range in lookup.list(KIND, write.namespace):
        requests: Object = {}
        limits: Object = {}
        for limit in _limits(limit_range):
            if limit.get("type") == "Container":
                requests.update(limit.get("defaultRequest") or {})
                limits.update(limit.get("default") or {})
        changes: list[str] = []
        spec = write.subject["spec"]
        for container in spec.get("containers") or []:
            changes += _fill(container, "container", requests, limits)
        for container in spec.get("initContainers") or []:
            changes += _fill(container, "init container", requests, limits)
        if changes:
            annotations = write.subject["metadata"].setdefault("annotations", {})
            annotations[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(changes)


def _limits(limit_range: Mapping[str, Any]) -> list[Object]:
    return (limit_range.get("spec") or {}).get("limits") or []


def _fill(container: Object, kind: str, requests: Object, limits: Object) -> Iterator[str]:
    resources = container.setdefault("resources", {})
    for part, defaults in (("requests", requests), ("limits", limits)):
        given = resources.get(part) or {}
        added = {name: value for name, value in defaults.items() if name not in given}
        if added:
            resources[part] = {**given, **added}
            yield f"{', '.join(sorted(added))} {part.rstrip('s')} for {kind} {container.get('name', '')}"


def check_limits(lookup: Lookup, write: Attributes) -> None:
    """Raise a 403 `StatusError` for a pod or a claim outside the limits of its namespace."""
    find = _pod_errors if write.resource.kind == "Pod" else _claim_errors
    for limit_range in lookup.list(KIND, write.namespace):
        errors = list(dict.fromkeys(find(limit_range, write.subject["spec"])))
        if errors:
            raise write.refused(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def _pod_errors(limit_range: Object, spec: Object) -> Iterator[str]:
    for limit in _limits(limit_range):
        if limit.get("type") == "Container":
            for container in containers_of(spec):
                resources = container.get("resources") or {}
                requests, limits = as_amounts(resources.get("requests")), as_amounts(resources.get("limits"))
                yield from _outside(limit, requests, limits)
        elif limit.get("type") == "Pod":
            yield from _outside(limit, pod_resources(spec, "requests"), pod_resources(spec, "limits"))


def _outside(limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = limit["type"]
    for name, enforced in sorted(as_amounts(limit.get("min")).items()):
        if error := _too_little(kind, name, enforced, requests, limits):
            yield error
    for name, enforced in sorted(as_amounts(limit.get("max")).items()):
        if error := _too_much(kind, name, enforced, requests, limits):
            yield error
    for name, enforced in sorted(as_amounts(limit.get("maxLimitRequestRatio")).items()):
        if error := _uneven(kind, name, enforced, requests, limits):
            yield error


def _too_little(kind: str, name: str, enforced: Amount, requests: Amounts, limits: Amounts) -> str:
    start = f"minimum {name} usage per {kind} is {enforced}"
    if name not in requests:
        return f"{start}.  No request is specified"
    for part, amounts in (("request", requests), ("limit", limits)):
        if name in amounts and amounts[name].value < enforced.value:
            return f"{start}, but {part} is {amounts[name]}"
    return ""


def _too_much(kind: str, name: str, enforced: Amount, requests: Amounts, limits: Amounts) -> str:
    start = f"maximum {name} usage per {kind} is {enforced}"
    if name not in limits:
        return f"{start}.  No limit is specified"
    for part, amounts in (("limit", limits), ("request", requests)):
        if name in amounts and amounts[name].value > enforced.value:
            return f"{start}, but {part} is {amounts[name]}"
    return ""


def _uneven(kind: str, name: str, enforced: Amount, requests: Amounts, limits: Amounts) -> str:
    start = f"{name} max limit to request ratio per {kind} is {enforced}, but"
    for part, amounts in (("request", requests), ("limit", limits)):
        if name not in amounts or not amounts[name].value:
            return f"{start} no {part} is specified or {part} is 0"
    ratio = limits[name].value / requests[name].value
    return f"{start} provided ratio is {float(ratio):f}" if ratio > enforced.value else ""


def _claim_errors(limit_range: Object, spec: Object) -> Iterator[str]:
    requests = as_amounts((spec.get("resources") or {}).get("requests"))
    for limit in _limits(limit_range):
        if limit.get("type") != "PersistentVolumeClaim":
            continue
        for name, enforced in sorted(as_amounts(limit.get("min")).items()):
            if error := _too_little(limit["type"], name, enforced, requests, {}):
                yield error
        for name, enforced in sorted(as_amounts(limit.get("max")).items()):
            start = f"maximum {name} usage per PersistentVolumeClaim is {enforced}"
            if name not in requests:
                yield f"{start}.  No request is specified"
            elif requests[name].value > enforced.value:
                yield f"{start}, but request is {requests[name]}"
