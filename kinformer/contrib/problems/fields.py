"""Readers of fields that any program may have written, so they may have any type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

__all__ = ["Object", "flag", "moment", "number", "one_line", "status_written", "tables", "text", "value"]

Object = Mapping[str, Any]

_LONGEST = 300  # characters of a message


def value(obj: object, *names: str) -> Any:
    """Return the value under nested keys, or None."""
    for name in names:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def text(obj: object, *names: str) -> str:
    """Return a string, or ""."""
    found = value(obj, *names)
    return found if isinstance(found, str) else ""


def number(obj: object, *names: str, default: int = 0) -> int:
    """Return a whole number, or `default`."""
    found = value(obj, *names)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def flag(obj: object, *names: str) -> bool:
    """Return True if the field is true."""
    return value(obj, *names) is True


def tables(obj: object, *names: str) -> Sequence[Object]:
    """Return the mappings in a list, or nothing."""
    found = value(obj, *names)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def moment(obj: object, *names: str) -> float | None:
    """Return a time in seconds since the epoch, or None. Kubernetes writes a time that is not set as year 1."""
    try:
        found = datetime.fromisoformat(text(obj, *names))
    except ValueError:
        return None
    seconds = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    return seconds if seconds >= 0 else None


def status_written(obj: Object) -> float | None:
    """Return the time of the last write of the status, since which it is as it is. None without managedFields."""
    times = [
        moment(entry, "time")
        for entry in tables(obj, "metadata", "managedFields")
        if text(entry, "subresource") == "status"
    ]
    return max((time for time in times if time is not None), default=None)


def one_line(words: str) -> str:
    """Return a message in one line of bounded length."""
    line = " ".join(words[: 4 * _LONGEST].split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
