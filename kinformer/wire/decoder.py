"""Decodes the lines of a watch and the items of a list to objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sys import intern
from typing import NoReturn

import msgspec

from kinformer._runtime.json_depth import LONG, bounded, refuse_deep
from kinformer.exceptions import MALFORMED, DecodeError, WatchError, api_error
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import string_at
from kinformer.objects.excerpts import excerpt_of
from kinformer.objects.object import KubeObject
from kinformer.objects.types import JSON
from kinformer.wire.documents import DocumentReader, PlainDocument
from kinformer.wire.expected_type import ExpectedType, ForeignTypeError
from kinformer.wire.fast_path import UNKNOWN, FastPath, ObjectPrefix, without_managed_fields
from kinformer.wire.field_packing import FieldLayout
from kinformer.wire.json_scan import identity_of, members

__all__ = ["EntryDecoder", "PoisonObjectError", "decode_bookmark"]


# Documents that a server, or a proxy in front of it, may send instead of an object.
_NO_OBJECTS = {
    "Status": ("v1",),
    "Table": ("meta.k8s.io/v1", "meta.k8s.io/v1beta1"),
    "PartialObjectMetadataList": ("meta.k8s.io/v1", "meta.k8s.io/v1beta1"),
}


class PoisonObjectError(DecodeError):
    """An invalid object in a valid response, for example without a name, or with numbers as labels.

    The object is counted and skipped, and the stream continues from `resource_version`.

    Attributes:
        key: `"namespace/name"` or `"name"`, or "" if the object's name is missing or not a string.
        resource_version: The resourceVersion of the object, or "".
        type: The type of its event (`"ADDED"`, `"MODIFIED"`, `"DELETED"`), or "" for an item of a list.
    """

    def __init__(self, message: str, *, key: str = "", resource_version: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.resource_version = resource_version
        self.type = ""


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, rename="camel"):
    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, object] | None = None


class _BookmarkMetadata(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _BookmarkMetadata = msgspec.field(default_factory=_BookmarkMetadata)


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_status = bounded(msgspec.json.Decoder(_Status).decode)
_decode_bookmark = bounded(msgspec.json.Decoder(_Bookmark).decode)
_decode_any: Callable[[bytes], JSON] = bounded(msgspec.json.Decoder().decode)
_encode = msgspec.json.Encoder().encode


_WITHOUT_PATHS = DocumentReader()
_TYPE = (b"kind", b"apiVersion")


class EntryDecoder:
    """Decodes the objects of one resource from the bytes of its watches and lists.

    Within one decoder, labels and owner references with equal bytes share the same dict and tuple, and namespaces and
    kinds share their strings. An object keeps its JSON as the server wrote it, without managedFields (a third to a
    half of it).

    Args:
        keep_managed_fields: Keep managedFields. False by default, because few programs read them but all would pay.
        fields: JSON paths. Only these and the identity of an object are kept. None keeps everything.
        expected: The type of the objects. None accepts any.

    Attributes:
        errors: The number of objects and events that were rejected.
        fast: Reads lines of a watch that look like earlier lines. `event` reads the others.

    Raises:
        ConfigError: A path is invalid.
    """

    def __init__(
        self,
        *,
        keep_managed_fields: bool = False,
        fields: Sequence[str] | None = None,
        expected: ExpectedType | None = None,
    ) -> None:
        self.errors = 0
        self._expected = expected
        self._keep_managed_fields = keep_managed_fields
        self._layout = FieldLayout(fields) if fields is not None else None
        self._stamps: dict[tuple[str, str], bytes] = {}
        self._own_namespace = intern if expected is None else expected.own_namespace
        self.fast = FastPath(
            keep_managed_fields=keep_managed_fields, layout=self._layout, own_namespace=self._own_namespace
        )

    def begin(self) -> None:
        """Begin a list or an initial stream: see `ExpectedType.begin`."""
        if self._expected is not None and self._expected.begin():
            self.fast.prefix = UNKNOWN

    def adopt(self, kind: str) -> None:
        """Expect objects of another kind: see `ExpectedType.adopt`."""
        if self._expected is not None:
            self._expected.adopt(kind)
            self.fast.prefix = UNKNOWN

    def event(self, line: bytes | bytearray | memoryview) -> WatchEvent:
        """Decode the event in one line of a watch.

        The object of a BOOKMARK has the key `""`, a resourceVersion and annotations. The rest of it is ignored.

        Raises:
            APIError: The event is an ERROR. The class depends on its Status (`ExpiredError` for a 410).
            PoisonObjectError: The event is valid, but its object is not.
            WatchError: The type of event is unknown, or the object is a Table, Status or list, or of another type.
            DecodeError: The line is malformed, so it is unknown which change was lost.
        """
        return self._any_event(line if type(line) is bytes else bytes(line))

    def _any_event(self, data: bytes) -> WatchEvent:
        try:
            event = _decode_event(data)
        except MALFORMED as error:
            if isinstance(error, RecursionError):
                self._refuse_deep_event(data, error)
            self.errors += 1
            raise DecodeError(f"malformed watch event: {error}: {excerpt_of(data)}") from error
        raw = bytes(event.object)
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                try:
                    return WatchEvent(event.type, self._event_object(raw))
                except PoisonObjectError as error:
                    error.type = event.type
                    raise
                except DecodeError:
                    self.errors += 1
                    raise
            case "BOOKMARK":
                try:
                    return WatchEvent(event.type, self._bookmark(raw))
                except (DecodeError, ForeignTypeError):
                    self.errors += 1
                    raise
            case "ERROR":
                self._raise_status(raw)
        self.errors += 1
        raise WatchError(f"watch event of unknown type {event.type!r}: {excerpt_of(data)}")

    def _raise_status(self, raw: bytes) -> NoReturn:
        try:
            status = _decode_status(raw)
        except MALFORMED as error:
            self.errors += 1
            if isinstance(error, RecursionError):
                raise DecodeError(f"malformed watch event: {error}: {excerpt_of(raw)}") from error
            raise WatchError(f"watch event of type ERROR without a Status: {excerpt_of(raw, 200)}") from error
        details = status.details or {}
        seconds = details.get("retryAfterSeconds")
        raise api_error(
            status.code or 500,  # client-go takes 500 for an error without a code
            status.reason or "",
            status.message or "",
            seconds if isinstance(seconds, int) and seconds > 0 else None,
            details,
        )

    def item(self, data: bytes | bytearray | memoryview, api_version: str = "", kind: str = "") -> KubeObject:
        """Decode exactly one JSON object, such as an item of a list.

        Items of built-in lists have no apiVersion and kind. They are taken from the arguments and also added to `raw`,
        so that objects from a list and from a watch are the same.

        Raises:
            PoisonObjectError: The data is JSON, but not a valid object. Counted in `errors`.
            WatchError: The data is a Table, Status or list, or of another type. Counted in `errors`.
            DecodeError: The data is not exactly one JSON object. Not counted, because a splitter calls this to find
                the end of an item.
        """
        raw = data if type(data) is bytes else bytes(data)
        try:
            try:
                return self._entry(raw, api_version, kind, self.fast.documents)
            except msgspec.ValidationError:
                # Perhaps the only problem is a value along one of the paths that is not an object.
                return self._entry(raw, api_version, kind, _WITHOUT_PATHS)
        except MALFORMED as error:
            self._refuse(raw, error)
        except ForeignTypeError:
            self.errors += 1
            raise

    def _event_object(self, raw: bytes) -> KubeObject:
        obj = self.item(raw)
        if self._expected is not None and not (obj.kind and obj.api_version):
            try:
                self._expected.check_event(obj)
            except ForeignTypeError:
                self.errors += 1
                raise
        return obj

    def _bookmark(self, raw: bytes) -> KubeObject:
        bookmark = decode_bookmark(raw)
        if self._expected is not None:
            self._expected.check_bookmark(bookmark)
        return bookmark

    def items(
        self, data: bytes, start: int, ends: list[int], gap: int, api_version: str, kind: str, found: list[KubeObject]
    ) -> int:
        """Decode list items that look like earlier ones, append them to `found`, and return their number.

        The first item begins at `start`, each ends at one of `ends`, and there are `gap` bytes between two. It stops
        at an item that looks different or is invalid, which is left to `item`.
        """
        kind, api_version, stamp = intern(kind), intern(api_version), b""
        if not self.fast.prefix.kind:
            if (kind or api_version) and not self._is_checked(kind, api_version):
                return 0
            stamp = self._stamp(kind, api_version)
        return self.fast.read_items(data, start, ends, gap, stamp, kind, api_version, found)

    def _is_checked(self, kind: str, api_version: str) -> bool:
        """True if earlier objects had this type. The strings are interned."""
        expected = self._expected
        return expected is None or (kind is expected.kind and api_version is expected.api_version)

    def _entry(self, raw: bytes, api_version: str, kind: str, documents: DocumentReader) -> KubeObject:
        text, known_kind, known_version, brace, _ = self.fast.prefix
        document: PlainDocument
        stamp, seen = b"", brace > 0 and raw.startswith(text)
        if len(raw) >= LONG:
            refuse_deep(raw)
        if seen and known_kind:
            document = documents.plain(raw)
            kind, api_version = known_kind, known_version
        else:
            document = head = documents.typed(raw)
            if head.kind is None or head.api_version is None:
                stamp = self._stamp("" if head.kind else kind, "" if head.api_version else api_version)
            kind, api_version = intern(head.kind or kind), intern(head.api_version or api_version)
            if not head.metadata.name:
                raise msgspec.ValidationError("metadata.name is missing")
            if self._expected is not None and not self._is_checked(kind, api_version):
                self._expected.check(kind, api_version, head.metadata.name)
            if not seen:  # from now on, the type of objects that begin like this one is not checked again
                self.fast.prefix = ObjectPrefix.of(raw, head.kind, head.api_version)
                brace = self.fast.prefix.brace
        metadata = document.metadata
        name, namespace = metadata.name, metadata.namespace
        if not name:
            raise msgspec.ValidationError("metadata.name is missing")
        if not raw.isascii():
            raw.decode()  # msgspec does not check skipped parts for valid UTF-8
        fields = metadata.managed_fields
        self.fast.cutting = bool(fields) and not self._keep_managed_fields
        if self.fast.cutting:
            raw = without_managed_fields(raw, brace, bytes(fields), stamp)
        elif stamp:
            raw = stamp + raw[1:]
        obj = KubeObject(
            f"{namespace}/{name}" if namespace else name,
            self.fast.namespaces[namespace or ""],
            metadata.uid or "",
            metadata.resource_version or "",
            api_version,
            kind,
            self.fast.labels[bytes(metadata.labels)],
            self.fast.owners[bytes(metadata.owner_references)],
            raw,
            None if documents.values_of is None else documents.values_of(document),
        )
        return obj if self._layout is None else self._layout.kept(obj)

    def read_paths(self, paths: Iterable[str]) -> None:
        """Read the values of these paths with each object decoded from now on, in addition to earlier paths.

        Raises:
            ConfigError: A path is invalid.
        """
        documents = DocumentReader((*self.fast.documents.paths, *paths))
        if documents.paths != self.fast.documents.paths:
            self.fast.documents = documents

    def keep(self, obj: KubeObject) -> KubeObject:
        """Convert an existing object to the form in which this decoder keeps objects."""
        return obj if self._layout is None else self._layout.kept(obj)

    def _stamp(self, kind: str, api_version: str) -> bytes:
        # In the order of the server's watch events.
        stamp = self._stamps.get((kind, api_version))
        if stamp is None:
            members = {"kind": kind, "apiVersion": api_version}
            text = _encode({name: value for name, value in members.items() if value})
            stamp = self._stamps[kind, api_version] = text[:-1] + b"," if len(text) > 2 else b""
        return stamp

    def _refuse_deep_event(self, data: bytes, error: RecursionError) -> None:
        """Raise PoisonObjectError if the object of this event is nested too deeply."""
        fields = dict(members(data))
        kind = fields.get(b"type", b"").strip(b'"').decode(errors="replace")
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            try:
                self._refuse_deep(fields.get(b"object", b""), error)
            except PoisonObjectError as poison:
                poison.type = kind
                raise

    def _refuse_deep(self, raw: bytes, error: RecursionError) -> NoReturn:
        name, namespace, version = identity_of(raw)  # raises DecodeError unless this is exactly one object
        self.errors += 1
        fields = dict(members(raw))
        kind, api_version = (fields.get(field, b"").strip(b'"').decode(errors="replace") for field in _TYPE)
        key = self._poison_key(kind, api_version, namespace, name)
        raise PoisonObjectError(
            f"object is nested too deeply: {excerpt_of(raw)}", key=key, resource_version=version
        ) from error

    def _poison_key(self, kind: str, api_version: str, namespace: str, name: str) -> str:
        """Return the key of an object that is left out, or "" if it is unknown.

        Raises:
            ForeignTypeError: It is of another type, so the answer is wrong, not only this object.
        """
        if self._expected is not None:
            self._expected.check(kind, api_version, name)
            if not namespace and self._expected.namespace:
                return ""  # the namespace of the object cannot be read either
        if namespace:
            self._own_namespace(namespace)
        return f"{namespace}/{name}" if name and namespace else name

    def _refuse(self, raw: bytes, error: Exception) -> NoReturn:
        if isinstance(error, RecursionError):
            self._refuse_deep(raw, error)
        try:
            document = _decode_any(raw)
        except MALFORMED as malformed:
            raise DecodeError(f"malformed object: {malformed}: {excerpt_of(raw)}") from malformed
        if isinstance(error, UnicodeDecodeError):
            raise DecodeError(f"malformed object: {error}: {excerpt_of(raw)}") from error
        self.errors += 1
        if not isinstance(document, dict):
            raise PoisonObjectError(f"not an object: {excerpt_of(raw)}") from error
        if document.get("apiVersion") in _NO_OBJECTS.get(str(document.get("kind")), ()):
            raise WatchError(f"expected an object, got a {document['kind']}: {excerpt_of(raw)}") from error
        metadata = document.get("metadata")
        name, namespace, version = (string_at(metadata, field) for field in ("name", "namespace", "resourceVersion"))
        key = self._poison_key(string_at(document, "kind"), string_at(document, "apiVersion"), namespace, name)
        raise PoisonObjectError(
            f"object cannot be kept: {error}: {excerpt_of(raw)}", key=key, resource_version=version
        ) from error


def decode_bookmark(raw: bytes | msgspec.Raw) -> KubeObject:
    """Decode the object of a BOOKMARK: kind, apiVersion, resourceVersion and annotations, with the key `""`.

    Servers fill the rest of it with zero values that match no type (`"versions": null`), so it is ignored.

    Raises:
        DecodeError: The bytes are not an object, or its metadata is malformed.
    """
    try:
        bookmark = _decode_bookmark(raw)
    except MALFORMED as error:
        raise DecodeError(f"malformed bookmark: {error}: {excerpt_of(bytes(raw))}") from error
    return KubeObject(
        "",
        "",
        "",
        bookmark.metadata.resource_version,
        intern(bookmark.api_version),
        intern(bookmark.kind),
        {},
        (),
        _encode(bookmark),
    )
