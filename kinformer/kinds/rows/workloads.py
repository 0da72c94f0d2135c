"""Rows of pods and workloads."""

from __future__ import annotations

from datetime import datetime

from kinformer.kinds.rows.cells import (
    NONE,
    UNSET,
    Object,
    age_of,
    containers,
    count_at,
    labels_of,
    name_of,
    or_none,
    selector_of,
)
from kinformer.kinds.state import job_state
from kinformer.objects.accessors import flag_at, number_at, string_at, table_at, tables_at, value_at
from kinformer.objects.pod_status import PodState
from kinformer.objects.units import age, human_duration

__all__ = [
    "cron_job",
    "daemon_set",
    "deployment",
    "job",
    "pod",
    "pod_template",
    "replica_set",
    "replication_controller",
    "revision",
    "stateful_set",
]


def pod(obj: Object) -> list[object]:
    state = PodState.of(obj)
    restarts = str(state.restarts)
    if state.restarts and state.last_restart:
        restarts = f"{state.restarts} ({age(state.last_restart)} ago)"
    addresses = tables_at(obj, "status", "podIPs") or [{"ip": string_at(obj, "status", "podIP")}]
    return [
        *(name_of(obj), f"{state.ready}/{state.total}", state.reason or "Unknown", restarts, age_of(obj)),
        *(or_none(string_at(addresses[0], "ip")), or_none(string_at(obj, "spec", "nodeName"))),
        or_none(string_at(obj, "status", "nominatedNodeName")),
        f"{state.open_gates}/{state.gates}" if state.gates else NONE,
    ]


def pod_template(obj: Object) -> list[object]:
    template = table_at(obj, "template")
    return [name_of(obj), *containers(template), labels_of(table_at(template, "metadata", "labels"))]


def _desired(obj: Object) -> int:
    return number_at(obj, "spec", "replicas", default=1)


def _ratio(obj: Object) -> str:
    return f"{number_at(obj, 'status', 'readyReplicas')}/{_desired(obj)}"


def _template(obj: Object) -> tuple[str, str]:
    return containers(value_at(obj, "spec", "template"))


def _selector(obj: Object) -> str:
    return selector_of(value_at(obj, "spec", "selector"))


def deployment(obj: Object) -> list[object]:
    counts = [number_at(obj, "status", name) for name in ("updatedReplicas", "availableReplicas")]
    return [name_of(obj), _ratio(obj), *counts, age_of(obj), *_template(obj), _selector(obj)]


def _replicas(obj: Object) -> list[int]:
    return [_desired(obj), number_at(obj, "status", "replicas"), number_at(obj, "status", "readyReplicas")]


def replica_set(obj: Object) -> list[object]:
    return [name_of(obj), *_replicas(obj), age_of(obj), *_template(obj), _selector(obj)]


def replication_controller(obj: Object) -> list[object]:
    selector = labels_of(value_at(obj, "spec", "selector"))
    return [name_of(obj), *_replicas(obj), age_of(obj), *_template(obj), selector]


def stateful_set(obj: Object) -> list[object]:
    return [name_of(obj), _ratio(obj), age_of(obj), *_template(obj)]


_SCHEDULED = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")


def daemon_set(obj: Object) -> list[object]:
    counts = [number_at(obj, "status", name) for name in (*_SCHEDULED, "numberAvailable")]
    nodes = labels_of(value_at(obj, "spec", "template", "spec", "nodeSelector"))
    return [name_of(obj), *counts, nodes, age_of(obj), *_template(obj), _selector(obj)]


def job(obj: Object) -> list[object]:
    done, parallelism = number_at(obj, "status", "succeeded"), number_at(obj, "spec", "parallelism")
    if value_at(obj, "spec", "completions") is not None:
        progress = f"{done}/{number_at(obj, 'spec', 'completions')}"
    else:
        progress = f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    cells = [name_of(obj), job_state(obj), progress, _duration(obj), age_of(obj)]
    return [*cells, *_template(obj), _selector(obj)]


def _duration(obj: Object) -> str:
    start, end = string_at(obj, "status", "startTime"), string_at(obj, "status", "completionTime")
    if not end:
        return age(start, "")
    try:
        return human_duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except (ValueError, TypeError):  # no start, or a time without a zone
        return ""


def cron_job(obj: Object) -> list[object]:
    template = table_at(obj, "spec", "jobTemplate", "spec")
    suspend = value_at(obj, "spec", "suspend")
    return [
        *(name_of(obj), string_at(obj, "spec", "schedule"), or_none(string_at(obj, "spec", "timeZone"))),
        *(UNSET if suspend is None else str(flag_at(obj, "spec", "suspend")), count_at(obj, "status", "active")),
        *(age(value_at(obj, "status", "lastScheduleTime"), NONE), age_of(obj)),
        *(*containers(value_at(template, "template")), selector_of(value_at(template, "selector"))),
    ]


def revision(obj: Object) -> list[object]:
    owners = tables_at(obj, "metadata", "ownerReferences")
    owner = next((owner for owner in owners if flag_at(owner, "controller")), None)
    controller = NONE
    if owner is not None:
        group = string_at(owner, "apiVersion").rpartition("/")[0]
        kind = string_at(owner, "kind").lower()
        controller = f"{kind}{'.' + group if group else ''}/{string_at(owner, 'name')}"
    return [name_of(obj), controller, number_at(obj, "revision"), age_of(obj)]
