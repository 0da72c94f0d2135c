"""Amounts and times as text: `500m` (apimachinery, pkg/api/resource), `1m30s` (Go's package time), `2d3h` (kubectl)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_UP, Decimal
from functools import lru_cache

__all__ = ["age", "amount", "canonical", "duration_seconds", "human_duration", "micro_time", "quantity_value"]

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([-+]?[0-9]+))?")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SMALL = {"n": -9, "u": -6, "m": -3}


def amount(text: str) -> Decimal:
    """Return a quantity as a number, or 0 if it is invalid."""
    return quantity_value(text) or Decimal(0)


def quantity_value(text: str) -> Decimal | None:
    """Return a quantity as a number, or None if it is invalid."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix, exponent = Decimal(match[1]), match[2] or "", match[3]
    if exponent is not None:
        try:
            return number.scaleb(int(exponent))
        except ArithmeticError:  # the number is far beyond what a server accepts
            return None
    if suffix.endswith("i"):
        return number * Decimal(1024 ** _BINARY.index(suffix))
    if suffix in _SMALL:
        return number.scaleb(_SMALL[suffix])
    return number.scaleb(3 * _DECIMAL.index(suffix))


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Return the canonical form: `1000m` is `1`, `1024Mi` is `1Gi`, `0.5` is `500m`."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match[3] is not None:
        return text  # a quantity with an exponent stays as it is
    value = amount(text)
    if (match[2] or "").endswith("i") and value == value.to_integral_value():
        return _reduced(int(value), 1024, _BINARY)
    thousandths = int(value.scaleb(3).to_integral_value(ROUND_UP))
    if thousandths % 1000:
        return f"{thousandths}m"
    return _reduced(thousandths // 1000, 1000, _DECIMAL)


def _reduced(whole: int, base: int, suffixes: tuple[str, ...]) -> str:
    place = 0
    while whole and whole % base == 0 and place < len(suffixes) - 1:
        whole //= base
        place += 1
    return f"{whole}{suffixes[place]}"


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^0-9.]*)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration_seconds(text: str) -> float:
    """Return a duration in Go's syntax in seconds: `1m30s`, `-1.5h`, `0`.

    Raises:
        ValueError: It is none, with the message of Go's time.ParseDuration.
    """
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0.0
    seconds = 0.0
    while True:
        part = _DURATION.match(rest)
        if part is None:
            raise ValueError(f'time: invalid duration "{text}"')
        if not part[2]:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if part[2] not in _SECONDS:
            raise ValueError(f'time: unknown unit "{part[2]}" in duration "{text}"')
        seconds += float(part[1]) * _SECONDS[part[2]]
        rest = rest[part.end() :]
        if not rest:
            return -seconds if text.startswith("-") else seconds


def human_duration(seconds: float) -> str:
    """Format a duration as kubectl does: `5s`, `3m20s`, `45m`, `5h12m`, `2d3h`, `400d`, `2y35d`.

    A second unit follows if the first is small (apimachinery, pkg/util/duration/duration.go, HumanDuration).
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
            since = datetime.fromisoformat(since) if "T" in since else None
        except ValueError:
            return unknown
    if not isinstance(since, datetime):
        return unknown
    if since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    return human_duration(((now or datetime.now(UTC)) - since).total_seconds())


def micro_time(wall: float) -> str:
    """Format a time as a MicroTime, as apimachinery does (pkg/apis/meta/v1/micro_time.go)."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(wall * 1e6))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
