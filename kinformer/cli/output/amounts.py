"""Formats sizes, times, rates and counts: `8.1 KB`, `1.2 s`, `3.4`, `12 objects`."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["age", "count", "human_duration", "rate", "seconds", "size"]


def size(number: float) -> str:
    """Format bytes in decimal units: `512 B`, `8.1 KB`, `34 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 999.5 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" or number >= 9.95 else f"{number:.1f} {unit}"


def seconds(number: float) -> str:
    """Format a time: `3 ms`, `0.12 s`, `4.5 s`, `2 min 5 s`."""
    if number < 0.0995:
        return f"{max(1, round(number * 1000))} ms"
    if number < 0.995:
        return f"{number:.2f} s"
    if number < 9.95:
        return f"{number:.1f} s"
    whole = round(number)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def rate(number: float) -> str:
    """Format a rate: `0`, `0.3`, `12`, `1,200`."""
    return "0" if number < 0.05 else f"{number:.1f}" if number < 9.95 else f"{number:,.0f}"


def count(number: int, what: str) -> str:
    """Format a count: `1 object`, `5,120 objects`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def human_duration(seconds: float) -> str:
    """Format a duration: `5s`, `3m20s`, `45m`, `5h12m`, `2d3h`, `400d`, `2y35d`.

    A second unit follows if the first is small, as in apimachinery (pkg/util/duration/duration.go, HumanDuration).
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
    if hours < 24 * 8:
        return _two(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(first: int, unit: str, second: int, second_unit: str) -> str:
    return f"{first}{unit}{second}{second_unit}" if second else f"{first}{unit}"


def age(since: datetime | str | None, now: datetime | None = None) -> str:
    """Format the time since an API timestamp, or return `<unknown>` if it is missing or invalid."""
    if isinstance(since, str):
        try:
            since = datetime.fromisoformat(since)
        except ValueError:
            return "<unknown>"
    if since is None:
        return "<unknown>"
    if since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    return human_duration(((now or datetime.now(UTC)) - since).total_seconds())
