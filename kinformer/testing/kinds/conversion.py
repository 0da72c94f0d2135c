"""Conversion between versions of a kind that differ in more than their name.

An Event exists as `v1` and as `events.k8s.io/v1` (pkg/apis/events/v1/conversion.go). A HorizontalPodAutoscaler is
stored as `autoscaling/v2` (pkg/apis/autoscaling/v1/conversion.go).
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["core_event", "events_k8s_event", "hpa_v1", "hpa_v2"]

_KEPT = "autoscaling.alpha.kubernetes.io/"

_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: new for new, core in _TO_CORE.items()}


def core_event(event: dict[str, Any]) -> dict[str, Any]:
    """Convert an `events.k8s.io/v1` Event to `v1`."""
    renamed = {_TO_CORE.get(name, name): value for name, value in event.items()}
    renamed["apiVersion"] = "v1"
    renamed.setdefault("source", {})
    renamed.setdefault("firstTimestamp", None)
    renamed.setdefault("lastTimestamp", None)
    return renamed


def events_k8s_event(event: dict[str, Any]) -> dict[str, Any]:
    """Convert a `v1` Event to `events.k8s.io/v1`."""
    renamed = {_FROM_CORE.get(name, name): value for name, value in event.items()}
    renamed["apiVersion"] = "events.k8s.io/v1"
    renamed.setdefault("eventTime", None)
    return renamed


def hpa_v2(scaler: dict[str, Any]) -> dict[str, Any]:
    """Convert an `autoscaling/v1` HorizontalPodAutoscaler to `autoscaling/v2`."""
    spec, status = dict(scaler.get("spec") or {}), dict(scaler.get("status") or {})
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    metadata = dict(scaler["metadata"])
    kept = dict(metadata.get("annotations") or {})
    metrics = [_cpu_metric(percentage)] if percentage is not None else []
    metrics += _unpack(kept, "metrics", [])
    if metrics:
        spec["metrics"] = metrics
    behavior = _unpack(kept, "behavior", None)
    if behavior:
        spec["behavior"] = behavior
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        utilization = {"averageUtilization": current, "averageValue": "0"}
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": utilization}}]
    status.setdefault("currentMetrics", None)
    conditions = _unpack(kept, "conditions", None)
    if conditions:
        status["conditions"] = conditions
    metadata.pop("annotations", None)
    if kept:
        metadata["annotations"] = kept
    return {**scaler, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec, "status": status}


def hpa_v1(scaler: dict[str, Any]) -> dict[str, Any]:
    """Convert an `autoscaling/v2` HorizontalPodAutoscaler to `autoscaling/v1`.

    Fields unknown to v1 go into annotations.
    """
    spec, status = dict(scaler.get("spec") or {}), dict(scaler.get("status") or {})
    metadata = dict(scaler["metadata"])
    kept = dict(metadata.get("annotations") or {})
    others = []
    for metric in spec.pop("metrics", None) or []:
        target = (metric.get("resource") or {}).get("target") or {}
        if (metric.get("resource") or {}).get("name") == "cpu" and "averageUtilization" in target:
            spec["targetCPUUtilizationPercentage"] = target["averageUtilization"]
        else:
            others.append(metric)
    current = [
        metric["resource"]["current"]["averageUtilization"]
        for metric in status.pop("currentMetrics", None) or []
        if metric.get("resource", {}).get("name") == "cpu"
        and "averageUtilization" in metric["resource"].get("current", {})
    ]
    if current:
        status["currentCPUUtilizationPercentage"] = current[0]
    for name, value in (
        ("metrics", others),
        ("behavior", spec.pop("behavior", None)),
        ("conditions", status.pop("conditions", None)),
    ):
        if value:
            kept[f"{_KEPT}{name}"] = json.dumps(value, separators=(",", ":"))
    status.setdefault("currentReplicas", 0)
    if kept:
        metadata["annotations"] = kept
    return {**scaler, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def _cpu_metric(percentage: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _unpack(annotations: dict[str, str], name: str, default: Any) -> Any:
    kept = annotations.pop(f"{_KEPT}{name}", None)
    return default if kept is None else json.loads(kept)
