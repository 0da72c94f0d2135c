"""Ages as `kubectl get` shows them (apimachinery, pkg/util/duration/duration.go, HumanDuration)."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["age", "human_duration"]


def human_duration(seconds: float) -> str:
    """Format a duration: `5s`, `3m20s`, `45m`, `5h12m`, `2d3h`, `400d`, `2y35d`.

    A second unit follows if the first is small.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"  # the clocks differ slightly
    if whole < 60 * 2:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 60 * 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(first: int, unit: str, second: int, second_unit: str) -> str:
    return f"{first}{unit}{second}{second_unit}" if second else f"{first}{unit}"


def age(since: object, unknown: str = "<unknown>", *, now: datetime | None = None) -> str:
    """Format the time since an API timestamp, or return `unknown` if it is missing or invalid."""
    if isinstance(since, str):
        try:
            since = datetime.fromisoformat(since)
        except ValueError:
            return unknown
    if not isinstance(since, datetime):
        return unknown
    if since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    return human_duration(((now or datetime.now(UTC)) - since).total_seconds())
