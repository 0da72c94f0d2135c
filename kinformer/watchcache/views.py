"""The forms in which a watch cache hands out objects: as JSON, or as they are."""

from __future__ import annotations

from typing import cast

import msgspec

from kinformer.apiserver.status import Document, StatusError
from kinformer.apiserver.storage import Stored, StoredChange
from kinformer.kinds.columns import KindTable
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import INITIAL_EVENTS_END
from kinformer.objects.object import KubeObject
from kinformer.objects.paths.printing import go_json
from kinformer.watchcache.feed import Held

__all__ = ["CachedView", "JSONCodec", "held"]


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_of = msgspec.json.Decoder(_Metadata)
_raw_members_of = msgspec.json.Decoder(dict[str, msgspec.Raw])
_members_of = msgspec.json.Decoder(Document)
_encode = msgspec.json.Encoder().encode


def held(stored: Stored) -> KubeObject:
    """Return the informer's object."""
    return cast("Held", stored).held


def _moved(stored: Stored, revision: int) -> Stored:
    """Return the same content with another resourceVersion."""
    document = _members_of.decode(held(stored).raw)
    document["metadata"]["resourceVersion"] = str(revision)
    return Held.of(KubeObject.from_json(go_json(document)), revision)


class JSONCodec:
    """Objects of one kind as JSON (see `kinformer.apiserver.views.Codec`).

    Args:
        api_version, kind: The type of the objects.
        builtin: True for a built-in kind.
        table: The columns of the kind, or None if they are not known.
    """

    key = ""

    def __init__(self, api_version: str, kind: str, *, builtin: bool, table: KindTable | None) -> None:
        self.kind, self.list_kind = kind, f"{kind}List"
        self.api_version, self.builtin = api_version, builtin
        self.has_table = table is not None
        self._table = table
        self._head = b'{"kind":%s,"apiVersion":%s,' % (go_json(kind), go_json(api_version))

    def item(self, stored: Stored) -> bytes:
        """Return an object as a list item."""
        data = self.whole(stored)
        if not self.builtin:
            return data
        # An API server writes them first, and so does the decoder, which adds them to the items of lists.
        if data.startswith(self._head):
            return b"{" + data[len(self._head) :]
        members = _raw_members_of.decode(data)
        return _encode({name: value for name, value in members.items() if name not in ("kind", "apiVersion")})

    def whole(self, stored: Stored) -> bytes:
        """Return an object with its type, on one line: it may come from an indented list."""
        raw = held(stored).raw
        return msgspec.json.format(raw, indent=-1) if b"\n" in raw else raw

    def metadata(self, stored: Stored) -> bytes:
        """Return the metadata of an object."""
        return bytes(_metadata_of.decode(self.whole(stored)).metadata)

    def document(self, stored: Stored) -> Document:
        """Return an object decoded."""
        return _members_of.decode(held(stored).raw)

    def moved(self, stored: Stored, revision: int) -> Stored:
        """Return the same content with another resourceVersion."""
        return _moved(stored, revision)

    def zero(self) -> Document:
        """Return no fields, which a reader of a bookmark never needs."""
        return {}

    def table(self) -> KindTable:
        """Return the columns of the kind."""
        assert self._table is not None, "has_table is True"
        return self._table


class CachedView:
    """The objects of the informer's cache, for readers in its process. An error is the line that is raised."""

    form = ""
    key = "object"

    def __init__(self, api_version: str, kind: str) -> None:
        self._api_version = api_version
        self._kind = kind

    def event(self, kind: str, stored: Stored, *, first: bool = False) -> WatchEvent | StatusError:
        """Return an event."""
        return WatchEvent(kind, held(stored))

    def line(self, change: StoredChange, kind: str, stored: Stored) -> WatchEvent | StatusError:
        """Return the event of a change."""
        return WatchEvent(kind, held(stored))

    def moved(self, stored: Stored, revision: int) -> Stored:
        """Return the same content with another resourceVersion."""
        return _moved(stored, revision)

    def bookmark(self, revision: int, *, initial_end: bool = False) -> WatchEvent | StatusError:
        """Return a BOOKMARK."""
        metadata: Document = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return WatchEvent("BOOKMARK", {"kind": self._kind, "apiVersion": self._api_version, "metadata": metadata})

    def error(self, error: StatusError) -> WatchEvent | StatusError:
        """Return the error."""
        return error
