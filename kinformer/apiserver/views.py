"""The forms in which a server shows its objects: whole, as their metadata, or as rows of a Table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import msgspec

from kinformer.apiserver.accept import Accepted
from kinformer.apiserver.status import Document, StatusError, bad_request
from kinformer.apiserver.storage import Stored, StoredChange
from kinformer.kinds.columns import KindTable
from kinformer.objects.accessors import INITIAL_EVENTS_END, string_at
from kinformer.objects.paths.printing import go_json

__all__ = ["Codec", "FormView"]

_INCLUDED = ("Metadata", "Object", "None")
_COMPLETED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


class Codec(Protocol):
    """The objects of one resource as JSON.

    Attributes:
        kind, api_version, list_kind: Their type.
        builtin: True for a built-in kind. Its items in lists have no type, and its fields the order of Go's structs.
            Those of a custom resource are sorted.
    """

    @property
    def kind(self) -> str: ...
    @property
    def api_version(self) -> str: ...
    @property
    def list_kind(self) -> str: ...
    @property
    def builtin(self) -> bool: ...
    @property
    def key(self) -> object:
        """Equal codecs have equal keys."""
        ...

    def item(self, stored: Stored, /) -> bytes:
        """Return an object as a list item."""
        ...

    def whole(self, stored: Stored, /) -> bytes:
        """Return an object with its type."""
        ...

    def metadata(self, stored: Stored, /) -> bytes:
        """Return the metadata of an object, in the order of Go's ObjectMeta."""
        ...

    def document(self, stored: Stored, /) -> Mapping[str, object]:
        """Return an object decoded, for the cells of a table."""
        ...

    def moved(self, stored: Stored, revision: int, /) -> Stored:
        """Return the same content with another resourceVersion."""
        ...

    def zero(self) -> Mapping[str, object]:
        """Return the fields of an empty object that Go encodes, besides its metadata."""
        ...

    def table(self) -> KindTable:
        """Return the columns of the kind."""
        ...


class FormView:
    """Encodes the objects of one resource in one form.

    Args:
        codec: The resource.
        wanted: The form: "" for whole objects, "partial" or "table", and a version of meta.k8s.io.
        include: The object in a row of a table: Metadata, Object or None. "" means Metadata.

    Raises:
        StatusError: A 400. `include` is none of them.
    """

    def __init__(self, codec: Codec, wanted: Accepted = Accepted(), include: str = "") -> None:  # noqa: B008 - immutable
        self._codec = codec
        self._include = include or "Metadata"
        self.form = wanted.form
        self.meta = f"meta.k8s.io/{wanted.version}"
        self.key = (codec.key, wanted.form, wanted.version, self._include)
        if self.form == "table":
            if self._include not in _INCLUDED:
                message = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
                raise bad_request(f"Unable to convert to Table as requested: includeObject: {message}")
            self._table = codec.table()

    # --- objects ------------------------------------------------------------------------------------------

    def item(self, stored: Stored) -> bytes:
        """Return an object as a list item."""
        return self._partial(stored) if self.form == "partial" else self._codec.item(stored)

    def whole(self, stored: Stored) -> bytes:
        """Return an object on its own, as in a GET or inside an event."""
        return self._partial(stored) if self.form == "partial" else self._codec.whole(stored)

    def body(self, stored: Stored) -> bytes:
        """Return the body of a GET."""
        if self.form == "table":
            return self.table([stored], {"resourceVersion": str(stored.revision)})
        return self.whole(stored) + b"\n"

    def moved(self, stored: Stored, revision: int) -> Stored:
        """Return the same content with another resourceVersion."""
        return self._codec.moved(stored, revision)

    def _partial(self, stored: Stored) -> bytes:
        head = b'{"kind":"PartialObjectMetadata","apiVersion":"%s","metadata":' % self.meta.encode()
        return b"%b%b}" % (head, self._codec.metadata(stored))

    # --- lists --------------------------------------------------------------------------------------------

    def frame(self, metadata: Mapping[str, object]) -> tuple[bytes, bytes]:
        """Return the parts of a list before and after its items."""
        codec = self._codec
        kind, api_version = codec.list_kind, codec.api_version
        if self.form == "partial":
            kind, api_version = "PartialObjectMetadataList", self.meta
        elif not codec.builtin:
            metadata = dict(sorted({"continue": "", **metadata}.items()))
            head = b'{"apiVersion":%s,"items":[' % go_json(api_version)
            return head, b'],"kind":%s,"metadata":%s}\n' % (go_json(kind), go_json(metadata))
        parts = (go_json(kind), go_json(api_version), go_json(metadata))
        return b'{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[' % parts, b"]}\n"

    def table(self, items: Sequence[Stored], metadata: Mapping[str, object]) -> bytes:
        """Encode the Table of a list or of one object."""
        rows = [self._row(stored) for stored in items]
        return go_json(self._table_of(rows, metadata, columns=True)) + b"\n"

    def _table_of(self, rows: Sequence[Document], metadata: Mapping[str, object], *, columns: bool) -> Document:
        definitions = [column.definition() for column in self._table.columns] if columns else None
        head = {"kind": "Table", "apiVersion": self.meta, "metadata": metadata, "columnDefinitions": definitions}
        return {**head, "rows": rows}

    def _row(self, stored: Stored) -> Document:
        document = self._codec.document(stored)
        row: Document = {"cells": self._table.row(document)}
        phase = string_at(document, "status", "phase") if self._codec.kind == "Pod" and self._codec.builtin else ""
        if phase in _COMPLETED:
            condition = {"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}
            row["conditions"] = [condition]
        if self._include == "None":
            shown = b"null"
        else:
            shown = self._codec.whole(stored) if self._include == "Object" else self._partial(stored)
        return {**row, "object": msgspec.Raw(shown)}

    # --- lines of a watch ---------------------------------------------------------------------------------

    def line(self, change: StoredChange, kind: str, stored: Stored) -> bytes:
        """Return a watch line, encoded once for all watchers with an equal view."""
        key = (self.key, kind)
        line = cast("bytes | None", change.lines.get(key))
        if line is None:
            line = change.lines[key] = self.event(kind, stored)
        return line

    def event(self, kind: str, stored: Stored, *, first: bool = False) -> bytes:
        """Encode a watch line. A Table names its columns only in the first line of a stream."""
        if self.form == "table":
            version = {"resourceVersion": str(stored.revision)}
            body = go_json(self._table_of([self._row(stored)], version, columns=first))
        else:
            body = self.whole(stored)
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)

    def error(self, error: StatusError) -> bytes:
        """Encode an ERROR line."""
        return b'{"type":"ERROR","object":%s}\n' % go_json(error.body)

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Encode a BOOKMARK line: an empty object with only a resourceVersion."""
        codec = self._codec
        metadata: Document = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        document: Document = {"kind": codec.kind, "apiVersion": codec.api_version, "metadata": metadata}
        if self.form:
            document.update({"kind": "PartialObjectMetadata", "apiVersion": self.meta})
        elif codec.builtin:
            document.update(codec.zero())
        else:
            ordered = {**document, "metadata": dict(sorted(metadata.items()))}
            document = {name: ordered[name] for name in ("apiVersion", "kind", "metadata")}
        if self.form == "table":
            version = {"resourceVersion": str(revision)}
            document = self._table_of([{"cells": [], "object": document}], version, columns=False)
        return b'{"type":"BOOKMARK","object":%s}\n' % go_json(document)
