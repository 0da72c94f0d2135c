"""Conversion between the two faces of an Event: `v1` and `events.k8s.io/v1` (pkg/apis/events/v1/conversion.go)."""

from __future__ import annotations

from typing import Any

__all__ = ["core_event", "events_k8s_event"]

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
    """An `events.k8s.io/v1` Event as a `v1` Event."""
    renamed = {_TO_CORE.get(name, name): value for name, value in event.items()}
    renamed["apiVersion"] = "v1"
    renamed.setdefault("source", {})
    renamed.setdefault("firstTimestamp", None)
    renamed.setdefault("lastTimestamp", None)
    return renamed


def events_k8s_event(event: dict[str, Any]) -> dict[str, Any]:
    """A `v1` Event as an `events.k8s.io/v1` Event."""
    renamed = {_FROM_CORE.get(name, name): value for name, value in event.items()}
    renamed["apiVersion"] = "events.k8s.io/v1"
    renamed.setdefault("eventTime", None)
    return renamed
