"""Tables as shown by `kubectl get`, for built-in kinds and from the additionalPrinterColumns of CRDs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kinformer.kinds.columns import KindTable, defined_table, kind_table
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["Table"]

Object = dict[str, Any]

_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _table_of(resource: ResourceType) -> KindTable:
    builtin = kind_table(resource.group, resource.kind) if resource.builtin else None
    return defined_table(resource.columns) if builtin is None else builtin


class Table:
    """Columns and rows of one kind, in a version of meta.k8s.io."""

    def __init__(self, resource: ResourceType, api_version: str = "meta.k8s.io/v1") -> None:
        self._api_version = api_version
        self._pods = resource.name == "v1/pods"
        table = _table_of(resource)
        self._row = table.row
        self.columns = [column.definition() for column in table.columns]

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
