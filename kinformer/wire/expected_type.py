"""The type of one resource's objects, which each list, object and bookmark must have.

An answer of 200 proves little: a proxy, a cache or a backend that is being replaced may send the objects of another
resource, or none. A list that is believed replaces the whole cache. So its header and its items are compared with the
resource that was requested. Objects that look like earlier ones have been compared with them, so this costs nothing
per object.
"""

from __future__ import annotations

from sys import intern
from typing import NoReturn

from kinformer.exceptions import WatchError
from kinformer.objects.accessors import ends_initial_events
from kinformer.objects.object import KubeObject
from kinformer.wire.list_header import ListHeader

__all__ = ["ExpectedType", "ForeignTypeError"]

_METADATA = ("PartialObjectMetadata", "meta.k8s.io/v1")


class ForeignTypeError(WatchError):
    """An answer belongs to another resource or namespace, or lacks a kind or version that the server used to send.

    Attributes:
        kind: The kind of the objects or of the list, if only the kind differs, otherwise "".
    """

    def __init__(self, message: str, *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class ExpectedType:
    """The kind, apiVersion and namespace of one resource's objects.

    The kind of a custom resource is that of the first object. A later object of another kind is refused until `adopt`
    is called. A missing kind, apiVersion or resourceVersion is accepted from a server that has never sent one.

    Args:
        api_version: The apiVersion of the objects.
        kind: The kind of a built-in resource, or "" for another resource.
        namespace: The namespace of all objects, or None for any.
        metadata_only: True if objects may also be PartialObjectMetadata.

    Attributes:
        kind, api_version: The values of the objects so far. An object with the same strings needs no check.
        namespace: The argument.
    """

    def __init__(
        self, api_version: str, kind: str = "", *, namespace: str | None = None, metadata_only: bool = False
    ) -> None:
        self.kind = ""
        self.api_version = ""
        self._own = (kind, api_version)
        self._list_kind = f"{kind}List" if kind else ""
        self._is_built_in = bool(kind)
        self.namespace = namespace
        self._metadata_only = metadata_only
        self._chosen: tuple[str, str] | None = None  # one of two, if there are two
        self._sent: set[str] = set()  # the fields that the server has sent

    @property
    def may_change(self) -> bool:
        """True if the kind is that of a custom resource, whose definition may be created again with another one."""
        return not self._is_built_in

    def begin(self) -> bool:
        """Begin a list or an initial stream, and return True if its objects may be of another type than before.

        A server that has sent whole objects may now send only their metadata.
        """
        if self._metadata_only:
            self._forget()
        return self._metadata_only

    def adopt(self, kind: str) -> None:
        """Expect the kind that discovery has for this resource."""
        if self.may_change and kind != self._own[0]:
            self._own = (intern(kind), self._own[1])
            self._list_kind = ""
            self._forget()

    def _forget(self) -> None:
        """Forget the objects so far, so that the next one is checked."""
        self.kind = self.api_version = ""
        self._chosen = None

    def own_namespace(self, namespace: str) -> str:
        """Return the namespace of an object, interned.

        Raises:
            ForeignTypeError: Another namespace was requested.
        """
        if self.namespace is not None and namespace != self.namespace:
            actual = f"an object of namespace {namespace!r}" if namespace else "an object without a namespace"
            raise ForeignTypeError(f"expected objects of namespace {self.namespace!r}, got {actual}")
        return intern(namespace)

    def check(self, kind: str, api_version: str, name: object = "") -> None:
        """Check the kind and the apiVersion of an object, "" for one that it does not have.

        Raises:
            ForeignTypeError: The object is of another type.
        """
        if not (kind or api_version):
            return
        for own in self._types():
            if kind in ("", own[0] or kind) and api_version in ("", own[1]):
                break
        else:
            self._refuse(kind, api_version, f" {name!r}" if name else "")
        if kind:
            if own[1] == self._own[1]:
                self._own = own = (kind, own[1])
            self.kind = kind
            self._sent.add("kind")
        if api_version:
            self.api_version = api_version
            self._sent.add("apiVersion")
        self._chosen = own

    def check_event(self, obj: KubeObject) -> None:
        """Check the object of an event, whose type has been checked if it has one.

        Raises:
            ForeignTypeError: The object of this event has no kind or no apiVersion, and earlier ones had one.
        """
        self._require(f"the object {obj.name!r}", kind=obj.kind, apiVersion=obj.api_version)

    def check_bookmark(self, bookmark: KubeObject) -> None:
        """Check a bookmark. The one that ends the initial events stands for a list, so it must have a kind.

        Raises:
            ForeignTypeError: It belongs to another resource.
        """
        if bookmark.kind or bookmark.api_version:
            self.check(bookmark.kind, bookmark.api_version)
        if ends_initial_events(bookmark):
            self._require("the end bookmark", kind=bookmark.kind, apiVersion=bookmark.api_version)

    def check_list(self, header: ListHeader) -> None:
        """Check the header of a list, when its items have been read.

        Raises:
            ForeignTypeError: It is a list of another resource, or incomplete.
        """
        kind, api_version = header.kind, header.api_version
        fields = {"kind": kind, "apiVersion": api_version, "resourceVersion": header.resource_version}
        self._require("the list", **fields)
        is_metadata = self._metadata_only and (kind, api_version) == (f"{_METADATA[0]}List", _METADATA[1])
        if not is_metadata:
            own_kind, own_version = self._own
            if api_version not in ("", own_version):
                self._refuse(kind, api_version, "")
            if kind and self._list_kind and kind not in (self._list_kind, f"{own_kind}List"):
                self._refuse(kind, own_version, "")
            self._list_kind = self._list_kind or kind  # a definition may give its lists any kind
        self._sent.update(name for name, value in fields.items() if value)

    def _types(self) -> tuple[tuple[str, str], ...]:
        if self._metadata_only:
            return (self._chosen,) if self._chosen else (_METADATA, self._own)
        return (self._own,)

    def _require(self, what: str, **fields: str) -> None:
        for name, value in fields.items():
            if not value and name in self._sent:
                raise ForeignTypeError(
                    f"expected {self._wanted()}, but {what} has no {name}, which the server has sent before"
                )

    def _wanted(self) -> str:
        kind, version = self._chosen or self._own
        return f"{kind or 'objects'} of {version}"

    def _refuse(self, kind: str, api_version: str, name: str) -> NoReturn:
        is_version = api_version in ("", self._own[1])
        actual = f"{kind or 'an object'} of {api_version or self._own[1]}"
        raise ForeignTypeError(f"expected {self._wanted()}, got {actual}{name}", kind=kind if is_version else "")
