"""The kinds that a server serves: one `ResourceType` for each group, version and plural, and the registry of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kinformer.testing.kinds.schema import ANY, Node
from kinformer.testing.kinds.status import StatusError, missing_resource, not_found, page_not_found

__all__ = ["ALL_VERBS", "Registry", "ResourceType", "Subresource", "resource_name", "selected_name"]

# The order in which discovery lists them (endpoints/installer.go sorts; CRDs keep the order of their own handler).
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")

Convert = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object: `kind` is of the body, in another group where `group_version` says so."""

    name: str
    kind: str
    verbs: tuple[str, ...] = STATUS_VERBS
    group: str = ""
    version: str = ""


# Paths of one value, of which the first that is not empty counts; without a path it is always empty.
FieldPaths = tuple[tuple[str, ...], ...]


@dataclass(slots=True, eq=False)
class ResourceType:
    """One served kind in one version.

    Versions of one kind share a `storage_name`, under which objects are kept in the form of `storage_version`;
    `to_storage` and `from_storage` convert (None: only the apiVersion differs).
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    builtin: bool = True
    generation: bool = False  # metadata.generation is kept, and grows with the spec
    create_on_update: bool = False  # a PUT of a missing object creates it
    unconditional_update: bool = True  # a PUT without a resourceVersion overwrites
    returns_deleted: bool = False  # DELETE answers with the object, not with a Status
    selectable: Mapping[str, FieldPaths] = field(default_factory=dict)  # field label -> where its value is
    selects_namespace: bool = True  # `metadata.namespace` is a field label
    node: Node = ANY  # the shape of its objects
    columns: tuple[Mapping[str, Any], ...] = ()  # of its tables; for a CRD its additionalPrinterColumns
    scale: Mapping[str, str] | None = None  # paths of the scale subresource, of a CRD
    schema: Mapping[str, Any] | None = None
    storage_name: str = ""
    storage_version: str = ""
    to_storage: Convert | None = None
    from_storage: Convert | None = None
    terminating: bool = False  # its definition is being deleted: nothing new is made
    initializing_until: float = 0.0  # the loop's time; reads of collections are told to wait until then

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.storage_name = self.storage_name or (f"{self.group}/{self.plural}" if self.group else self.plural)
        self.storage_version = self.storage_version or self.api_version

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """`v1/pods`, `apps/v1/deployments`."""
        return f"{self.api_version}/{self.plural}"

    @property
    def is_storage(self) -> bool:
        """True where this version is the one in which objects are kept."""
        return self.api_version == self.storage_version

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of this name, or None."""
        return next((one for one in self.subresources if one.name == name), None)

    @property
    def has_status(self) -> bool:
        """True where `/status` is written apart from the rest."""
        return self.subresource("status") is not None

    def key(self, namespace: str, name: str) -> str:
        """The key in the collection: `namespace/name`, or the name."""
        return f"{namespace}/{name}" if self.namespaced else name

    def not_found(self, name: str) -> StatusError:
        """404 for one object of this kind."""
        return not_found(self.group, self.plural, name)


def resource_name(resource: Any) -> str:
    """`"apps/v1/deployments"` from that string, or from a GroupVersionResource."""
    if isinstance(resource, str):
        return resource
    group, version, plural = resource.group, resource.version, resource.resource
    return f"{group}/{version}/{plural}" if group else f"{version}/{plural}"


def selected_name(resource: Any) -> str:
    """`resource_name` of what selects requests: one, or `"*"`. Raises ValueError for what no request has."""
    name = resource_name(resource)
    if "/" not in name and name != "*":
        raise ValueError(
            f"{name!r} is not a resource: write it with its version, as in 'v1/pods' or 'apps/v1/deployments'"
        )
    return name


class Registry:
    """All kinds served at the moment, by path and by kind."""

    def __init__(self, types: Iterable[ResourceType] = ()) -> None:
        self._by_name: dict[str, ResourceType] = {}
        self._by_kind: dict[tuple[str, str], ResourceType] = {}
        for one in types:
            self.add_type(one)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._by_name.values())

    def add_type(self, resource: ResourceType) -> None:
        """Serves it from now on, in place of one of the same name."""
        self._by_name[resource.name] = resource
        self._by_kind[resource.api_version, resource.kind] = resource

    def remove_type(self, resource: ResourceType) -> None:
        """Serves it no more."""
        self._by_name.pop(resource.name, None)
        self._by_kind.pop((resource.api_version, resource.kind), None)

    def get(self, api_version: str, plural: str) -> ResourceType | None:
        """Find a resource by group/version and plural; None if there is none."""
        return self._by_name.get(f"{api_version}/{plural}")

    def of_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """Find a resource by apiVersion and kind of an object; None if there is none."""
        return self._by_kind.get((api_version, kind))

    def find(self, resource: Any) -> ResourceType:
        """Finds a resource by `"v1/pods"` or a GroupVersionResource. Raises LookupError if it is not served."""
        name = resource_name(resource)
        found = self._by_name.get(name)
        if found is None:
            raise LookupError(f"the server does not serve {name!r}; register it, or its CRD, first")
        return found

    def at_path(self, group: str, version: str, plural: str) -> ResourceType:
        """The resource of a request path. Raises the server's 404 if there is none."""
        api_version = f"{group}/{version}" if group else version
        found = self.get(api_version, plural)
        if found is not None:
            return found
        raise self.not_served(group)

    def not_served(self, group: str) -> StatusError:
        """404 for what a group does not serve: as JSON for a built-in group, else in plain text."""
        builtin = any(one.builtin for one in self if one.group == group)
        return missing_resource() if builtin else page_not_found()

    def versions(self) -> dict[str, list[str]]:
        """The versions of each group, in order of registration."""
        groups: dict[str, list[str]] = {}
        for one in self:
            versions = groups.setdefault(one.group, [])
            if one.version not in versions:
                versions.append(one.version)
        return groups
