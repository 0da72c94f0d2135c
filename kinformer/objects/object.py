"""The object: immutable, invisible to the garbage collector, decoded when it is read.

A cache of a million objects must not make a collection slower, so a `KubeObject` is a struct that the collector does
not track. The price is a rule: no slot of it ever holds anything that could lead back to it, for such a cycle would
never be freed. It holds text, a dict of text, a tuple of flat structs and bytes; all else is decoded afresh when it is
asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import msgspec

from kinformer.exceptions import MALFORMED, DecodeError
from kinformer.objects.json_path import parse_path, path_value
from kinformer.objects.meta import OwnerReference, decode_owner_references
from kinformer.objects.models import decode_as
from kinformer.objects.types import M_co

__all__ = ["KubeObject", "ObjectView", "OwnerReference", "decode_bookmark", "fields_of", "view"]

T = TypeVar("T")

if TYPE_CHECKING:
    # StructMeta and ABCMeta do not go together at run time, where `Mapping.register` says it; type checkers read this.
    class _Base(Mapping[str, Any]):
        __struct_fields__: tuple[str, ...]

        def __init__(self, *fields: Any) -> None: ...
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


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_annotated = msgspec.json.Decoder(_Annotated).decode
_decode_timed = msgspec.json.Decoder(_Timed).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_whole = msgspec.json.Decoder(dict[str, Any]).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class KubeObject(_Base, Generic[M_co], frozen=True, gc=False, eq=False):
    """One object of the API: an immutable mapping over its JSON, with the parts of its identity at hand.

    Objects come from `from_dict`, `from_json`, informers and clients; the constructor is no part of the contract.

    `obj["spec"]` and its kin decode at each read, so what they return belongs to the caller: change it freely, it
    reaches neither the cache nor anybody else. Attributes cost nothing, but for `annotations`, `generation` and the
    two timestamps, which read the JSON. Reads are safe from any thread.

    Equal are objects of the same uid and resourceVersion, whatever they were decoded from; without these two, objects
    of the same bytes. A mapping that is no KubeObject is never equal; compare it with `to_dict()`.
    """

    # Text, shared text, a shared dict of text, a shared tuple of flat structs, bytes: nothing here can lead back.
    key: str
    namespace: str
    uid: str
    resource_version: str
    api_version: str
    kind: str
    _labels: dict[str, str]
    owner_references: tuple[OwnerReference, ...]
    _data: bytes

    @classmethod
    def from_json(cls, raw: bytes | bytearray | memoryview | str) -> KubeObject:
        """An object of its JSON, which is kept byte for byte.

        Raises:
            DecodeError: this is no JSON, or no object with a `metadata.name`.
        """
        data = raw.encode() if isinstance(raw, str) else bytes(raw)
        try:
            head = _decode_head(data)
            data.decode()  # what msgspec skips it does not check to be UTF-8
            owners = decode_owner_references(head.metadata.owner_references)
        except MALFORMED as error:
            raise DecodeError(f"no Kubernetes object: {error}: {data[:80]!r}") from error
        metadata = head.metadata
        if not metadata.name:
            raise DecodeError(f"no Kubernetes object: metadata.name is missing: {data[:80]!r}")
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
    def from_dict(cls, document: Mapping[str, Any]) -> KubeObject:
        """An object of a dict, as YAML and JSON give it; the dict is copied by encoding it.

        Raises:
            DecodeError: the dict holds what JSON cannot, or has no `metadata.name`.
        """
        if isinstance(document, KubeObject):
            return cls.from_json(document.raw)
        try:
            data = _encode(dict(document))
        except (TypeError, ValueError, RecursionError) as error:
            raise DecodeError(f"no Kubernetes object: {error}") from error
        return cls.from_json(data)

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.key[len(self.namespace) + 1 :] if self.namespace else self.key

    @property
    def raw(self) -> bytes:
        """The JSON as it is kept: without managedFields unless these were asked for."""
        return self._data

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels, read-only; `dict(obj.labels)` for a copy. Objects of the same labels share one dict behind it."""
        return MappingProxyType(self._labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, read-only, decoded at each read."""
        return MappingProxyType(_checked(_decode_annotated, self).metadata.annotations or {})

    @property
    def generation(self) -> int:
        """`metadata.generation`, which the server raises with every change of the spec; 0 where there is none."""
        return _checked(_decode_timed, self).metadata.generation or 0

    @property
    def creation_timestamp(self) -> datetime | None:
        """When the server made the object, aware; None where it did not say."""
        return _aware(_checked(_decode_timed, self).metadata.creation_timestamp)

    @property
    def deletion_timestamp(self) -> datetime | None:
        """When the object was, or is to be, deleted, aware; None while nobody asked for it."""
        return _aware(_checked(_decode_timed, self).metadata.deletion_timestamp)

    def path(self, path: str, default: Any = None) -> Any:
        """What stands at a JSON path, such as `"spec.nodeName"` or `"metadata.labels['app.kubernetes.io/name']"`.

        `default` is returned where nothing (or null) stands there. A path with a wildcard,
        `"spec.containers[*].image"`, gives the list of all it finds, perhaps an empty one.

        Raises:
            ConfigError: the path does not parse; the message names the position.
        """
        return path_value(self.raw, path, default)

    def to_dict(self) -> dict[str, Any]:
        """The whole object as a fresh dict, the caller's to change."""
        return _checked(_decode_whole, self)

    def decode(self, type: type[T]) -> T:  # noqa: A002 - the word of msgspec and pydantic
        """The object as a new instance of `type`.

        `type` is a msgspec Struct, a dataclass or a TypedDict with the names of the wire, a pydantic model, or a model
        of kubernetes_asyncio. Fields that the type does not have are left out.

        Raises:
            DecodeError: the object does not fit the type; `__cause__` has the details.
        """
        return decode_as(self.raw, type, self)

    @property
    def model(self) -> M_co:
        """The object as an instance of the model that its informer was asked for with, ``model=`` of `for_resource`.

        Raises:
            AttributeError: It was asked for without one; `decode` needs none.
            DecodeError: The object does not fit the model; the text names the resource, the key and the field.
        """
        raise AttributeError(f"{self!r} was read without a model: for_resource(..., model=...), or decode(...)")

    def _members(self) -> Mapping[str, Any]:
        # The values at the top, not yet decoded.
        return _checked(_decode_members, self)

    def __getitem__(self, key: str) -> Any:
        return _decode_any(self._members()[key])

    @overload
    def get(self, key: str, /) -> Any: ...
    @overload
    def get(self, key: str, /, default: Any) -> Any: ...
    def get(self, key: str, /, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """`obj[key]`, or `default` where there is no such key."""
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
        """The keys at the top: apiVersion, kind, metadata and so on."""
        return self._members().keys()

    def items(self) -> ItemsView[str, Any]:
        """The keys and values at the top, of a fresh `to_dict()`."""
        return self.to_dict().items()

    def values(self) -> ValuesView[Any]:
        """The values at the top, of a fresh `to_dict()`."""
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
        # Said here because the one that msgspec's Struct has is no inverse of the one above.
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        if self.uid and self.resource_version:
            return hash((self.uid, self.resource_version))
        return hash(self.raw)

    def __repr__(self) -> str:
        version = f" rv={self.resource_version}" if self.resource_version else ""
        return f"<{self.kind or 'object'} {self.key or '(no name)'}{version}>"

    def __copy__(self) -> KubeObject:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> KubeObject:
        return self

    def _view(self) -> ObjectView:
        head = (self.key, self.namespace, self.uid, self.resource_version, self.api_version, self.kind)
        return ObjectView(*head, self._labels, self.owner_references, self.raw)


Mapping.register(KubeObject)  # pyright: ignore[reportAttributeAccessIssue]

_force_setattr = cast("Callable[[KubeObject, str, Any], None]", msgspec.structs.force_setattr)
fields_of = cast("Callable[[KubeObject], tuple[Any, ...]]", msgspec.structs.astuple)
"""What an object is made of: `ObjectView(*fields_of(obj))` is its view, for a loop that has no time to call `view`."""
_FIELDS = len(KubeObject.__struct_fields__)


class ObjectView(KubeObject, frozen=True, gc=True, eq=False):
    """An object as a handler gets it with an event: the same value, which remembers what it decoded.

    Unlike the object in the cache it is tracked by the garbage collector, so it may hold what a program does to what
    it read: `view["spec"]` is the same dict at each read, also after a change, and nobody else sees that change.
    `to_dict()`, `decode()` and `raw` stay as the server sent it. Equal to, and hashed as, the object it was made of.
    """

    # None, or key -> value, where a value that nobody has read yet is msgspec.Raw.
    _memo: dict[str, Any] | None = None

    def _members(self) -> dict[str, Any]:
        memo = self._memo
        if memo is None:
            memo = dict(super()._members())
            _force_setattr(self, "_memo", memo)
        return memo

    def __getitem__(self, key: str) -> Any:
        memo = self._members()
        value = memo[key]
        if type(value) is msgspec.Raw:
            value = memo[key] = _decode_any(value)
        return value

    def path(self, path: str, default: Any = None) -> Any:
        """As `KubeObject.path`, but read from what this view has decoded, and remembered there."""
        return parse_path(path).value(self, default)

    def _decoded(self) -> dict[str, Any]:
        return {key: self[key] for key in self._members()}

    def items(self) -> ItemsView[str, Any]:
        """The keys and values at the top, as `view[key]` gives them."""
        return self._decoded().items()

    def values(self) -> ValuesView[Any]:
        """The values at the top, as `view[key]` gives them."""
        return self._decoded().values()

    def __copy__(self) -> ObjectView:
        return view(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> ObjectView:
        return view(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectView, fields_of(self)[:_FIELDS]


class UndecodableObject(KubeObject, frozen=True, gc=False, eq=False):
    """What is left of an object whose new state cannot be kept: its key and version, in the place of a last state.

    A source gives it in a DELETED event, so that whoever holds the object lets go of it and goes on from this version;
    where not even the name is known, in a BOOKMARK. The event may stand in the place of an initial one.
    """

    @classmethod
    def of(cls, key: str, resource_version: str) -> UndecodableObject:
        """Of `"namespace/name"` or `"name"`; `""` where there is no name."""
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, "resourceVersion": resource_version}
        raw = _encode({"metadata": metadata | ({"namespace": namespace} if namespace else {})})
        return cls(key, sys.intern(namespace), "", resource_version, "", "", {}, (), raw)


@overload
def view(obj: KubeObject) -> ObjectView: ...
@overload
def view(obj: T) -> T: ...
def view(obj: Any) -> Any:
    """A view of an object for one handler, with nothing decoded yet; 0.2 us.

    What is no KubeObject, as a source of the user's own may give, is returned as it is.
    """
    if type(obj) is KubeObject:
        return ObjectView(*fields_of(obj))
    return obj._view() if isinstance(obj, KubeObject) else obj


def decode_bookmark(raw: bytes | msgspec.Raw) -> KubeObject:
    """The object of a BOOKMARK: kind, apiVersion, resourceVersion and annotations, with the key `""`.

    Servers fill the rest of it with zero values that fit no type (`"versions": null`), so it is dropped unread.

    Raises:
        DecodeError: this is no object, or its metadata is malformed.
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
    # The API server always says Z; a dict of the user's own may not, and means it.
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
