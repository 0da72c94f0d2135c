"""The columns between an object's name and its labels: those of its kind, of its definition, or custom ones.

They are those of `kubectl get`, computed from the object, so that a watch can show each change without requesting a
table from the server. AGE follows the other columns that are always shown, and pods show their node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kinformer import ConfigError, KubeObject
from kinformer.exceptions import DecodeError
from kinformer.kinds import state_of
from kinformer.kinds.columns import Column, KindTable, defined_table, kind_table
from kinformer.kinds.rows.cells import NONE, age_of
from kinformer.objects.accessors import string_at
from kinformer.objects.paths.json_path import parse_braced
from kinformer.objects.paths.printing import printed
from kinformer.objects.units import age, quantity_value

__all__ = ["ColumnSet", "Order", "columns_of", "columns_of_definition", "custom_columns"]

Object = Mapping[str, Any]
Cells = Callable[[Object], list[str]]

_CUTTABLE = frozenset(
    (
        *("NODE", "MESSAGE", "OBJECT", "CONTAINERS", "IMAGES", "SELECTOR", "HOSTS", "VOLUME", "HOLDER", "PROVISIONER"),
        *("ROLE", "REFERENCE", "STORAGECLASS", "USERS", "GROUPS", "GROUP", "KIND", "SERVICEACCOUNTS", "OS-IMAGE"),
        *("KERNEL-VERSION", "CONTAINER-RUNTIME", "ADDRESS", "TARGETS", "ENDPOINTS", "PORTS", "CLAIM", "CLASS"),
        *("POD-SELECTOR", "NODE SELECTOR", "CONTROLLER", "PARAMETERS", "DRIVER", "ATTACHER"),
    )
)
"""The columns with names and sentences, which a narrow screen may cut. Numbers and statuses are never cut."""


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """Columns without NAMESPACE and NAME.

    Attributes:
        names: Their names.
        cells: Returns the cells of an object.
        cuttable: The names of those that a narrow screen may cut.
    """

    names: tuple[str, ...]
    cells: Cells
    cuttable: frozenset[str] = frozenset()


def columns_of(group: str, kind: str, *, wide: bool = False) -> ColumnSet:
    """Return the columns of a kind. An unknown one has STATUS, with its phase or its `Ready` condition, and AGE.

    Args:
        group, kind: The group and kind of the objects.
        wide: Add the columns of `-o wide`, after AGE.
    """
    table = kind_table(group, kind)
    if table is None:
        return ColumnSet(("STATUS", "AGE"), lambda obj: [state_of(obj) or "-", age_of(obj)])
    return _chosen(table, _NARROW.get((group, kind), ()), _MORE.get((group, kind), ()), wide=wide)


def columns_of_definition(definitions: Sequence[Mapping[str, Any]], *, wide: bool = False) -> ColumnSet | None:
    """Return the columns of a definition, or None if it has none.

    Args:
        definitions: The `additionalPrinterColumns` of a version.
        wide: Add columns with a priority above 0.
    """
    shown = [column for column in defined_table(definitions).columns[1:] if wide or not column.priority]
    texts = frozenset(column.name.upper() for column in shown if column.type == "string")
    names = tuple(column.name.upper() for column in shown)
    return ColumnSet(names, lambda obj: [_shown(column.cell(obj)) for column in shown], texts) if definitions else None


_NARROW: Mapping[tuple[str, str], Sequence[str]] = {("", "Pod"): ("Node",)}  # always shown, unlike in kubectl
_MORE: Mapping[tuple[str, str], Sequence[tuple[str, Sequence[str]]]] = {  # kubectl shows the creation alone
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        ("GROUP", ("spec", "group")),
        ("KIND", ("spec", "names", "kind")),
    )
}
_AGES = ("Age", "Created At")


def _chosen(
    table: KindTable, narrow: Sequence[str], more: Sequence[tuple[str, Sequence[str]]], *, wide: bool
) -> ColumnSet:
    """Return the columns of a kind in our order: what is always shown, then AGE, then what is wide."""

    def place(column: Column) -> int:
        return 1 if column.name in _AGES else 0 if not column.priority or column.name in narrow else 2

    kept = [(place(column), number, column) for number, column in enumerate(table.columns) if column.name != "Name"]
    kept = sorted(entry for entry in kept if wide or entry[0] < 2)
    names = [name for name, _ in more]
    names += ["AGE" if column.name in _AGES else column.name.upper() for _, _, column in kept]
    numbers = [(number, column.name == "Created At") for _, number, column in kept]

    def cells(obj: Object) -> list[str]:
        row = table.row(obj)
        first = [string_at(obj, *path) for _, path in more]
        return first + [age(row[number]) if is_date else _shown(row[number]) for number, is_date in numbers]

    return ColumnSet(tuple(names), cells, _CUTTABLE.intersection(names))


def _shown(value: Any) -> str:
    """Return a cell of a table as kubectl prints it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return printed(int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value)


# --- custom columns and orders ----------------------------------------------------------------------------------------


def custom_columns(text: str) -> ColumnSet:
    """Parse the columns of `-o custom-columns`: `NAME:.metadata.name,IMAGES:.spec.containers[*].image`.

    A cell has all values at the path, or `<none>` (kubectl, pkg/cmd/get/customcolumn.go).

    Raises:
        ConfigError: There is no column, or one has no name, no path or an invalid path.
    """
    names, paths = [], []
    for part in _split_outside_brackets(text):
        name, colon, path = part.partition(":")
        if not (name and colon and path):
            raise ConfigError(f"{part!r} is not NAME:PATH, as in NODE:.spec.nodeName")
        names.append(name)
        paths.append(parse_braced(path))

    def cells(obj: Object) -> list[str]:
        matches = (path.find(obj) for path in paths)
        return [",".join(NONE if value is None else printed(value) for value in values) or NONE for values in matches]

    return ColumnSet(tuple(names), cells)


def _split_outside_brackets(text: str) -> list[str]:
    """Split at commas, but not at those of a union or a filter: `A:.a,B:.b['c','d']`."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


_NUMBERS = re.compile(r"(\d+)")

Key = tuple[Any, ...]


class Order:
    """Orders objects by the value at a path.

    Objects without a value come first. Numbers and quantities are compared by value.

    Args:
        path: A path as in kubectl: `.metadata.creationTimestamp`, `{.status.phase}`.

    Raises:
        ConfigError: The path is invalid.

    Attributes:
        path: The path.
        matched: True once `key` has seen an object with a value there. Until then, the path may be mistyped.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.matched = False
        self._path = parse_braced(path)

    def key(self, obj: KubeObject) -> Key:
        """Return the sort key of an object. Objects with equal values are ordered by namespace and name."""
        try:
            value = self._path.first(obj.to_dict())
        except DecodeError:
            value = None
        self.matched = self.matched or value is not None
        return (*_key(value), obj.namespace, obj.name)

    def sorted(self, objects: Sequence[KubeObject]) -> list[KubeObject]:
        """Return the objects in this order."""
        return sorted(objects, key=self.key)


def _key(value: Any) -> tuple[int, float, tuple[Any, ...]]:
    """Return a sort key for any value. Missing values come first, then numbers, then strings."""
    if value is None:
        return 0, 0.0, ()
    if isinstance(value, int | float):
        return 1, float(value), ()
    shown = str(value)
    if (quantity := quantity_value(shown)) is not None:
        return 1, float(quantity), ()
    # web-9 precedes web-10: runs of digits are compared as numbers, and the text between them as strings.
    parts = _NUMBERS.split(shown)
    return 2, 0.0, tuple(int(part) if number % 2 else part for number, part in enumerate(parts))
