"""The rows of the page: an object's table cells, in a fortieth of the object's size."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from kinformer import KubeObject
from kinformer.cli.dashboard.severity import Severity, severity_of
from kinformer.cli.dashboard.ticking import ticking_cell
from kinformer.cli.output.columns import columns_of
from kinformer.exceptions import DecodeError
from kinformer.objects import showable

__all__ = ["Rows", "column_names"]

_KEPT = 20_000  # rows of about 300 bytes each, reused by the next page that opens

_encode = msgspec.json.Encoder().encode


def column_names(group: str, kind: str) -> list[str]:
    """Return the column names of a row, without ages, which the page counts itself."""
    return [name for name, _ in columns_of(group, kind) if name != "AGE"]


class Rows:
    """Renders rows, and caches the last one of each object."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str, str], tuple[str, str, bytes]] = OrderedDict()

    def render(self, kind: str, source: str, obj: KubeObject) -> bytes:
        """Return the row of an object as JSON, or only its key if it was deleted."""
        place = (source, obj.key)
        if kind == "DELETED":
            self._made.pop(place, None)
            return _encode({"s": source, "k": obj.key})
        made = self._made.get(place)
        if made is not None and made[0] == obj.uid and made[1] == obj.resource_version:
            return made[2]
        row = _encode(_row(source, obj))
        self._made[place] = (obj.uid, obj.resource_version, row)
        if len(self._made) > _KEPT:
            self._made.popitem(last=False)
        return row


def _row(source: str, obj: KubeObject) -> dict[str, Any]:
    group = obj.api_version.rpartition("/")[0]
    columns = columns_of(group, obj.kind)
    try:
        document = showable(obj).to_dict()
        cells: list[Any] = [
            ticking_cell(group, obj.kind, name, document) or cell(document) for name, cell in columns if name != "AGE"
        ]
        created, severity = obj.creation_timestamp, severity_of(group, obj.kind, document)
    except DecodeError:  # nested too deeply
        cells, created = ["<unreadable>" for name, _ in columns if name != "AGE"], None
        severity = Severity("")
    row: dict[str, Any] = {
        "s": source,
        "k": obj.key,
        "c": cells,
        "t": int(created.timestamp()) if created is not None else 0,
        "v": obj.resource_version,
    }
    if severity.level:
        row["h"] = severity.level
        row |= {name: value for name, value in (("u", severity.bad_from), ("w", severity.reason)) if value}
    if obj.labels:
        row["l"] = dict(obj.labels)
    owner = next((owner for owner in obj.owner_references if owner.controller), None)
    if owner is not None:
        row["o"] = f"{owner.kind}/{owner.name}"
    return row
