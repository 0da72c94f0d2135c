"""Writes the changes of a watch as lines on stdout. Each is flushed immediately, for readers of a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from kinformer import InformerEvent, KubeObject
from kinformer.cli.output import documents
from kinformer.cli.output.differences import difference_lines
from kinformer.cli.output.documents import in_one_line, object_name, yaml_of
from kinformer.cli.output.tables import Table
from kinformer.cli.output.template import JSONTemplate
from kinformer.cli.output.text import clean, escaped
from kinformer.client import APIResource
from kinformer.contrib.changes.differences import ABSENT, object_differences
from kinformer.exceptions import DecodeError

__all__ = ["EventLines", "JsonLines", "NameLines", "TableLines", "TemplateLines", "YamlDocuments"]


class EventLines(Protocol):
    """Writes events to stdout."""

    def fit(self, objects: Iterable[KubeObject]) -> None: ...
    def write(self, event: InformerEvent) -> None: ...


class TableLines:
    """A line for each event, in columns, with the differences of an update below it.

    Args:
        table: Writes the lines.
        noise: Paths that differences leave out, or None to show no differences.
    """

    def __init__(self, table: Table, *, noise: frozenset[str] | None) -> None:
        self._table = table
        self._noise = noise

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Make the columns wide enough for these objects."""
        self._table.fit(objects)

    def write(self, event: InformerEvent) -> None:
        """Write one event."""
        self._table.write(event.object, event.type)
        if self._noise is not None and event.type == "UPDATED" and event.old is not None:
            for line in difference_lines(event.old, event.object, self._noise):
                self._table.write_below(line)


class NameLines:
    """A name for each event: `pod/web-1`."""

    def __init__(self, resource: APIResource) -> None:
        self._resource = resource

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Do nothing: names have no columns."""

    def write(self, event: InformerEvent) -> None:
        """Write one event."""
        sys.stdout.write(f"{object_name(self._resource, event.object)}\n")
        sys.stdout.flush()


class YamlDocuments:
    """A YAML document for each event, after a comment with the type of the event and the key.

    Args:
        shown: Returns what may be shown of an object.
    """

    def __init__(self, *, shown: Callable[[KubeObject], KubeObject]) -> None:
        self._shown = shown

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Do nothing: documents have no columns."""

    def write(self, event: InformerEvent) -> None:
        """Write one event."""
        sys.stdout.write(f"---\n# {event.type} {clean(event.object.key)}\n{yaml_of(self._shown(event.object))}")
        sys.stdout.flush()


class TemplateLines:
    """The text of a template for each event, on a line of its own.

    Args:
        template: The template.
        shown: Returns what may be shown of an object.
    """

    def __init__(self, template: JSONTemplate, *, shown: Callable[[KubeObject], KubeObject]) -> None:
        self._template = template
        self._shown = shown

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Do nothing: templates have no columns."""

    def write(self, event: InformerEvent) -> None:
        """Write one event."""
        text = documents.from_template(self._template, documents.readable(self._shown(event.object)))
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()


class JsonLines:
    """A JSON object for each event: `type`, `key`, `object`, and more fields for some events.

    `initial` is true for objects that existed when the watch began. `final_state_unknown` is true for deletes that
    were discovered later. With differences, an update has `changes`, a list of `path` with `old`, `new` or both. It is
    null for an object that is nested too deeply to be compared.

    Args:
        noise: Paths that differences leave out, or None to show no differences.
        shown: Returns what may be shown of an object.
    """

    def __init__(self, *, noise: frozenset[str] | None, shown: Callable[[KubeObject], KubeObject]) -> None:
        self._noise = noise
        self._shown = shown

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Do nothing: lines of JSON have no columns."""

    def write(self, event: InformerEvent) -> None:
        """Write one event."""
        line: dict[str, Any] = {"type": event.type, "key": event.object.key}
        if event.is_in_initial_list:
            line["initial"] = True
        if event.final_state_unknown:
            line["final_state_unknown"] = True
        if self._noise is not None and event.type == "UPDATED" and event.old is not None:
            line["changes"] = _changes(event.old, event.object, self._noise)
        line["object"] = msgspec.Raw(in_one_line(self._shown(event.object).raw))
        sys.stdout.write(f"{escaped(msgspec.json.encode(line).decode())}\n")
        sys.stdout.flush()


def _changes(old: KubeObject, new: KubeObject, noise: frozenset[str]) -> msgspec.Raw | None:
    try:
        differences = [
            {"path": path, **{name: value for name, value in (("old", was), ("new", now)) if value is not ABSENT}}
            for path, was, now in object_differences(old, new, noise)
        ]
        return msgspec.Raw(msgspec.json.encode(differences))
    except (DecodeError, RecursionError):
        return None
