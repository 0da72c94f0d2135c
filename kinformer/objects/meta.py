"""Identity of objects: resources, keys, owners and resourceVersions."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from kinformer.exceptions import ConfigError, KeyFuncError
from kinformer.objects.spellings import parts_of, resource_hint

__all__ = [
    "DeletedFinalStateUnknown",
    "GroupVersionResource",
    "OwnerReference",
    "check_namespace",
    "compare_resource_versions",
    "decode_owner_references",
    "is_namespace_name",
    "is_path_segment",
    "meta_namespace_key",
    "split_meta_namespace_key",
    "version_number",
    "version_path",
]

_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # apimachinery, pkg/util/validation, IsDNS1123Label
_RESOURCE_VERSION = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True, slots=True, order=True)
class GroupVersionResource:
    """A resource of the API: `GroupVersionResource("apps", "v1", "deployments")`. The core group is `""`.

    Hashable and ordered. `str()` returns the form that `parse` accepts.

    Raises:
        ConfigError: A part is not a valid API name.
    """

    group: str
    version: str
    resource: str

    def __post_init__(self) -> None:
        if self.group and not _GROUP.fullmatch(self.group):
            raise ConfigError(
                f"resource {str(self)!r}: invalid API group {self.group!r}, expected one such as 'apps' or 'batch'"
            )
        if not _LABEL.fullmatch(self.version):
            raise ConfigError(
                f"resource {str(self)!r}: invalid API version {self.version!r}, expected one such as 'v1' or 'v1beta1'"
            )
        if not _LABEL.fullmatch(self.resource):
            raise ConfigError(
                f"resource {str(self)!r}: invalid resource name {self.resource!r}, expected a lower-case plural such as"
                f" 'pods'{resource_hint(str(self))}"
            )

    @classmethod
    def parse(cls, text: str | GroupVersionResource) -> GroupVersionResource:
        """Parse `"v1/pods"` or `"apps/v1/deployments"`. A GroupVersionResource is returned unchanged.

        Raises:
            ConfigError: The string has neither form. The message quotes it, and has the right form of a kind, or of
                another name of a resource.
        """
        if isinstance(text, GroupVersionResource):
            return text
        if not isinstance(text, str):
            raise ConfigError(f"a resource must be a string such as 'v1/pods' or 'apps/v1/deployments', got {text!r}")
        group, version, name = parts_of(text)
        if version is not None and "/" in text and str(resource := cls(group or "", version, name)) == text:
            return resource
        hint = resource_hint(text)
        raise ConfigError(f"invalid resource {text!r}: expected the form 'v1/pods' or 'apps/v1/deployments'{hint}")

    @property
    def api_version(self) -> str:
        """The apiVersion of objects of this resource: `"v1"`, or `"apps/v1"`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path on the API server, such as `"/api/v1/namespaces/default/pods/web-1/log"`.

        Without a namespace (None or `""`), it is the path for all namespaces or for a cluster-scoped resource. With
        `name=None`, it is the path of the collection.

        Raises:
            ConfigError: A name would become another path: it is empty, `.` or `..`, or contains `/` or `%`. Upstream:
                client-go, rest/request.go, IsValidPathSegmentName. The parts of a subresource are checked alike.
        """
        parts = [version_path(self)]
        if namespace:
            parts += ["namespaces", _segment(namespace, "namespace", self)]
        parts.append(self.resource)
        if name is not None:
            parts.append(_segment(name, "name", self))
        if subresource is not None:
            if name is None:
                raise ConfigError(f"the subresource {subresource!r} of {self} needs the name of an object")
            parts += [_segment(part, "subresource", self) for part in subresource.split("/")]
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.api_version}/{self.resource}"


def version_path(resource: GroupVersionResource) -> str:
    """Return the path of a resource's group version: `"/api/v1"`, `"/apis/apps/v1"`."""
    return f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"


def is_namespace_name(name: str) -> bool:
    """Return True if a namespace can have this name."""
    return _NAMESPACE.fullmatch(name) is not None


def is_path_segment(name: str) -> bool:
    """Return True if an object can have this name (client-go, rest/request.go, IsValidPathSegmentName)."""
    return name not in ("", ".", "..") and "/" not in name and "%" not in name


def check_namespace(name: str, resource: GroupVersionResource) -> str:
    """Return the name of a namespace.

    Raises:
        ConfigError: No namespace can have this name, so a list of its objects would be empty for ever.
    """
    if not isinstance(name, str) or not is_namespace_name(name):
        raise ConfigError(
            f"invalid namespace {name!r} for {resource}: use lowercase letters, digits and '-', at most 63 characters, "
            "with a letter or a digit at both ends"
        )
    return name


def _segment(name: str, role: str, resource: GroupVersionResource) -> str:
    """Return a name as one segment of a path."""
    if not isinstance(name, str) or not is_path_segment(name):
        raise ConfigError(
            f"invalid {role} {name!r} for {resource}: expected a name without '/' and '%', not '.' or '..'"
        )
    try:
        return quote(name, safe=":")
    except UnicodeEncodeError as error:
        raise ConfigError(f"invalid {role} {name!r} for {resource}: {error.reason}") from None


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A reference to an owner (apimachinery, pkg/apis/meta/v1/types.go). Objects with the same owners share it."""

    api_version: str = ""
    """The apiVersion of the owner, such as `"apps/v1"`."""
    kind: str = ""
    """The kind of the owner, such as `"ReplicaSet"`."""
    name: str = ""
    """The name of the owner, which is in the namespace of the object or cluster-scoped."""
    uid: str = ""
    """The uid of the owner. Another object with the same name is not the owner."""
    controller: bool = False
    """True for the one owner that manages the object."""
    block_owner_deletion: bool = False
    """True if a foreground deletion of the owner waits until the object is gone."""


class _OwnerReferenceOnTheWire(msgspec.Struct, gc=False, rename="camel"):
    # As on the wire. The two flags are pointers in Go, so they may be absent, null, true or false.
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


_decode_owners = msgspec.json.Decoder(list[_OwnerReferenceOnTheWire] | None).decode


def decode_owner_references(raw: bytes | msgspec.Raw) -> tuple[OwnerReference, ...]:
    """Decode the JSON of `metadata.ownerReferences`. Returns no owners if it is absent or null."""
    if not raw:
        return ()
    owners = _decode_owners(raw) or ()
    return tuple(
        OwnerReference(
            sys.intern(owner.api_version),
            sys.intern(owner.kind),
            owner.name,
            owner.uid,
            bool(owner.controller),
            bool(owner.block_owner_deletion),
        )
        for owner in owners
    )


class DeletedFinalStateUnknown(NamedTuple):
    """A tombstone: the deletion of the object was missed, so `object` is the last known state.

    Upstream: client-go, tools/cache/delta_fifo.go.
    """

    key: str
    """The key of the deleted object."""
    object: Any
    """Its last known state."""


def meta_namespace_key(obj: Any) -> str:  # Any: a store with this key function accepts any objects
    """Return the key of an object: `"namespace/name"`, or `"name"` if it is cluster-scoped.

    Accepts kinformer's objects (including tombstones), dicts, and any object whose `metadata` is a mapping or has the
    attributes `name` and `namespace`, such as the models of kubernetes_asyncio. Upstream: client-go,
    tools/cache/store.go, DeletionHandlingMetaNamespaceKeyFunc.

    Raises:
        KeyFuncError: The object has no metadata or no name. The message says which.
    """
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.key
    metadata: object
    if isinstance(obj, dict):
        metadata = obj.get("metadata")
    else:
        # A KubeObject has its key. Reading its metadata would decode it.
        metadata = getattr(obj, "metadata", None)
        if metadata is None:
            key = getattr(obj, "key", None)
            if isinstance(key, str) and key:
                return key
            if isinstance(obj, Mapping):
                metadata = obj.get("metadata")
    if metadata is None:
        raise KeyFuncError(f"no key for an object of type {type(obj).__name__}: it has no metadata", obj)
    if isinstance(metadata, Mapping):
        name, namespace = metadata.get("name"), metadata.get("namespace")
    else:
        name, namespace = getattr(metadata, "name", None), getattr(metadata, "namespace", None)
    if not isinstance(name, str) or not name:
        raise KeyFuncError(
            f"no key for an object of type {type(obj).__name__}: metadata.name is "
            + ("missing" if name is None or name == "" else f"{name!r}, expected a string"),
            obj,
        )
    if namespace is not None and not isinstance(namespace, str):
        raise KeyFuncError(
            f"no key for an object of type {type(obj).__name__}: metadata.namespace is {namespace!r}, not a string",
            obj,
        )
    return f"{namespace}/{name}" if namespace else name


def split_meta_namespace_key(key: str) -> tuple[str, str]:
    """Split a key into the namespace (`""` for a cluster-scoped object) and the name.

    Upstream: client-go, tools/cache/store.go, SplitMetaNamespaceKey.

    Raises:
        ValueError: The key has more than one slash.
    """
    parts = key.split("/")
    if len(parts) > 2:
        raise ValueError(f"the key {key!r} has more than one slash, expected 'namespace/name' or 'name'")
    return (parts[0], parts[1]) if len(parts) == 2 else ("", key)


def compare_resource_versions(a: str, b: str) -> int:
    """Return -1, 0 or 1 if resourceVersion `a` is older than, equal to or newer than `b`.

    Both must be from the same resource on the same server. KEP-5504 allows this comparison: they are decimal numbers
    of up to 128 bits, so the longer one is greater, and two of equal length compare as strings. Upstream:
    apimachinery, pkg/util/resourceversion.

    Raises:
        ValueError: One of them is not a positive decimal number without leading zeros (such as `""` and `"0"`).
    """
    for version in (a, b):
        if not isinstance(version, str) or not _RESOURCE_VERSION.fullmatch(version):
            raise ValueError(f"the resourceVersion {version!r} cannot be compared, expected a decimal number from 1 up")
    if len(a) != len(b):
        return -1 if len(a) < len(b) else 1
    return (a > b) - (a < b)


def version_number(resource_version: str) -> int:
    """Return a resourceVersion as a number (KEP-5504). Raises ValueError if it is not a number."""
    if not (resource_version.isascii() and resource_version.isdigit()) or resource_version.startswith("0"):
        raise ValueError(f"resourceVersion {resource_version!r} is not a number, so it cannot be waited for")
    return int(resource_version)
