"""The forms in which a watch cache hands out objects: as JSON, as the JSON of their metadata, or as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from kinformer.apiserver.status import Document, StatusError
from kinformer.apiserver.storage import Stored, StoredChange
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import INITIAL_EVENTS_END
from kinformer.objects.object import KubeObject
from kinformer.objects.paths.printing import go_json
from kinformer.watchcache.feed import Held

__all__ = ["JSONView", "ObjectView", "held"]


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


class JSONView:
    """Objects of one kind as JSON.

    Args:
        api_version, kind: The type of the objects.
        partial: True for PartialObjectMetadata.
        typed: True if items of lists have no kind and apiVersion, as those of built-in resources.
    """

    def __init__(self, api_version: str, kind: str, *, partial: bool = False, typed: bool = False) -> None:
        self.form = "partial" if partial else ""
        self.key = self.form
        head = b'{"kind":%s,"apiVersion":%s,' % (go_json(kind), go_json(api_version))
        self._head = head if typed and not partial else b""
        self._api_version = "meta.k8s.io/v1" if partial else api_version
        self._kind = "PartialObjectMetadata" if partial else kind

    def item(self, stored: Stored) -> bytes:
        """Return an object as a list item."""
        data = self.whole(stored)
        if not self._head:
            return data
        if data.startswith(self._head):  # as an API server writes it, and as items of its lists are completed
            return b"{" + data[len(self._head) :]
        members = _raw_members_of.decode(data)
        return _encode({name: value for name, value in members.items() if name not in ("kind", "apiVersion")})

    def whole(self, stored: Stored) -> bytes:
        """Return an object with its type."""
        raw = held(stored).raw
        if not self.form:
            return raw
        metadata = bytes(_metadata_of.decode(raw).metadata)
        return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%s}' % metadata

    def frame(self, metadata: Mapping[str, object]) -> tuple[bytes, bytes]:
        """Return the parts of a list before and after its items."""
        parts = (go_json(f"{self._kind}List"), go_json(self._api_version), go_json(metadata))
        return b'{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[' % parts, b"]}\n"

    def event(self, kind: str, stored: Stored, *, first: bool = False) -> bytes:
        """Encode a watch line."""
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), self.whole(stored))

    def line(self, change: StoredChange, kind: str, stored: Stored) -> bytes:
        """Return a watch line, encoded once for all watchers with an equal view."""
        key = (self.key, kind)
        line = cast("bytes | None", change.lines.get(key))
        if line is None:
            line = change.lines[key] = self.event(kind, stored)
        return line

    def moved(self, stored: Stored, revision: int) -> Stored:
        """Return the same content with another resourceVersion."""
        return _moved(stored, revision)

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Encode a BOOKMARK line: an empty object with only a resourceVersion."""
        document = {
            "kind": self._kind,
            "apiVersion": self._api_version,
            "metadata": _bookmark_metadata(revision, initial_end),
        }
        return b'{"type":"BOOKMARK","object":%s}\n' % go_json(document)

    def error(self, error: StatusError) -> bytes:
        """Encode an ERROR line."""
        return b'{"type":"ERROR","object":%s}\n' % go_json(error.body)


class ObjectView:
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
        metadata = _bookmark_metadata(revision, initial_end)
        return WatchEvent("BOOKMARK", {"kind": self._kind, "apiVersion": self._api_version, "metadata": metadata})

    def error(self, error: StatusError) -> WatchEvent | StatusError:
        """Return the error."""
        return error


def _bookmark_metadata(revision: int, initial_end: bool) -> Document:
    metadata: Document = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata
