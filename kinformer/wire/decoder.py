"""Decoding: one line of a watch, or one item of a list, becomes an object."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import Any, NoReturn

import msgspec

from kinformer.exceptions import MALFORMED, DecodeError, WatchError, api_error
from kinformer.list_watcher import WatchEvent
from kinformer.objects.object import KubeObject, decode_bookmark
from kinformer.wire.fast_path import FastPath, Metadata, ObjectPrefix, decode_untyped, without_managed_fields
from kinformer.wire.field_packing import FieldLayout
from kinformer.wire.json_scan import identity_of, members

__all__ = ["EntryDecoder", "PoisonObjectError"]


# What a server, or a proxy before it, may put where an object should be.
_NO_OBJECTS = {
    "Status": ("v1",),
    "Table": ("meta.k8s.io/v1", "meta.k8s.io/v1beta1"),
    "PartialObjectMetadataList": ("meta.k8s.io/v1", "meta.k8s.io/v1beta1"),
}


class PoisonObjectError(DecodeError):
    """One object that cannot be kept, in an answer that is otherwise sound: without a name, or with labels of numbers.

    To be counted and left out, while the stream goes on from `resource_version`.

    Attributes:
        key: `"namespace/name"` or `"name"`; "" where the object has no name that is text.
        resource_version: Of the object, or "".
        type: Of the event that brought it (`"ADDED"`, `"MODIFIED"`, `"DELETED"`), or "" for an item of a list.
    """

    def __init__(self, message: str, *, key: str = "", resource_version: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.resource_version = resource_version
        self.type = ""


class _Object(msgspec.Struct, gc=False, rename="camel"):
    # All else is skipped, which checks it to be JSON: 5 us for a Pod of 8 KB, a fifth of a dict.
    metadata: Metadata
    api_version: str | None = None
    kind: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, rename="camel"):
    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_status = msgspec.json.Decoder(_Status).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class EntryDecoder:
    """Makes objects of the bytes of one resource, as they stand in watches and lists.

    Labels and owners that are written alike are one and the same dict and tuple in all objects of one decoder; the
    texts of namespaces and kinds are shared too. The JSON that an object keeps is as the server wrote it, without
    managedFields (a third to a half of it).

    Args:
        keep_managed_fields: Keep them; False by default, since few programs read them and all would pay for them.
        fields: JSON paths; only these, and what identifies the object, are kept. None keeps everything.

    Attributes:
        errors: How many objects and events were refused.
        fast: Reads the lines of a watch that look like those before them; the others are for `event`.

    Raises:
        ConfigError: a path does not parse.
    """

    def __init__(self, *, keep_managed_fields: bool = False, fields: Sequence[str] | None = None) -> None:
        self.errors = 0
        self._keep_managed_fields = keep_managed_fields
        self._layout = FieldLayout(fields) if fields is not None else None
        self._stamps: dict[tuple[str, str], bytes] = {}
        self.fast = FastPath(keep_managed_fields=keep_managed_fields, layout=self._layout)

    def event(self, line: bytes | bytearray | memoryview) -> WatchEvent:
        """The event in one line of a watch.

        The object of a BOOKMARK has the key `""`, a resourceVersion and annotations, whatever else stands in it.

        Raises:
            APIError: an ERROR event; the class is that of its Status (`ExpiredError` for a 410).
            PoisonObjectError: the event is sound, its object cannot be kept.
            WatchError: a type of event that does not exist, or a Table, Status or list in the place of an object.
            DecodeError: the line is malformed, so it cannot be known what was lost.
        """
        return self._any_event(line if type(line) is bytes else bytes(line))

    def _any_event(self, data: bytes) -> WatchEvent:
        try:
            event = _decode_event(data)
        except MALFORMED as error:
            if isinstance(error, RecursionError):
                self._refuse_deep_event(data, error)
            self.errors += 1
            raise DecodeError(f"malformed watch event: {error}: {data[:80]!r}") from error
        raw = bytes(event.object)
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                try:
                    return WatchEvent(event.type, self.item(raw))
                except PoisonObjectError as error:
                    error.type = event.type
                    raise
                except DecodeError:
                    self.errors += 1
                    raise
            case "BOOKMARK":
                try:
                    return WatchEvent(event.type, decode_bookmark(raw))
                except DecodeError:
                    self.errors += 1
                    raise
            case "ERROR":
                self._raise_status(raw)
        self.errors += 1
        raise WatchError(f"a watch event of the unknown type {event.type!r}: {data[:80]!r}")

    def _raise_status(self, raw: bytes) -> NoReturn:
        try:
            status = _decode_status(raw)
        except MALFORMED as error:
            self.errors += 1
            raise WatchError(f"an ERROR event without a Status: {raw[:200]!r}") from error
        details = status.details or {}
        seconds = details.get("retryAfterSeconds")
        raise api_error(
            status.code or 500,  # as client-go takes an error that does not say what it is
            status.reason or "",
            status.message or "",
            seconds if isinstance(seconds, int) and seconds > 0 else None,
            details,
        )

    def item(self, data: bytes | bytearray | memoryview, api_version: str = "", kind: str = "") -> KubeObject:
        """The object of exactly one JSON object, such as an item of a list.

        Items of built-in lists come without apiVersion and kind: what is missing is taken from the arguments, also
        into `raw`, so that objects look alike from a list and from a watch.

        Raises:
            PoisonObjectError: this is JSON, but no object that can be kept; counted in `errors`.
            WatchError: this is a Table, Status or list; counted.
            DecodeError: this is not exactly one JSON object; not counted, for a splitter asks by this where an item
                ends.
        """
        raw = data if type(data) is bytes else bytes(data)
        try:
            return self._entry(raw, api_version, kind)
        except MALFORMED as error:
            self._refuse(raw, error)

    def _entry(self, raw: bytes, api_version: str, kind: str) -> KubeObject:
        text, known_kind, known_version, brace, _ = self.fast.prefix
        stamp, seen = b"", brace > 0 and raw.startswith(text)
        if seen and known_kind:
            metadata = decode_untyped(raw).metadata
            kind, api_version = known_kind, known_version
        else:
            head = _decode_object(raw)
            metadata = head.metadata
            if not seen:
                self.fast.prefix = ObjectPrefix.of(raw, head.kind, head.api_version)
                brace = self.fast.prefix.brace
            if head.kind is None or head.api_version is None:
                stamp = self._stamp("" if head.kind else kind, "" if head.api_version else api_version)
            kind, api_version = intern(head.kind or kind), intern(head.api_version or api_version)
        name, namespace = metadata.name, metadata.namespace
        if not name:
            raise msgspec.ValidationError("metadata.name is missing")
        if not raw.isascii():
            raw.decode()  # what msgspec skips it does not check to be UTF-8
        fields = metadata.managed_fields
        self.fast.cutting = bool(fields) and not self._keep_managed_fields
        if self.fast.cutting:
            raw = without_managed_fields(raw, brace, bytes(fields), stamp)
        elif stamp:
            raw = stamp + raw[1:]
        obj = KubeObject(
            f"{namespace}/{name}" if namespace else name,
            intern(namespace) if namespace else "",
            metadata.uid or "",
            metadata.resource_version or "",
            api_version,
            kind,
            self.fast.labels[bytes(metadata.labels)],
            self.fast.owners[bytes(metadata.owner_references)],
            raw,
        )
        return obj if self._layout is None else self._layout.kept(obj)

    def keep(self, obj: KubeObject) -> KubeObject:
        """An object that was kept before, in the form in which this decoder keeps objects."""
        return obj if self._layout is None else self._layout.kept(obj)

    def _stamp(self, kind: str, api_version: str) -> bytes:
        # In the order in which the server itself writes them in watch events.
        stamp = self._stamps.get((kind, api_version))
        if stamp is None:
            members = {"kind": kind, "apiVersion": api_version}
            text = _encode({name: value for name, value in members.items() if value})
            stamp = self._stamps[kind, api_version] = text[:-1] + b"," if len(text) > 2 else b""
        return stamp

    def _refuse_deep_event(self, data: bytes, error: RecursionError) -> None:
        """Raises PoisonObjectError where it is an object of this event that is nested too deeply."""
        found = dict(members(data))
        kind = found.get(b"type", b"").strip(b'"').decode(errors="replace")
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            try:
                self._refuse_deep(found.get(b"object", b""), error)
            except PoisonObjectError as poison:
                poison.type = kind
                raise

    def _refuse_deep(self, raw: bytes, error: RecursionError) -> NoReturn:
        name, namespace, version = identity_of(raw)  # a DecodeError, where this is not exactly one object
        self.errors += 1
        raise PoisonObjectError(
            f"an object that is nested too deeply: {raw[:80]!r}",
            key=f"{namespace}/{name}" if name and namespace else name,
            resource_version=version,
        ) from error

    def _refuse(self, raw: bytes, error: Exception) -> NoReturn:
        if isinstance(error, RecursionError):
            self._refuse_deep(raw, error)
        try:
            document = _decode_any(raw)
        except MALFORMED as malformed:
            raise DecodeError(f"malformed object: {malformed}: {raw[:80]!r}") from malformed
        if isinstance(error, UnicodeDecodeError):
            raise DecodeError(f"malformed object: {error}: {raw[:80]!r}") from error
        self.errors += 1
        if not isinstance(document, dict):
            raise PoisonObjectError(f"no object: {raw[:80]!r}") from error
        if document.get("apiVersion") in _NO_OBJECTS.get(str(document.get("kind")), ()):
            raise WatchError(f"a {document['kind']} came in the place of an object: {raw[:80]!r}") from error
        metadata = document.get("metadata")
        known = metadata if isinstance(metadata, dict) else {}
        name, namespace, version = (
            value if isinstance(value := known.get(field), str) else ""
            for field in ("name", "namespace", "resourceVersion")
        )
        raise PoisonObjectError(
            f"an object that cannot be kept: {error}: {raw[:80]!r}",
            key=f"{namespace}/{name}" if name and namespace else name,
            resource_version=version,
        ) from error
