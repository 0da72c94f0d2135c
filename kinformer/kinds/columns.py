"""Columns of tables: those of the built-in kinds, and those that a definition sets for its custom resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.kinds.builtin import builtin_kind, parse_resource
from kinformer.kinds.rows.cells import Row, age_of, name_of
from kinformer.kinds.rows.rows import ROWS, default_row
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.paths.json_path import JSONPath, parse_braced
from kinformer.objects.paths.printing import printed
from kinformer.objects.types import Object
from kinformer.objects.units import age

__all__ = ["Column", "KindTable", "columns_of", "defined_table", "kind_table"]


class Column(NamedTuple):
    """A column of a table (apimachinery, pkg/apis/meta/v1/types.go, TableColumnDefinition).

    Attributes:
        name: The name, such as `Ready`.
        type, format: The OpenAPI type of its cells, such as `string`, and its format, such as `name`.
        description: The meaning in words.
        priority: 0 for a column that is always shown, 1 for one of `-o wide`.
        cell: Returns the cell of an object, given as a `KubeObject` or a dict.
    """

    name: str
    type: str
    format: str
    description: str
    priority: int
    cell: Callable[[Object], object]

    def definition(self) -> dict[str, object]:
        """Return the column as in the columnDefinitions of a Table."""
        return {name: getattr(self, name) for name in ("name", "type", "format", "description", "priority")}


class KindTable(NamedTuple):
    """The columns of a kind.

    Attributes:
        columns: The columns, in order. The first has the name of the object, except for Events.
        row: Returns the cells of all columns of an object.
    """

    columns: tuple[Column, ...]
    row: Row


def columns_of(resource: str | GroupVersionResource) -> tuple[Column, ...]:
    """Return the columns of a built-in resource as a kube-apiserver v1.36 prints them, or () for any other resource.

    Raises:
        ConfigError: The name is not a resource, such as `"v1/pods"`. The message has the right one.
    """
    gvr = parse_resource(resource)
    table = kind_table(gvr.group, builtin_kind(gvr))
    return () if table is None else table.columns


@cache
def _recorded() -> tuple[list[str], dict[str, list[tuple[str, str, str, int, int]]]]:
    """Return the descriptions and columns of a kube-apiserver v1.36."""
    document = msgspec.json.decode(files("kinformer.kinds").joinpath("columns.json").read_bytes())
    return document["texts"], document["columns"]


@cache
def kind_table(group: str, kind: str) -> KindTable | None:
    """Return the columns of a built-in kind, or None for any other."""
    texts, kinds = _recorded()
    definitions = kinds.get(f"{group}/{kind}")
    if definitions is None:
        return None
    row = ROWS.get(kind) or default_row([name for name, *_ in definitions])
    columns = (
        Column(name, type_, form, texts[text], priority, _cell(row, place))
        for place, (name, type_, form, text, priority) in enumerate(definitions)
    )
    return KindTable(tuple(columns), row)


def _cell(row: Row, place: int) -> Callable[[Object], object]:
    return lambda obj: row(obj)[place]


# --- custom resources ------------------------------------------------------------------------------------------


def defined_table(definitions: Sequence[Object]) -> KindTable:
    """Return the columns of a custom resource: its name, and its `additionalPrinterColumns` or else its age.

    If one of them has an invalid path, there are only those before it (apiextensions-apiserver,
    pkg/registry/customresource/tableconvertor).
    """
    columns = [_like("/Pod", 0, name_of)]
    if definitions:
        with suppress(ConfigError):
            columns.extend(_defined(definition) for definition in definitions)
    else:  # apiserver, pkg/registry/rest/table.go, defaultTableConvertor
        columns.append(_like("rbac.authorization.k8s.io/Role", 1, age_of)._replace(name="Age"))
    cells = [column.cell for column in columns]
    return KindTable(tuple(columns), lambda obj: [cell(obj) for cell in cells])


def _like(kind: str, place: int, cell: Callable[[Object], object]) -> Column:
    """Return a column like one of a built-in kind, with another cell."""
    texts, kinds = _recorded()
    name, type_, form, text, priority = kinds[kind][place]
    return Column(name, type_, form, texts[text], priority, cell)


def _defined(definition: Object) -> Column:
    path, kind = str(definition.get("jsonPath", "")), str(definition.get("type", "string"))
    return Column(
        str(definition.get("name", "")),
        kind,
        str(definition.get("format", "")),
        str(definition.get("description") or f"Custom resource definition column (in JSONPath format): {path}"),
        int(definition.get("priority", 0)),
        _defined_cell(parse_braced(path, lenient=True), _SHOWN.get(kind, _text)),
    )


def _defined_cell(path: JSONPath, show: Callable[[object], object]) -> Callable[[Object], object]:
    def cell(obj: Object) -> object:
        values = path.find(obj)
        return show(values[0]) if values else None  # of several values, the first is shown

    return cell


def _text(value: object) -> str:
    return "<no value>" if value is None else printed(value)


def _date(value: object) -> str | None:
    return (age(value, "<invalid>") if value else "<unknown>") if isinstance(value, str) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_SHOWN: Mapping[str, Callable[[object], object]] = {
    "integer": _whole,
    "number": _number,
    "boolean": lambda value: value if isinstance(value, bool) else None,
    "date": _date,
}
