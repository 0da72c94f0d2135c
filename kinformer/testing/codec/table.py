"""Tables as shown by `kubectl get`, for built-in kinds and from the additionalPrinterColumns of CRDs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kinformer.serving.status import dumps
from kinformer.testing.codec.table_rows import ROWS, default_row
from kinformer.testing.codec.table_text import since
from kinformer.testing.kinds.builtin_schemas import recorded
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["Table"]

Object = dict[str, Any]

_STEP = re.compile(
    r"""\.?(?P<name>(?:[^.\[\]\\]|\\.)+)|\['(?P<quoted>[^']*)'\]|\[(?P<index>-?\d+|\*)\]"""
    r"""|\[\?\(@\.(?P<field>[^=!\s]+)\s*(?P<test>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)]*)\)\]"""
)


_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _column(name: str, kind: str, *, text: str = "", form: str = "", priority: int = 0) -> Object:
    return {"name": name, "type": kind, "format": form, "description": text, "priority": priority}


def _name_column() -> Object:
    pods = next(row for row in recorded()["resources"] if row["plural"] == "pods")
    return _column("Name", "string", form="name", text=recorded()["texts"][pods["columns"][0][3]])


def _created_column(name: str) -> Object:
    roles = next(row for row in recorded()["resources"] if row["plural"] == "roles")
    return _column(name, "date", text=recorded()["texts"][roles["columns"][1][3]])


class Table:
    """Columns and rows of one kind, in a version of meta.k8s.io."""

    def __init__(self, resource: ResourceType, api_version: str = "meta.k8s.io/v1") -> None:
        self._api_version = api_version
        self._pods = resource.name == "v1/pods"
        self._row: Callable[[Object], list[Any]]
        if resource.builtin:
            self.columns: list[Object] = [dict(one) for one in resource.columns]
            self._row = ROWS.get(resource.kind) or default_row(list(resource.columns))
        elif resource.columns:
            self.columns = [_name_column(), *(_custom_column(one) for one in resource.columns)]
            cells = [_custom_cell(one) for one in resource.columns]
            self._row = lambda obj: [obj["metadata"]["name"], *(cell(obj) for cell in cells)]
        else:  # rest/table.go, defaultTableConvertor
            self.columns = [_name_column(), _created_column("Age")]
            self._row = lambda obj: [obj["metadata"]["name"], since(obj["metadata"].get("creationTimestamp"))]

    def body(self, sources: Sequence[tuple[Object, bytes]], metadata: Object) -> Object:
        """Return the Table of a list."""
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": metadata,
            "columnDefinitions": self.columns,
            "rows": [self._cells(*source) for source in sources],
        }

    def event(self, source: tuple[Object, bytes], *, columns: bool) -> Object:
        """Return the Table of one event. Only the first one in a stream has columns."""
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": {"resourceVersion": source[0]["metadata"].get("resourceVersion", "")},
            "columnDefinitions": self.columns if columns else None,
            "rows": [self._cells(*source)],
        }

    def _cells(self, obj: Object, partial: bytes) -> Object:
        row: Object = {"cells": self._row(obj)}
        phase = (obj.get("status") or {}).get("phase") if self._pods else None
        if phase in _ENDED:
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]
        return {**row, "object": msgspec.Raw(partial)}


def _custom_column(column: Mapping[str, Any]) -> Object:
    path = column.get("jsonPath", "")
    return _column(
        str(column.get("name", "")),
        str(column.get("type", "string")),
        priority=int(column.get("priority", 0)),
        text=str(column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"),
        form=str(column.get("format", "")),
    )


def _custom_cell(column: Mapping[str, Any]) -> Callable[[Object], Any]:
    steps, kind = _steps(str(column.get("jsonPath", ""))), column.get("type", "string")
    show: Callable[[Any], Any] = _SHOWN.get(str(kind), _text)

    def cell(obj: Object) -> Any:
        found = _find([obj], steps)
        # If there are several values, the first is shown (apiextensions, tableconvertor.go).
        return None if not found or found[0] is None else show(found[0])

    return cell


def _steps(path: str) -> list[re.Match[str]]:
    return list(_STEP.finditer(path.strip().removeprefix("{").removesuffix("}").removeprefix("$")))


def _find(values: list[Any], steps: Sequence[re.Match[str]]) -> list[Any]:
    for step in steps:
        found: list[Any] = []
        for value in values:
            found += _below(value, step)
        values = found
    return values


def _below(value: Any, step: re.Match[str]) -> list[Any]:
    name = step["name"] if step["name"] is not None else step["quoted"]
    if name is not None:
        name = name.replace("\\.", ".")
        return [value[name]] if isinstance(value, dict) and name in value else []
    if not isinstance(value, list):
        return []
    if step["index"] == "*":
        return value
    if step["index"] is not None:
        index = int(step["index"])
        return [value[index]] if -len(value) <= index < len(value) else []
    wanted = step["value"].strip("\"'")
    equal = step["test"] == "=="
    return [one for one in value if (_text(_field(one, step["field"])) == wanted) is equal]


def _field(item: Any, path: str) -> Any:
    for part in path.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else dumps(value).decode()


def _date(value: Any) -> str:
    try:
        return since(value)
    except (TypeError, ValueError):
        return "<invalid>"


_SHOWN: Mapping[str, Callable[[Any], Any]] = {
    "integer": lambda value: int(value) if isinstance(value, (int, float)) else None,
    "number": lambda value: float(value) if isinstance(value, (int, float)) else None,
    "boolean": lambda value: value if isinstance(value, bool) else None,
    "date": _date,
}
