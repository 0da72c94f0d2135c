"""Times and durations: parsing, formatting and components."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from kinformer.testing.cel.functions import Library
from kinformer.testing.cel.values import INT_MAX, INT_MIN, CELError, Duration, Timestamp

__all__ = ["add_times", "not_converted", "parse_duration", "parse_timestamp"]

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_UNITS.update(m=60 * _UNITS["s"], h=3600 * _UNITS["s"])
_DURATION = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|[+-]?0")
_PART = re.compile(r"(\d+)?(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))")
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANO = 1_000_000_000


def not_converted(name: str) -> CELError:
    """Return the error of a string that cannot be converted to a type."""
    return CELError(f"type conversion error from 'string' to '{name}'")


def parse_duration(text: str) -> Duration:
    """Parse a duration in Go's syntax: `1h30m`, `-1.5s`."""
    if not _DURATION.fullmatch(text):
        raise not_converted("google.protobuf.Duration")
    nanos = 0
    for whole, fraction, unit in _PART.findall(text):
        factor = _UNITS[unit]
        nanos += int(whole or 0) * factor
        if fraction:
            nanos += int(fraction) * factor // 10 ** len(fraction)
    if text.startswith("-"):
        nanos = -nanos
    if not INT_MIN <= nanos <= INT_MAX:
        raise not_converted("google.protobuf.Duration")
    return Duration(nanos)


def parse_timestamp(text: str) -> Timestamp:
    """Parse an RFC 3339 timestamp, to the nanosecond."""
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise not_converted("google.protobuf.Timestamp")
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise not_converted("google.protobuf.Timestamp") from None
    nanos = int((moment - _EPOCH).total_seconds()) * _NANO + int((match[7] or "0").ljust(9, "0")[:9])
    if match[8]:
        shift = (int(match[9]) * 3600 + int(match[10]) * 60) * _NANO
        nanos += shift if match[8] == "-" else -shift
    return Timestamp(nanos)


def _zone(name: str) -> tzinfo:
    match = _OFFSET.fullmatch(name)
    if match:
        span = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-span if match[1] == "-" else span)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError):
        raise CELError(f"unknown time zone {name}") from None


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def run(moment: Timestamp, zone: str = "") -> int:
        when = moment.moment()
        return read(when.astimezone(_zone(zone)) if zone else when)

    return run


def _thousandths(moment: Timestamp, zone: str = "") -> int:
    return moment.nanos % _NANO // 1_000_000


def _truncated(nanos: int, unit: int) -> int:
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


def _span_in(unit: int) -> Callable[[Duration], int]:
    return lambda span: _truncated(span.nanos, unit)


def add_times(library: Library) -> None:
    """Add the functions of times and durations."""
    library.add("duration", "(duration) -> duration", run=lambda span: span)
    library.add("duration", "(string) -> duration", run=parse_duration)
    library.add("duration", "(int) -> duration", run=Duration)
    library.add("timestamp", "(timestamp) -> timestamp", run=lambda moment: moment)
    library.add("timestamp", "(string) -> timestamp", run=parse_timestamp)
    library.add("timestamp", "(int) -> timestamp", run=lambda seconds: Timestamp(seconds * _NANO))
    parts: tuple[tuple[str, Callable[[datetime], int]], ...] = (
        ("getFullYear", lambda moment: moment.year),
        ("getMonth", lambda moment: moment.month - 1),
        ("getDayOfMonth", lambda moment: moment.day - 1),
        ("getDate", lambda moment: moment.day),
        ("getDayOfWeek", lambda moment: moment.isoweekday() % 7),
        ("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1),
        ("getHours", lambda moment: moment.hour),
        ("getMinutes", lambda moment: moment.minute),
        ("getSeconds", lambda moment: moment.second),
    )
    of_times = ("timestamp.() -> int", "timestamp.(string) -> int")
    for name, read in parts:
        library.add(name, *of_times, run=_part(read))
    library.add("getMilliseconds", *of_times, run=_thousandths)
    for name, unit in (("getHours", "h"), ("getMinutes", "m"), ("getSeconds", "s"), ("getMilliseconds", "ms")):
        library.add(name, "duration.() -> int", run=_span_in(_UNITS[unit]))
