"""Rows of rights, limits and autoscalers."""

from __future__ import annotations

from kinformer.kinds.rows.cells import UNSET, age_of, name_of, scalar_at, shortened
from kinformer.objects.accessors import number_at, string_at, table_at, tables_at, value_at
from kinformer.objects.types import Object

__all__ = ["budget", "priority_class", "quota", "role_binding", "scaler"]

_UNKNOWN, _AUTO = "<unknown>", "<auto>"


def role_binding(obj: Object) -> list[object]:
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in tables_at(obj, "subjects"):
        kind, name = string_at(subject, "kind"), string_at(subject, "name")
        if kind in subjects:
            subjects[kind].append(f"{string_at(subject, 'namespace')}/{name}" if kind == "ServiceAccount" else name)
    role = table_at(obj, "roleRef")
    shown = [", ".join(names) for names in subjects.values()]
    return [name_of(obj), f"{string_at(role, 'kind')}/{string_at(role, 'name')}", age_of(obj), *shown]


def quota(obj: Object) -> list[object]:
    used, shown = table_at(obj, "status", "used"), {True: list[str](), False: list[str]()}
    for name, hard in sorted(table_at(obj, "status", "hard").items()):
        shown[name.startswith("limits.")].append(f"{name}: {scalar_at(used, name)}/{hard}")
    return [name_of(obj), ", ".join(shown[False]), ", ".join(shown[True]), age_of(obj)]


def budget(obj: Object) -> list[object]:
    limits = [str(scalar_at(obj, "spec", name, default="N/A")) for name in ("minAvailable", "maxUnavailable")]
    return [name_of(obj), *limits, number_at(obj, "status", "disruptionsAllowed"), age_of(obj)]


def priority_class(obj: Object) -> list[object]:
    policy = string_at(obj, "preemptionPolicy")
    return [name_of(obj), number_at(obj, "value"), bool(obj.get("globalDefault")), age_of(obj), policy]


def scaler(obj: Object) -> list[object]:
    target = table_at(obj, "spec", "scaleTargetRef")
    least = value_at(obj, "spec", "minReplicas")
    return [
        *(name_of(obj), f"{string_at(target, 'kind')}/{string_at(target, 'name')}"),
        *(shortened(_targets(obj), 2, separator=", "), UNSET if least is None else str(least)),
        *(number_at(obj, "spec", "maxReplicas"), number_at(obj, "status", "currentReplicas"), age_of(obj)),
    ]


def _targets(obj: Object) -> list[str]:
    spec, status = table_at(obj, "spec"), table_at(obj, "status")
    shown = []
    goal = value_at(spec, "targetCPUUtilizationPercentage")  # autoscaling/v1
    if goal is not None:
        shown.append(f"cpu: {_percent(value_at(status, 'currentCPUUtilizationPercentage'), _UNKNOWN)}/{goal}%")
    current = tables_at(status, "currentMetrics")
    for index, metric in enumerate(tables_at(spec, "metrics")):
        shown.append(_target(metric, current[index] if index < len(current) else {}))
    return shown


def _target(metric: Object, current: Object) -> str:
    kind = string_at(metric, "type")
    key = kind[:1].lower() + kind[1:]
    now, target = table_at(current, key, "current"), table_at(metric, key, "target")
    name = f"{string_at(metric, key, 'name')}: " if kind in ("Resource", "ContainerResource") else ""
    if "averageValue" in target:
        average = " (avg)" if kind in ("External", "Object") else ""
        return f"{name}{scalar_at(now, 'averageValue', default=_UNKNOWN)}/{target['averageValue']}{average}"
    if name:
        used, goal = value_at(now, "averageUtilization"), value_at(target, "averageUtilization")
        return f"{name}{_percent(used, _UNKNOWN)}/{_percent(goal, _AUTO)}"
    return f"{scalar_at(now, 'value', default=_UNKNOWN)}/{scalar_at(target, 'value', default='')}"


def _percent(value: object, unknown: str) -> str:
    return unknown if value is None else f"{value}%"
