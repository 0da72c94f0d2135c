"""Tables: what `kubectl get` shows (pkg/printers/internalversion/printers.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from kinformer.testing.resources import ResourceType

__all__ = ["Table"]

NAME = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a"
    " client to request the generation of an appropriate name automatically. Name is primarily intended for creation"
    " idempotence and configuration definition. Cannot be updated. More info:"
    " https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
CREATED = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed"
    " to be set in happens-before order across separate operations. Clients may not set this value. It is represented"
    " in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info:"
    " https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
Object = dict[str, Any]


def _column(name: str, kind: str = "string", *, priority: int = 0, text: str = "", form: str = "") -> Object:
    return {"name": name, "type": kind, "format": form, "description": text, "priority": priority}


_NAME = _column("Name", form="name", text=NAME)
_AGE = _column("Age", text=CREATED)


def _age(obj: Object) -> str:
    created = obj["metadata"].get("creationTimestamp")
    if not created:
        return "<unknown>"
    since = datetime.now(UTC) - datetime.fromisoformat(created)
    return _duration(max(0, int(since.total_seconds())))


def _duration(seconds: int) -> str:
    """As apimachinery/pkg/util/duration, HumanDuration, but without the mixed forms of its middle ranges."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _none(value: Any) -> Any:
    return value if value not in (None, "") else "<none>"


def _pod(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    statuses = status.get("containerStatuses") or []
    ready = sum(1 for one in statuses if one.get("ready"))
    restarts = sum(one.get("restartCount", 0) for one in statuses)
    phase = status.get("reason") or status.get("phase") or "Unknown"
    for one in statuses:
        state = one.get("state") or {}
        waiting = (state.get("waiting") or {}).get("reason") or (state.get("terminated") or {}).get("reason")
        phase = waiting or phase
    if obj["metadata"].get("deletionTimestamp"):
        phase = "Terminating"
    return [
        f"{ready}/{len(spec.get('containers') or [])}",
        phase,
        str(restarts),
        _age(obj),
        _none(status.get("podIP")),
        _none(spec.get("nodeName")),
        _none(status.get("nominatedNodeName")),
        "<none>",
    ]


def _containers(template: Object) -> tuple[str, str]:
    containers = (template.get("spec") or {}).get("containers") or []
    return ",".join(one.get("name", "") for one in containers), ",".join(one.get("image", "") for one in containers)


def _selector(selector: Object | None) -> str:
    labels = (selector or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def _deployment(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    names, images = _containers(spec.get("template") or {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [
        ready,
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj),
        names,
        images,
        _selector(spec.get("selector")),
    ]


def _replicaset(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0), _age(obj)]


def _statefulset(obj: Object) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}", _age(obj)]


def _service(obj: Object) -> list[Any]:
    spec = obj.get("spec") or {}
    ports = ",".join(f"{one.get('port')}/{one.get('protocol', 'TCP')}" for one in spec.get("ports") or [])
    return [spec.get("type", "ClusterIP"), _none(spec.get("clusterIP")), "<none>", _none(ports), _age(obj)]


def _node(obj: Object) -> list[Any]:
    status = obj.get("status") or {}
    ready: Object = next((one for one in status.get("conditions") or [] if one.get("type") == "Ready"), {})
    text = {"True": "Ready", "False": "NotReady"}.get(ready.get("status", ""), "Unknown")
    if (obj.get("spec") or {}).get("unschedulable"):
        text += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key[len(prefix) :] for key in obj["metadata"].get("labels") or {} if key.startswith(prefix))
    return [text, _none(",".join(roles)), _age(obj), (status.get("nodeInfo") or {}).get("kubeletVersion", "")]


def _event(obj: Object) -> list[Any]:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    seen = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or obj.get("eventTime")
    subject = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
    message = obj.get("message") or obj.get("note") or ""
    return [seen or "<unknown>", obj.get("type", ""), obj.get("reason", ""), subject, message.strip()]


# kind -> the columns between Name and the row's cells; a row function gives the cells behind the name.
_KINDS: Mapping[str, tuple[Sequence[Object], Callable[[Object], list[Any]]]] = {
    "Pod": (
        (
            _column("Ready", text="The aggregate readiness state of this pod for accepting traffic."),
            _column("Status", text="The aggregate status of the containers in this pod."),
            _column("Restarts", text="The number of times the containers in this pod have been restarted."),
            _AGE,
            _column("IP", priority=1),
            _column("Node", priority=1),
            _column("Nominated Node", priority=1),
            _column("Readiness Gates", priority=1),
        ),
        _pod,
    ),
    "Deployment": (
        (
            _column("Ready", text="Number of the pod with ready state"),
            _column("Up-to-date"),
            _column("Available"),
            _AGE,
            _column("Containers", priority=1),
            _column("Images", priority=1),
            _column("Selector", priority=1),
        ),
        _deployment,
    ),
    "ReplicaSet": (
        (_column("Desired", "integer"), _column("Current", "integer"), _column("Ready", "integer"), _AGE),
        _replicaset,
    ),
    "StatefulSet": ((_column("Ready"), _AGE), _statefulset),
    "Service": (
        (_column("Type"), _column("Cluster-IP"), _column("External-IP"), _column("Port(s)"), _AGE),
        _service,
    ),
    "Node": ((_column("Status"), _column("Roles"), _AGE, _column("Version")), _node),
    "Namespace": (
        (_column("Status"), _AGE),
        lambda obj: [(obj.get("status") or {}).get("phase", ""), _age(obj)],
    ),
    "ConfigMap": (
        (_column("Data"), _AGE),
        lambda obj: [str(len(obj.get("data") or {}) + len(obj.get("binaryData") or {})), _age(obj)],
    ),
    "Secret": (
        (_column("Type"), _column("Data"), _AGE),
        lambda obj: [obj.get("type", "Opaque"), len(obj.get("data") or {}), _age(obj)],
    ),
    "Lease": (
        (_column("Holder"), _AGE),
        lambda obj: [(obj.get("spec") or {}).get("holderIdentity", ""), _age(obj)],
    ),
}
_EVENT_COLUMNS = (
    _column("Last Seen", form=""),
    _column("Type"),
    _column("Reason"),
    _column("Object"),
    _column("Message"),
)


class Table:
    """Columns and rows of one kind."""

    def __init__(self, resource: ResourceType) -> None:
        self._row: Callable[[Object], list[Any]]
        if resource.kind == "Event" and resource.builtin:
            self.columns: list[Object] = list(_EVENT_COLUMNS)
            self._row = _event
            return
        name: Callable[[Object], list[Any]] = lambda obj: [obj["metadata"]["name"]]  # noqa: E731
        if resource.builtin and resource.kind in _KINDS:
            columns, cells = _KINDS[resource.kind]
        elif resource.columns:
            columns = [_custom_column(one) for one in resource.columns]
            paths = [str(one.get("jsonPath", "")) for one in resource.columns]
            cells = lambda obj: [_at(obj, path) for path in paths]  # noqa: E731
        else:  # rest/table.go, defaultTableConvertor
            form = "date" if not resource.builtin else "string"
            columns = [_column("Age" if not resource.builtin else "Created At", form, text=CREATED)]
            if resource.builtin:
                columns[0]["type"] = "date"
            cells = lambda obj: [obj["metadata"].get("creationTimestamp", "")]  # noqa: E731
        self.columns = [_NAME, *columns]
        self._row = lambda obj: [*name(obj), *cells(obj)]

    def body(self, sources: Sequence[tuple[Object, bytes]], metadata: Object) -> Object:
        """The Table of a list."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": self.columns,
            "rows": [self._cells(*source) for source in sources],
        }

    def event(self, source: tuple[Object, bytes], *, columns: bool) -> Object:
        """The Table of one event; its columns stand only in the first of a stream."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": source[0]["metadata"].get("resourceVersion", "")},
            "columnDefinitions": self.columns if columns else None,
            "rows": [self._cells(*source)],
        }

    def _cells(self, obj: Object, partial: bytes) -> Object:
        return {"cells": self._row(obj), "object": msgspec.Raw(partial)}


def _custom_column(column: Mapping[str, Any]) -> Object:
    return _column(
        str(column.get("name", "")),
        str(column.get("type", "string")),
        priority=int(column.get("priority", 0)),
        text=str(column.get("description", "")),
        form=str(column.get("format", "")),
    )


def _at(obj: Any, path: str) -> Any:
    """The value at a simple JSON path such as `.spec.replicas`; None where there is none."""
    value = obj
    for part in path.strip(".").replace("\\.", "\0").split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part.replace("\0", "."))
    return value
