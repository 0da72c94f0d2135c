"""Cells that rows of several kinds have: names, ages, labels, containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kinformer.objects.accessors import string_at, table_at, tables_at, value_at
from kinformer.objects.selectors import LabelSelector
from kinformer.objects.types import Object
from kinformer.objects.units import age

__all__ = [
    "NONE",
    "UNSET",
    "Object",
    "Row",
    "age_of",
    "comma_separated",
    "containers",
    "count_at",
    "first_of",
    "labels_of",
    "name_of",
    "or_none",
    "plain_row",
    "scalar_at",
    "selector_of",
    "shortened",
]


Row: TypeAlias = Callable[[Object], list[object]]
"""Returns the cells of an object, in the order of the columns."""

NONE, UNSET = "<none>", "<unset>"


def name_of(obj: Object) -> str:
    """Return the name of an object."""
    return string_at(obj, "metadata", "name")


def age_of(obj: Object) -> str:
    """Return the age of an object."""
    return age(value_at(obj, "metadata", "creationTimestamp"))


def or_none(value: str) -> str:
    """Return a string, or `<none>`."""
    return value or NONE


def scalar_at(obj: object, *names: str, default: Any = 0) -> Any:
    """Return a string, number or boolean, or the default."""
    value = value_at(obj, *names)
    return value if isinstance(value, str | int | float) else default


def first_of(obj: object, *names: str) -> str:
    """Return the first of some fields that has text, or ""."""
    return next((text for name in names if (text := string_at(obj, name))), "")


def count_at(obj: object, *names: str) -> int:
    """Return the number of entries of a list or mapping."""
    value = value_at(obj, *names)
    return len(value) if isinstance(value, list | Mapping) else 0


def containers(template: object) -> tuple[str, str]:
    """Return the names and images of a template's containers."""
    listed = tables_at(template, "spec", "containers")
    return tuple(",".join(string_at(container, name) for container in listed) for name in ("name", "image"))  # type: ignore[return-value]


def labels_of(labels: object) -> str:
    """Format labels as `a=b,c=d`."""
    pairs = sorted(labels.items()) if isinstance(labels, Mapping) else ()
    return ",".join(f"{key}={value}" for key, value in pairs) or NONE


def selector_of(selector: object) -> str:
    """Format a LabelSelector as one line, in the syntax of `-l`, or return `<invalid>`."""
    try:
        requirements = LabelSelector.from_object(table_at(selector)).requirements
    except (ValueError, TypeError, AttributeError):  # not of the form that a server accepts
        return "<invalid>"
    return comma_separated(str(term) for term in sorted(requirements, key=lambda term: term.key))


def comma_separated(values: Iterable[str]) -> str:
    """Join values, or return `<none>`."""
    return ",".join(values) or NONE


def shortened(values: Sequence[str], most: int = 3, *, empty: str = NONE, separator: str = ",") -> str:
    """Return the first `most` values, and the number of others."""
    if not values:
        return empty
    shown = separator.join(values[:most])
    return f"{shown} + {len(values) - most} more..." if len(values) > most else shown


def plain_row(*names: str) -> Row:
    """Return a function that makes rows of the name, some unchanged fields, and the age."""
    return lambda obj: [name_of(obj), *(scalar_at(obj, *name.split("."), default="") for name in names), age_of(obj)]
