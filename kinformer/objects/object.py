"""The object: immutable, untracked by the garbage collector, and decoded on read.

A cache of a million objects must not slow down garbage collection, so a `KubeObject` is a struct that the collector
does not track. In return, no field may ever hold a reference that could lead back to the object, because such a cycle
would never be freed. It holds strings, a dict of strings, a tuple of flat structs and bytes. Everything else is
decoded again at each read.
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
from kinformer.objects.excerpts import excerpt_of
from kinformer.objects.frozen import FrozenDict, frozen
from kinformer.objects.meta import OwnerReference, decode_owner_references
from kinformer.objects.models.decoding import decode_as
from kinformer.objects.paths.json_path import PathValues, parse_path
from kinformer.objects.requests.encoding import encode
from kinformer.objects.types import JSON, KeyedValue, M_co

__all__ = ["KubeObject", "ObjectView", "OwnerReference", "fields_of", "force_setattr", "view"]

T = TypeVar("T")

if TYPE_CHECKING:
    # StructMeta and ABCMeta do not combine, so `Mapping.register` is called at run time. This is for type checkers.
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


_decode_head = bounded(msgspec.json.Decoder(_Head).decode)
_decode_annotated = msgspec.json.Decoder(_Annotated).decode
_decode_timed = msgspec.json.Decoder(_Timed).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_whole = msgspec.json.Decoder(dict[str, Any]).decode
_decode_any: Callable[[msgspec.Raw], JSON] = msgspec.json.Decoder().decode


class KubeObject(_Base, Generic[M_co], frozen=True, gc=False, eq=False):
    """An API object: an immutable mapping over its JSON, with its identity as attributes.

    Objects are created by `from_dict`, `from_json`, informers and clients. The constructor is not part of the public
    API.

    `obj["spec"]` and the like decode at each read. What they return refuses to be changed, by a TypeError, because the
    object would stay as it is. `to_dict()` returns a copy that can be changed, and so does `copy.deepcopy` of a part.
    Attributes are cheap, except for `annotations`, `generation` and the two timestamps, which read the JSON. Reads are
    safe from any thread.

    Two objects are equal if they have the same uid and resourceVersion, whatever they were decoded from. Without
    these, they are equal if they have the same bytes. A mapping that is not a KubeObject is never equal. Compare it
    with `to_dict()`.
    """

    # Strings, a shared dict of strings, a shared tuple of flat structs, and bytes. None of these can form a cycle.
    key: str
    """`"namespace/name"`, or `"name"` for a cluster-scoped object. The key in caches, listers and queues."""
    namespace: str
    """`metadata.namespace`, or "" for a cluster-scoped object."""
    uid: str
    """`metadata.uid`, or "" if there is none, as before the object is created."""
    resource_version: str
    """`metadata.resourceVersion`, or "" if there is none."""
    api_version: str
    """`apiVersion`, such as `"apps/v1"`. Items of a list have it too."""
    kind: str
    """`kind`, such as `"Deployment"`. Items of a list have it too."""
    _labels: dict[str, str]
    owner_references: tuple[OwnerReference, ...]
    """The owners, in order. Empty if there are none."""
    _data: bytes
    # The values of some paths, which were read when the object was decoded. Shared, like the labels.
    _path_values: PathValues | None = None

    @classmethod
    def from_json(cls, raw: bytes | bytearray | memoryview | str) -> KubeObject:
        """Create an object from its JSON, which is kept byte for byte.

        Raises:
            DecodeError: The bytes are not JSON, or not an object with a `metadata.name`.
        """
        data = raw.encode() if isinstance(raw, str) else bytes(raw)
        try:
            head = _decode_head(data)
            data.decode()  # msgspec does not check skipped parts for valid UTF-8
            owners = decode_owner_references(head.metadata.owner_references)
        except MALFORMED as error:
            raise DecodeError(f"not a Kubernetes object: {error}: {excerpt_of(data)}") from error
        metadata = head.metadata
        if not metadata.name:
            raise DecodeError(f"not a Kubernetes object: metadata.name is missing: {excerpt_of(data)}")
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
        """Create an object from a dict, as returned by YAML and JSON parsers. The dict is copied by encoding it.

        Raises:
            DecodeError: The dict contains a value without JSON, such as nan, or has no `metadata.name`.
        """
        if isinstance(document, KubeObject):
            return cls.from_json(document.raw)
        try:
            data = encode(dict(document))
        except (TypeError, ValueError) as error:
            raise DecodeError(f"not a Kubernetes object: {error}") from error
        return cls.from_json(data)

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.key[len(self.namespace) + 1 :] if self.namespace else self.key

    @property
    def raw(self) -> bytes:
        """The stored JSON, without managedFields unless these were requested."""
        return self._data

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels, read-only.

        `dict(obj.labels)` copies them. Objects with equal labels share one dict internally.
        """
        return MappingProxyType(self._labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, read-only, decoded at each read."""
        return MappingProxyType(_checked(_decode_annotated, self).metadata.annotations or {})

    @property
    def generation(self) -> int:
        """`metadata.generation`, which the server increments with every change of the spec, or 0 if there is none."""
        return _checked(_decode_timed, self).metadata.generation or 0

    @property
    def creation_timestamp(self) -> datetime | None:
        """The time at which the server created the object, as an aware datetime, or None if it is missing."""
        return _aware(_checked(_decode_timed, self).metadata.creation_timestamp)

    @property
    def deletion_timestamp(self) -> datetime | None:
        """The time at which the object was or will be deleted, as an aware datetime, or None if not being deleted."""
        return _aware(_checked(_decode_timed, self).metadata.deletion_timestamp)

    def path(self, path: str, default: object = None) -> Any:
        """Return the value at a JSON path, such as `"spec.nodeName"` or `"metadata.labels['app.kubernetes.io/name']"`.

        Returns `default` if there is no value, or null. A path with a wildcard, `"spec.containers[*].image"`, returns
        the possibly empty list of all values.

        Raises:
            ConfigError: The path is invalid. The message names the position.
        """
        return _at_path(self.raw, path, default)

    def to_dict(self) -> dict[str, Any]:
        """Decode the whole object as a new dict, which belongs to the caller."""
        return _checked(_decode_whole, self)

    def decode(self, type: type[T]) -> T:  # noqa: A002 - the word of msgspec and pydantic
        """Decode the object as a new instance of `type`.

        `type` is a msgspec Struct, a dataclass or a TypedDict with the JSON field names, a pydantic model, or a model
        of kubernetes_asyncio. Fields that the type does not have are ignored.

        Raises:
            DecodeError: The object does not match the type. `__cause__` has the details.
        """
        return decode_as(self.raw, type, self)

    @property
    def model(self) -> M_co:
        """The object as an instance of its informer's model, ``model=`` of `for_resource`.

        Raises:
            AttributeError: The informer has no model. `decode` needs none.
            DecodeError: The object does not match the model. The message names the resource, the key and the field.
        """
        raise AttributeError(
            f"{self!r} comes from an informer without a model: pass model= to for_resource, or use decode(...)"
        )

    def _members(self) -> Mapping[str, Any]:
        return _checked(_decode_members, self)  # the top-level values, not yet decoded

    def __getitem__(self, key: str) -> Any:
        return frozen(_decode_any(self._members()[key]))

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
        """Return the top-level keys and values."""
        return FrozenDict(self.to_dict()).items()

    def values(self) -> ValuesView[Any]:
        """Return the top-level values."""
        return FrozenDict(self.to_dict()).values()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, KubeObject):
            return NotImplemented
        if self.uid and self.resource_version and other.uid and other.resource_version:
            return self.uid == other.uid and self.resource_version == other.resource_version
        return self.raw == other.raw

    def __ne__(self, other: object) -> bool:
        # Defined because msgspec's `Struct.__ne__` is not the inverse of `__eq__` above.
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
"""The fields of an object. `ObjectView(*fields_of(obj))` is its view, for hot loops that avoid calling `view`."""
_FIELDS = len(KubeObject.__struct_fields__)


class ObjectView(KubeObject[M_co], frozen=True, gc=True, eq=False):
    """An object as passed to a handler: the same value, which caches decoded parts.

    Unlike the object in the cache, it is tracked by the garbage collector, so it may hold decoded values.
    `view["spec"]` is the same dict at each read. A view equals its original object, and has the same hash.
    """

    # None, or key -> value. A value that has not been read is msgspec.Raw.
    _memo: dict[str, Any] | None = None

    def _members(self) -> dict[str, Any]:
        memo = self._memo
        if memo is None:
            memo = _checked(_decode_members, self)
            force_setattr(self, "_memo", memo)
        return memo

    def __getitem__(self, key: str) -> Any:
        memo = self._members()
        value = memo[key]
        if type(value) is msgspec.Raw:
            value = memo[key] = frozen(_decode_any(value))
        return value

    def path(self, path: str, default: object = None) -> Any:
        """Like `KubeObject.path`, but uses and caches this view's decoded values."""
        return _at_path(self, path, default)

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

    A source sends it in a DELETED event, so that the object is dropped from the cache and the watch continues from
    this version. If not even the name is known, it is sent in a BOOKMARK. The event may replace an initial event.
    """

    @classmethod
    def of(cls, key: str, resource_version: str) -> UndecodableObject:
        """Create one from a key, `"namespace/name"` or `"name"`, or `""` if the name is unknown."""
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, "resourceVersion": resource_version}
        raw = encode({"metadata": metadata | ({"namespace": namespace} if namespace else {})})
        return cls(key, sys.intern(namespace), "", resource_version, "", "", {}, (), raw)


@overload
def view(obj: KubeObject) -> ObjectView: ...
@overload
def view(obj: T) -> T: ...
def view(obj: object) -> object:
    """Return a new view of an object for one reader.

    For a value that is not an object, return the value without its key.
    """
    if type(obj) is KubeObject:
        return ObjectView(*fields_of(obj))
    if isinstance(obj, KeyedValue):
        return view(obj.value)
    return obj._view() if isinstance(obj, KubeObject) else obj


def _at_path(source: bytes | Mapping[str, object], path: str, default: object) -> object:
    parsed = parse_path(path)
    value = parsed.value(source, default)
    if parsed.is_multiple:
        return [frozen(element) for element in value]  # the list itself is the caller's own
    return value if value is default else frozen(value)


def _checked(decode: Callable[[bytes], T], obj: KubeObject) -> T:
    try:
        return decode(obj.raw)
    except MALFORMED as error:
        raise DecodeError(f"cannot read {obj!r}: {error}") from error


def _aware(moment: datetime | None) -> datetime | None:
    # The API server always writes Z. A program's own dict may not, and means UTC.
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
