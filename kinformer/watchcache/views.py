"""The forms in which a watch cache sends objects: whole, as they are kept, or their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kinformer.serving.go_json import dumps
from kinformer.serving.storage import Stored, StoredChange

__all__ = ["JSONView"]


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_of = msgspec.json.Decoder(_Metadata)
_members_of = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode


class JSONView:
    """Objects of one kind as JSON.

    Args:
        api_version, kind: The type of the objects.
        partial: True for PartialObjectMetadata.
    """

    def __init__(self, api_version: str, kind: str, *, partial: bool = False) -> None:
        self.form = "partial" if partial else ""
        self.key = self.form
        self._api_version = "meta.k8s.io/v1" if partial else api_version
        self._kind = "PartialObjectMetadata" if partial else kind

    def item(self, stored: Stored) -> bytes:
        """Return an object as a list item, with its type."""
        if not self.form:
            return stored.raw
        metadata = bytes(_metadata_of.decode(stored.raw).metadata)
        return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%s}' % metadata

    def frame(self, metadata: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Return the parts of a list before and after its items."""
        parts = (dumps(f"{self._kind}List"), dumps(self._api_version), dumps(metadata))
        return b'{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[' % parts, b"]}\n"

    def event(self, kind: str, stored: Stored, *, first: bool = False) -> bytes:
        """Encode a watch line."""
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), self.item(stored))

    def line(self, change: StoredChange, kind: str, stored: Stored) -> bytes:
        """Return a watch line, encoded once for all watchers with an equal view."""
        key = (self.key, kind)
        line = change.lines.get(key)
        if line is None:
            line = change.lines[key] = self.event(kind, stored)
        return line

    def moved(self, stored: Stored, revision: int) -> Stored:
        """Return the same content with another resourceVersion."""
        document = _members_of.decode(stored.raw)
        document["metadata"]["resourceVersion"] = str(revision)
        return msgspec.structs.replace(stored, revision=revision, raw=_encode(document))

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Encode a BOOKMARK line: an empty object with only a resourceVersion."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        document = {"kind": self._kind, "apiVersion": self._api_version, "metadata": metadata}
        return b'{"type":"BOOKMARK","object":%s}\n' % dumps(document)
