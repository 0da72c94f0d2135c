"""The changes of a watch as lines on stdout, each at once, for whoever reads the pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from kinformer.cli.commands.get import object_name
from kinformer.cli.output.differences import ABSENT, object_differences
from kinformer.cli.output.documents import in_one_line
from kinformer.cli.output.live_table import difference_lines
from kinformer.cli.output.tables import Table
from kinformer.cli.output.text import escaped
from kinformer.client.discovery import APIResource
from kinformer.exceptions import DecodeError
from kinformer.objects.object import KubeObject
from kinformer.processor.event_stream import InformerEvent

__all__ = ["EventLines", "JsonLines", "NameLines", "TableLines"]


class EventLines(Protocol):
    """Writes events to stdout."""

    def fit(self, objects: Iterable[KubeObject]) -> None: ...
    def write(self, event: InformerEvent) -> None: ...


class TableLines:
    """A line an event, in columns, and below an update what it changed.

    Args:
        table: Where to.
        noise: Paths that differences leave out; None shows no differences.
    """

    def __init__(self, table: Table, *, noise: frozenset[str] | None) -> None:
        self._table = table
        self._noise = noise

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Make the columns wide enough for these."""
        self._table.fit(objects)

    def write(self, event: InformerEvent) -> None:
        """One event."""
        self._table.write(event.object, event.type)
        if self._noise is not None and event.type == "UPDATED" and event.old is not None:
            for line in difference_lines(event.old, event.object, self._noise):
                self._table.write_below(line)


class NameLines:
    """`pod/web-1` at each event."""

    def __init__(self, resource: APIResource) -> None:
        self._resource = resource

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Names have no columns."""

    def write(self, event: InformerEvent) -> None:
        """One event."""
        sys.stdout.write(f"{object_name(self._resource, event.object)}\n")
        sys.stdout.flush()


class JsonLines:
    """A JSON object an event: `type`, `key` and `object`, and what else there is to say of it.

    `initial` is true of what was there when the watch began, `final_state_unknown` of a delete that was found out
    afterwards. With differences an update has `changes`, a list of `path`, and `old` and `new` where there are such; it
    is null for an object that is nested too deeply to be compared.
    """

    def __init__(self, *, noise: frozenset[str] | None) -> None:
        self._noise = noise

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Lines of JSON have no columns."""

    def write(self, event: InformerEvent) -> None:
        """One event."""
        line: dict[str, Any] = {"type": event.type, "key": event.object.key}
        if event.is_in_initial_list:
            line["initial"] = True
        if event.final_state_unknown:
            line["final_state_unknown"] = True
        if self._noise is not None and event.type == "UPDATED" and event.old is not None:
            line["changes"] = _changes(event.old, event.object, self._noise)
        line["object"] = msgspec.Raw(in_one_line(event.object.raw))
        sys.stdout.write(f"{escaped(msgspec.json.encode(line).decode())}\n")
        sys.stdout.flush()


def _changes(old: KubeObject, new: KubeObject, noise: frozenset[str]) -> msgspec.Raw | None:
    try:
        found = [
            {"path": path, **{name: value for name, value in (("old", was), ("new", now)) if value is not ABSENT}}
            for path, was, now in object_differences(old, new, noise)
        ]
        return msgspec.Raw(msgspec.json.encode(found))
    except (DecodeError, RecursionError):
        return None
