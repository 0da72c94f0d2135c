"""The cells of tables, formatted as by `kubectl get`.

The rules are from kubernetes, pkg/printers/internalversion/printers.go. A function that takes paths or names returns a
function of the object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kinformer import LabelSelector
from kinformer.cli.output.amounts import age, human_duration
from kinformer.cli.paths.json_path import JSONPath
from kinformer.cli.paths.template import text_of_value
from kinformer.objects import PodState

__all__ = [
    "Cell",
    "DefinedCell",
    "Object",
    "PathCell",
    "age_at",
    "any_status",
    "container_images",
    "container_names",
    "event_age",
    "event_message",
    "event_object",
    "external_ip",
    "ingress_addresses",
    "ingress_hosts",
    "job_duration",
    "job_status",
    "joined",
    "labels_at",
    "length_of",
    "node_address",
    "node_roles",
    "node_status",
    "phase",
    "pod_gates",
    "pod_ready",
    "pod_restarts",
    "pod_status",
    "ratio",
    "selector_at",
    "service_ports",
    "subjects",
    "text_at",
    "value_at",
]

Object = Mapping[str, Any]
Cell = Callable[[Object], str]

_NODE_ROLE = "node-role.kubernetes.io/"
_NONE = "<none>"


def value_at(obj: Any, path: str, default: Any = None) -> Any:
    """Return the value at a path such as `"spec.nodeName"`, or the default if it is absent or null."""
    for part in path.split("."):
        if not isinstance(obj, Mapping):
            return default
        obj = obj.get(part)
    return default if obj is None else obj


# --- cells of any kind ----------------------------------------------------------------------------------------------


def text_at(path: str, default: Any = _NONE) -> Cell:
    """Show the value at a path."""

    def cell(obj: Object) -> str:
        value = value_at(obj, path, default)
        return str(default if value == "" else value)

    return cell


def ratio(part: str, whole: str, *, missing: int = 0) -> Cell:
    """Show two numbers as `2/3`; `missing` replaces an absent second one."""
    return lambda obj: f"{value_at(obj, part, 0)}/{value_at(obj, whole, missing)}"


def length_of(*paths: str) -> Cell:
    """Show the total number of entries at some paths."""
    return lambda obj: str(sum(len(value_at(obj, path, ())) for path in paths))


def joined(path: str) -> Cell:
    """Show the items of a list."""
    return lambda obj: ",".join(map(str, value_at(obj, path, ()))) or _NONE


def age_at(path: str = "metadata.creationTimestamp", missing: str = "<unknown>") -> Cell:
    """Show the time since the timestamp at a path."""
    return lambda obj: age(since) if (since := value_at(obj, path)) else missing


def labels_at(path: str) -> Cell:
    """Show a mapping of labels as `a=b,c=d`."""
    return lambda obj: ",".join(f"{key}={value}" for key, value in sorted(value_at(obj, path, {}).items())) or _NONE


def selector_at(path: str = "spec.selector") -> Cell:
    """Show a LabelSelector in the syntax of `-l`."""

    def cell(obj: Object) -> str:
        requirements = LabelSelector.from_object(value_at(obj, path, {})).requirements
        return ",".join(str(one) for one in sorted(requirements, key=lambda one: one.key)) or _NONE

    return cell


def container_names(template: str = "spec.template") -> Cell:
    """Show the names of a pod template's containers."""
    return lambda obj: ",".join(str(one.get("name")) for one in value_at(obj, f"{template}.spec.containers", ()))


def container_images(template: str = "spec.template") -> Cell:
    """Show the images of a pod template's containers."""
    return lambda obj: ",".join(str(one.get("image")) for one in value_at(obj, f"{template}.spec.containers", ()))


class DefinedCell:
    """Shows a column of a definition: the first value at its path, or its age (apiextensions, tableconvertor.go).

    It is empty if there is no value or if the path is invalid.

    Args:
        path: The `jsonPath` of the column.
        kind: Its type.

    Attributes:
        is_text: True if it contains text rather than numbers.
    """

    def __init__(self, path: str, kind: str) -> None:
        self.is_text = kind == "string"
        self._is_date = kind == "date"
        self._path: JSONPath | None
        try:
            self._path = JSONPath(path, numbers=True)
        except ValueError:
            self._path = None

    def __call__(self, obj: Object) -> str:
        """Return the text of the cell."""
        value = None if self._path is None else self._path.first(obj)
        if value is None:
            return ""
        if self._is_date:
            return age(str(value))
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class PathCell:
    """Shows all values at a path, with a comma between them, or `<none>` (kubectl, pkg/cmd/get/customcolumn.go).

    Args:
        path: The path.

    Raises:
        ValueError: The path is invalid.
    """

    def __init__(self, path: str) -> None:
        self._path = JSONPath(path)

    def __call__(self, obj: Object) -> str:
        """Return the text of the cell."""
        return ",".join(_NONE if value is None else text_of_value(value) for value in self._path.values(obj)) or _NONE


def phase(obj: Object) -> str:
    """Return `status.phase`, or a status for an object that is being deleted."""
    return "Terminating" if value_at(obj, "metadata.deletionTimestamp") else str(value_at(obj, "status.phase", ""))


def any_status(obj: Object) -> str:
    """Return the status of an unknown kind: its phase, or its condition `Ready` or `Available`."""
    found = phase(obj)
    if found:
        return found
    ready = _condition(obj, "Ready") or _condition(obj, "Available")
    return {"True": "Ready", "False": "NotReady"}.get(ready or "", ready or "-")


def _condition(obj: Object, kind: str) -> str | None:
    conditions = value_at(obj, "status.conditions", ())
    for condition in conditions if isinstance(conditions, list) else ():  # a custom resource may have any value here
        if isinstance(condition, Mapping) and condition.get("type") == kind:
            return str(condition.get("status", ""))
    return None


# --- cells of one kind ----------------------------------------------------------------------------------------------


def pod_status(pod: Object) -> str:
    """Return the state of a pod: `Running`, `CrashLoopBackOff`, `Init:1/2`, `Completed`, `Terminating`."""
    return PodState.of(pod).reason or "Unknown"


def pod_ready(pod: Object) -> str:
    """Return the ready containers out of all: `1/2`."""
    state = PodState.of(pod)
    return f"{state.ready}/{state.total}"


def pod_restarts(pod: Object) -> str:
    """Return the number of restarts, and the time since the last one: `3 (5m ago)`."""
    found = PodState.of(pod)
    if found.restarts and found.last_restart:
        return f"{found.restarts} ({age(found.last_restart)} ago)"
    return str(found.restarts)


def pod_gates(pod: Object) -> str:
    """Return the open readiness gates out of all."""
    state = PodState.of(pod)
    return f"{state.open_gates}/{state.gates}" if state.gates else _NONE


def node_status(node: Object) -> str:
    """Return `Ready`, `NotReady` or `Unknown`, and whether scheduling is disabled."""
    ready = {"True": "Ready", "False": "NotReady"}.get(_condition(node, "Ready") or "", "Unknown")
    return f"{ready},SchedulingDisabled" if value_at(node, "spec.unschedulable") else ready


def node_roles(node: Object) -> str:
    """Return the roles in a node's labels."""
    labels = value_at(node, "metadata.labels", {})
    return ",".join(sorted(key[len(_NODE_ROLE) :] for key in labels if key.startswith(_NODE_ROLE))) or _NONE


def node_address(kind: str) -> Cell:
    """Show the first address of a type, such as `"InternalIP"`."""

    def cell(node: Object) -> str:
        addresses = value_at(node, "status.addresses", ())
        return next((str(one.get("address")) for one in addresses if one.get("type") == kind), _NONE)

    return cell


def job_status(job: Object) -> str:
    """Return the condition that a job has reached, or else `Running`."""
    if _condition(job, "Complete") == "True":
        return "Complete"
    if _condition(job, "Failed") == "True":
        return "Failed"
    if value_at(job, "metadata.deletionTimestamp"):
        return "Terminating"
    return "Suspended" if _condition(job, "Suspended") == "True" else "Running"


def job_duration(job: Object) -> str:
    """Return the time that a job has taken, or has taken so far."""
    start, end = value_at(job, "status.startTime"), value_at(job, "status.completionTime")
    if not start:
        return ""
    if not end:
        return age(start)
    return human_duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def external_ip(service: Object) -> str:
    """Return the external addresses of a service."""
    kind = value_at(service, "spec.type", "ClusterIP")
    if kind == "ExternalName":
        return str(value_at(service, "spec.externalName", _NONE))
    addresses = [str(address) for address in value_at(service, "spec.externalIPs", ())]
    for ingress in value_at(service, "status.loadBalancer.ingress", ()):
        addresses.append(str(ingress.get("ip") or ingress.get("hostname") or ""))
    return ",".join(filter(None, addresses)) or ("<pending>" if kind == "LoadBalancer" else _NONE)


def service_ports(service: Object) -> str:
    """Return the ports of a service: `80:30080/TCP`."""
    texts = []
    for port in value_at(service, "spec.ports", ()):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or _NONE


def ingress_hosts(ingress: Object) -> str:
    """Return the hosts of an ingress's rules."""
    return ",".join(str(rule.get("host") or "*") for rule in value_at(ingress, "spec.rules", ())) or "*"


def ingress_addresses(ingress: Object) -> str:
    """Return the addresses of an ingress's load balancer."""
    entries = value_at(ingress, "status.loadBalancer.ingress", ())
    return ",".join(str(one.get("ip") or one.get("hostname") or "") for one in entries)


def event_age(event: Object) -> str:
    """Return the time since an event was last seen."""
    for path in ("lastTimestamp", "deprecatedLastTimestamp", "eventTime", "metadata.creationTimestamp"):
        if value_at(event, path):
            return age(value_at(event, path))
    return "<unknown>"


def event_object(event: Object) -> str:
    """Return the object of an event: `pod/web-1`."""
    about = value_at(event, "involvedObject") or value_at(event, "regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def event_message(event: Object) -> str:
    """Return the message of an event of either API group."""
    return str(value_at(event, "message") or value_at(event, "note") or "").strip()


def subjects(kind: str) -> Cell:
    """Show the subjects of one kind that a role is bound to."""

    def cell(binding: Object) -> str:
        return ", ".join(
            f"{one.get('namespace', '')}/{one.get('name', '')}" if kind == "ServiceAccount" else str(one.get("name"))
            for one in value_at(binding, "subjects", ())
            if one.get("kind") == kind
        )

    return cell
