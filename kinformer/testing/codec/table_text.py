"""Formats cells of tables: ages, selectors, shortened lists (apimachinery/pkg/util/duration, printers.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kinformer.objects.selectors import LabelSelector

__all__ = ["age", "containers", "human_duration", "label_selector", "labels_text", "listed", "or_none", "since"]

Object = Mapping[str, Any]


def human_duration(seconds: int) -> str:
    """Format a duration as `90s`, `2m5s`, `3h` or `2d`. Longer durations get fewer digits."""
    if seconds < 0:
        return "0s" if seconds >= -1 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, lesser: str) -> str:
    return f"{large}{unit}{small}{lesser}" if small else f"{large}{unit}"


def since(moment: str | None, unknown: str = "<unknown>") -> str:
    """Format the time since a timestamp."""
    if not moment:
        return unknown
    return human_duration(int((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))


def age(obj: Object) -> str:
    """Format the age of an object."""
    return since(obj["metadata"].get("creationTimestamp"))


def or_none(value: Any) -> Any:
    """Return the value, or `<none>`."""
    return value if value not in (None, "") else "<none>"


def containers(template: Object) -> tuple[str, str]:
    """Return the names and images of a template's containers."""
    listed = (template.get("spec") or {}).get("containers") or []
    return ",".join(one.get("name", "") for one in listed), ",".join(one.get("image", "") for one in listed)


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Format labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def label_selector(selector: Object | None) -> str:
    """Format a LabelSelector as one line."""
    requirements = LabelSelector.from_object(selector or {}).requirements
    return ",".join(str(one) for one in sorted(requirements, key=lambda one: one.key)) or "<none>"


def listed(values: Sequence[str], most: int = 3, *, separator: str = ",") -> str:
    """Return the first `most` values, and the number of others."""
    if not values:
        return "<none>" if most == 2 else "<unset>"
    shown = separator.join(values[:most])
    return f"{shown} + {len(values) - most} more..." if len(values) > most else shown
