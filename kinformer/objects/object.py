"""The object: immutable, untracked by the garbage collector, and decoded when it is read.

A cache of a million objects must not make a collection slower, so a `KubeObject` is a struct that the collector does
not track. The price is a rule: no field of it ever holds anything that could lead back to it, because such a cycle
would never be freed. It holds text, a dict of text, a tuple of flat structs and bytes; everything else is decoded anew
at each read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import msgspec

from kinformer._runtime.json_depth import bounded
from kinformer.exceptions import MALFORMED, DecodeError
from kinformer.objects.attribute_hints import HINTS, add_hints
from kinformer.objects.json_path import PathValues, parse_path, path_value
from kinformer.objects.meta import OwnerReference, decode_owner_references
from kinformer.objects.models import decode_as
from kinformer.objects.types import JSON, KeyedValue, M_co

__all__ = ["KubeObject", "ObjectView", "OwnerReference", "decode_bookmark", "fields_of", "force_setattr", "view"]

T = TypeVar("T")

if TYPE_CHECKING:
    # StructMeta and ABCMeta do not combine at run time, so `Mapping.register` is called there; type checkers read this.
    class _Base(Mapping[str, Any]):
        __struct_fields__: tuple[str, ...]

        def __init__(self, *fields: object) -> None: ...
        def __init_subclass__(cls, *, frozen: bool = False, gc: bool = True, eq: bool = True) -> None: ...

else:
    _Base = msgspec.Struct


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    owner_references: msgspec.Raw = msgspec.Raw()


class _Head(msgspec.Struct, gc=False, rename="camel"):
    metadata: _Metadata
    api_version: str | None = None
    kind: str | None = None


class _Annotations(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct, gc=False):
    metadata: _Annotations


class _Times(msgspec.Struct, gc=False, rename="camel"):
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    generation: int | None = None


class _Timed(msgspec.Struct, gc=False):
    metadata: _Times


class _BookmarkMetadata(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _BookmarkMetadata = msgspec.field(default_factory=_BookmarkMetadata)


_decode_head = bounded(msgspec.json.Decoder(_Head).decode)
_decode_annotated = msgspec.json.Decoder(_Annotated).decode
_decode_timed = msgspec.json.Decoder(_Timed).decode
_decode_bookmark = bounded(msgspec.json.Decoder(_Bookmark).decode)
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_whole = msgspec.json.Decoder(dict[str, Any]).decode
_decode_any: Callable[[msgspec.Raw], JSON] = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class KubeObject(_Base, Generic[M_co], frozen=True, gc=False, eq=False):
    """One object of the API: an immutable mapping over its JSON, with the parts of its identity as attributes.

    Objects come from `from_dict`, `from_json`, informers and clients; the constructor is not part of the contract.

    `obj["spec"]` and the like decode at each read, so the result belongs to the caller: change it freely, neither the
    cache nor any other reader sees it. Attributes cost nothing, except for `annotations`, `generation` and the two
    timestamps, which read the JSON. Reads are safe from any thread.

    Two objects are equal if they have the same uid and resourceVersion, whatever they were decoded from; without these
    two, if they have the same bytes. A mapping that is not a KubeObject is never equal; compare it with `to_dict()`.
    """

    # Text, shared text, a shared dict of text, a shared tuple of flat structs, bytes: none of these can lead back.
    key: str
    """`"namespace/name"`, or `"name"` of a cluster-scoped object: the key in caches, listers and queues."""
    namespace: str
    """`metadata.namespace`; "" for a cluster-scoped object."""
    uid: str
    """`metadata.uid`; "" if there is none, as before the object was created."""
    resource_version: str
    """`metadata.resourceVersion`; "" if there is none."""
    api_version: str
    """`apiVersion`, such as `"apps/v1"`; items of a list have it too."""
    kind: str
    """`kind`, such as `"Deployment"`; items of a list have it too."""
    _labels: dict[str, str]
    owner_references: tuple[OwnerReference, ...]
    """The owners, in their order; empty if there are none."""
    _data: bytes
    # The values of some paths, which were read when the object was decoded; shared, like the labels.
    _path_values: PathValues | None = None

    @classmethod
    def from_json(cls, raw: bytes | bytearray | memoryview | str) -> KubeObject:
        """Make an object of its JSON, which is kept byte for byte.

        Raises:
            DecodeError: The bytes are not JSON, or not an object with a `metadata.name`.
        """
        data = raw.encode() if isinstance(raw, str) else bytes(raw)
        try:
            head = _decode_head(data)
            data.decode()  # msgspec does not check that the parts it skips are UTF-8
            owners = decode_owner_references(head.metadata.owner_references)
        except MALFORMED as error:
            raise DecodeError(f"not a Kubernetes object: {error}: {data[:80]!r}") from error
        metadata = head.metadata
        if not metadata.name:
            raise DecodeError(f"not a Kubernetes object: metadata.name is missing: {data[:80]!r}")
        namespace = sys.intern(metadata.namespace or "")
        return KubeObject(
            f"{namespace}/{metadata.name}" if namespace else metadata.name,
            namespace,
            metadata.uid or "",
            metadata.resource_version or "",
            sys.intern(head.api_version or ""),
            sys.intern(head.kind or ""),
            metadata.labels or {},
            owners,
            data,
        )

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> KubeObject:
        """Make an object of a dict, as YAML and JSON readers return it; the dict is copied by encoding it.

        Raises:
            DecodeError: The dict holds a value that JSON cannot express, or has no `metadata.name`.
        """
        if isinstance(document, KubeObject):
            return cls.from_json(document.raw)
        try:
            data = _encode(dict(document))
        except (TypeError, ValueError, RecursionError) as error:
            raise DecodeError(f"not a Kubernetes object: {error}") from error
        return cls.from_json(data)

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.key[len(self.namespace) + 1 :] if self.namespace else self.key

    @property
    def raw(self) -> bytes:
        """The JSON as it is kept: without managedFields, unless these were requested."""
        return self._data

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels, read-only; `dict(obj.labels)` copies them. Objects with equal labels share one dict behind it."""
        return MappingProxyType(self._labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, read-only, decoded at each read."""
        return MappingProxyType(_checked(_decode_annotated, self).metadata.annotations or {})

    @property
    def generation(self) -> int:
        """`metadata.generation`, which the server raises with every change of the spec; 0 if there is none."""
        return _checked(_decode_timed, self).metadata.generation or 0

    @property
    def creation_timestamp(self) -> datetime | None:
        """The time at which the server created the object, as an aware datetime; None if it is missing."""
        return _aware(_checked(_decode_timed, self).metadata.creation_timestamp)

    @property
    def deletion_timestamp(self) -> datetime | None:
        """The time at which the object was, or will be, deleted, as an aware datetime; None if it is not."""
        return _aware(_checked(_decode_timed, self).metadata.deletion_timestamp)

    def path(self, path: str, default: object = None) -> Any:
        """Return the value at a JSON path, such as `"spec.nodeName"` or `"metadata.labels['app.kubernetes.io/name']"`.

        Returns `default` if there is no value, or null. A path with a wildcard, `"spec.containers[*].image"`, returns
        the list of all values that it finds, perhaps an empty one.

        Raises:
            ConfigError: The path does not parse; the text names the position.
        """
        return path_value(self.raw, path, default)

    def to_dict(self) -> dict[str, Any]:
        """Decode the whole object as a new dict, which belongs to the caller."""
        return _checked(_decode_whole, self)

    def decode(self, type: type[T]) -> T:  # noqa: A002 - the word of msgspec and pydantic
        """Decode the object as a new instance of `type`.

        `type` is a msgspec Struct, a dataclass or a TypedDict with the names of the wire, a pydantic model, or a model
        of kubernetes_asyncio. Fields that the type does not have are left out.

        Raises:
            DecodeError: The object does not fit the type; `__cause__` has the details.
        """
        return decode_as(self.raw, type, self)

    @property
    def model(self) -> M_co:
        """The object as an instance of its informer's model, ``model=`` of `for_resource`.

        Raises:
            AttributeError: The informer has no model; `decode` needs none.
            DecodeError: The object does not fit the model; the text names the resource, the key and the field.
        """
        raise AttributeError(
            f"{self!r} comes from an informer without a model: pass model= to for_resource, or use decode(...)"
        )

    def _members(self) -> Mapping[str, Any]:
        return _checked(_decode_members, self)  # the top-level values, not yet decoded

    def __getitem__(self, key: str) -> Any:
        return _decode_any(self._members()[key])

    @overload
    def get(self, key: str, /) -> Any: ...
    @overload
    def get(self, key: str, /, default: object) -> Any: ...
    def get(self, key: str, /, default: object = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return `obj[key]`, or `default` if there is no such key."""
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return key in self._members()

    def __iter__(self) -> Iterator[str]:
        return iter(self._members())

    def __len__(self) -> int:
        return len(self._members())

    def __bool__(self) -> bool:
        return True

    def keys(self) -> KeysView[str]:
        """Return the top-level keys: apiVersion, kind, metadata and so on."""
        return self._members().keys()

    def items(self) -> ItemsView[str, Any]:
        """Return the top-level keys and values of a new `to_dict()`."""
        return self.to_dict().items()

    def values(self) -> ValuesView[Any]:
        """Return the top-level values of a new `to_dict()`."""
        return self.to_dict().values()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, KubeObject):
            return NotImplemented
        if self.uid and self.resource_version and other.uid and other.resource_version:
            return self.uid == other.uid and self.resource_version == other.resource_version
        return self.raw == other.raw

    def __ne__(self, other: object) -> bool:
        # Defined because that of msgspec's Struct is not the inverse of the one above.
        return equal if (equal := self.__eq__(other)) is NotImplemented else not equal

    def __hash__(self) -> int:
        if self.uid and self.resource_version:
            return hash((self.uid, self.resource_version))
        return hash(self.raw)

    def __repr__(self) -> str:
        version = f" rv={self.resource_version}" if self.resource_version else ""
        return f"<{self.kind or 'object'} {self.key or '(no name)'}{version}>"

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in HINTS]

    def __copy__(self) -> KubeObject:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> KubeObject:
        return self

    def _view(self) -> ObjectView:
        head = (self.key, self.namespace, self.uid, self.resource_version, self.api_version, self.kind)
        return ObjectView(*head, self._labels, self.owner_references, self.raw, self._path_values)


add_hints(KubeObject)
Mapping.register(KubeObject)  # pyright: ignore[reportAttributeAccessIssue]


force_setattr = cast("Callable[[KubeObject, str, object], None]", msgspec.structs.force_setattr)
fields_of = cast("Callable[[KubeObject], tuple[object, ...]]", msgspec.structs.astuple)
"""The fields of an object: `ObjectView(*fields_of(obj))` is its view, for a loop that has no time to call `view`."""
_FIELDS = len(KubeObject.__struct_fields__)


class ObjectView(KubeObject[M_co], frozen=True, gc=True, eq=False):
    """An object as a handler gets it with an event: the same value, which keeps what it has decoded.

    Unlike the object in the cache it is tracked by the garbage collector, so it may hold values that the program
    changes: `view["spec"]` is the same dict at each read, also after a change, and no other reader sees that change.
    `to_dict()`, `decode()` and `raw` stay as the server sent them. It equals the object that it was made of, and has
    its hash.
    """

    # None, or key -> value; a value that has not been read is msgspec.Raw.
    _memo: dict[str, Any] | None = None

    def _members(self) -> dict[str, Any]:
        memo = self._memo
        if memo is None:
            memo = dict(super()._members())
            force_setattr(self, "_memo", memo)
        return memo

    def __getitem__(self, key: str) -> Any:
        memo = self._members()
        value = memo[key]
        if type(value) is msgspec.Raw:
            value = memo[key] = _decode_any(value)
        return value

    def path(self, path: str, default: object = None) -> Any:
        """Like `KubeObject.path`, but reads the values that this view has decoded, and keeps those that it decodes."""
        return parse_path(path).value(self, default)

    def _decoded(self) -> dict[str, Any]:
        return {key: self[key] for key in self._members()}

    def items(self) -> ItemsView[str, Any]:
        """Return the top-level keys and values, as `view[key]` returns them."""
        return self._decoded().items()

    def values(self) -> ValuesView[Any]:
        """Return the top-level values, as `view[key]` returns them."""
        return self._decoded().values()

    def __copy__(self) -> ObjectView:
        return view(self)

    def __deepcopy__(self, memo: dict[int, object]) -> ObjectView:
        return view(self)

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectView, fields_of(self)[:_FIELDS]


class UndecodableObject(KubeObject, frozen=True, gc=False, eq=False):
    """The key and version of an object whose new state cannot be decoded.

    A source sends it in a DELETED event, so that the object is dropped from the cache and the watch goes on from this
    version; if not even the name is known, in a BOOKMARK. The event may replace one of an initial list.
    """

    @classmethod
    def of(cls, key: str, resource_version: str) -> UndecodableObject:
        """Make one of a key, `"namespace/name"` or `"name"`; `""` if the name is unknown."""
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, "resourceVersion": resource_version}
        raw = _encode({"metadata": metadata | ({"namespace": namespace} if namespace else {})})
        return cls(key, sys.intern(namespace), "", resource_version, "", "", {}, (), raw)


@overload
def view(obj: KubeObject) -> ObjectView: ...
@overload
def view(obj: T) -> T: ...
def view(obj: object) -> object:
    """Make a view of an object for one reader, nothing decoded yet; what is no object is returned, without its key."""
    if type(obj) is KubeObject:
        return ObjectView(*fields_of(obj))
    if isinstance(obj, KeyedValue):
        return view(obj.value)
    return obj._view() if isinstance(obj, KubeObject) else obj


def decode_bookmark(raw: bytes | msgspec.Raw) -> KubeObject:
    """Decode the object of a BOOKMARK: kind, apiVersion, resourceVersion and annotations, with the key `""`.

    Servers fill the rest of it with zero values that fit no type (`"versions": null`), so it is dropped unread.

    Raises:
        DecodeError: The bytes are not an object, or its metadata is malformed.
    """
    try:
        bookmark = _decode_bookmark(raw)
    except MALFORMED as error:
        raise DecodeError(f"malformed bookmark: {error}: {bytes(raw)[:80]!r}") from error
    return KubeObject(
        "",
        "",
        "",
        bookmark.metadata.resource_version,
        sys.intern(bookmark.api_version),
        sys.intern(bookmark.kind),
        {},
        (),
        _encode(bookmark),
    )


def _checked(decode: Callable[[bytes], T], obj: KubeObject) -> T:
    try:
        return decode(obj.raw)
    except MALFORMED as error:
        raise DecodeError(f"cannot read {obj!r}: {error}") from error


def _aware(moment: datetime | None) -> datetime | None:
    # The API server always writes Z; a dict of the program's own may not, and means UTC.
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
