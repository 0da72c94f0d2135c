"""Formats sizes, times, rates and counts: `8.1 KB`, `1.2 s`, `3.4`, `12 objects`."""

from __future__ import annotations

__all__ = ["count", "rate", "seconds", "size"]


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
