"""The kinds that a server serves: a `ResourceType` for each group, version and plural, and their registry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kinformer.apiserver.selecting.fields import FieldPaths
from kinformer.apiserver.status import StatusError, missing_resource, not_found, page_not_found
from kinformer.kinds.builtin import parse_resource
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.spellings import is_core_version
from kinformer.testing.kinds.schema import ANY, SchemaNode

__all__ = ["ALL_VERBS", "Registry", "ResourceType", "Subresource", "group_version", "selected_name", "version_priority"]

# In the order of discovery (endpoints/installer.go sorts, but CRDs keep the order of their own handler).
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")

_STAGES = ("", "beta", "alpha")
_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")

Convert = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object. `kind` is the kind of the body, in `group_version` if that is set."""

    name: str
    kind: str
    verbs: tuple[str, ...] = STATUS_VERBS
    group: str = ""
    version: str = ""


@dataclass(slots=True, eq=False)
class ResourceType:
    """A served kind in one version.

    All versions of a kind share a `storage_name`, under which objects are stored as `storage_version`. `to_storage`
    and `from_storage` convert. None means that only the apiVersion differs.

    `Lifecycle` sets `terminating` and `initializing_until` of a custom kind when its definition changes. The rest stays
    the same.
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
    generation: bool = False  # metadata.generation is set, and grows with the spec
    create_on_update: bool = False  # a PUT of a missing object creates it
    unconditional_update: bool = True  # a PUT without a resourceVersion overwrites
    returns_deleted: bool = False  # DELETE returns the object instead of a Status
    selectable: Mapping[str, FieldPaths] = field(default_factory=dict)  # field label -> paths of its value
    selects_namespace: bool = True  # `metadata.namespace` is a field label
    node: SchemaNode = ANY  # the shape of its objects
    columns: tuple[Mapping[str, Any], ...] = ()  # the additionalPrinterColumns of a CRD
    scale: Mapping[str, str] | None = None  # paths of a CRD's scale subresource
    schema: Mapping[str, Any] | None = None
    storage_name: str = ""
    storage_version: str = ""
    to_storage: Convert | None = None
    from_storage: Convert | None = None
    deprecation: str = ""  # the warning of each request
    terminating: bool = False  # its definition is being deleted, so nothing can be created
    initializing_until: float = 0.0  # loop time until which reads of collections get a 429

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.storage_name = self.storage_name or (f"{self.group}/{self.plural}" if self.group else self.plural)
        self.storage_version = self.storage_version or self.api_version

    @property
    def api_version(self) -> str:
        """The apiVersion: `v1`, `apps/v1`."""
        return group_version(self.group, self.version)

    @property
    def name(self) -> str:
        """The resource with its version: `v1/pods`, `apps/v1/deployments`."""
        return f"{self.api_version}/{self.plural}"

    @property
    def is_storage(self) -> bool:
        """True if objects are stored in this version."""
        return self.api_version == self.storage_version

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource with this name, or None."""
        return next((sub for sub in self.subresources if sub.name == name), None)

    @property
    def has_status(self) -> bool:
        """True if `/status` is a subresource."""
        return self.subresource("status") is not None

    @property
    def replicas_path(self) -> str:
        """The path of the number that a Scale writes."""
        path: str = (self.scale or {}).get("specReplicasPath", ".spec.replicas")
        return path.strip(".")

    def key(self, namespace: str, name: str) -> str:
        """Return the key in the collection: `namespace/name`, or the name."""
        return f"{namespace}/{name}" if self.namespaced else name

    def not_found(self, name: str) -> StatusError:
        """Return a 404 for one object of this kind."""
        return not_found(self.group, self.plural, name)


def group_version(group: str, version: str) -> str:
    """Return the apiVersion of a group and a version: `v1`, `apps/v1`."""
    return f"{group}/{version}" if group else version


def selected_name(resource: str | GroupVersionResource) -> str:
    """Return the name of a request selector: a resource, `"*"`, or a subresource such as `"v1/pods/status"`.

    Raises:
        ConfigError: No request can have it. The message has the right name.
    """
    name = str(resource)
    if name != "*":
        depth = 2 if is_core_version(name.partition("/")[0]) else 3
        parse_resource("/".join(name.split("/")[:depth]))
    return name


class Registry:
    """All currently served kinds, by path and by kind. `Lifecycle` adds and removes those of definitions."""

    def __init__(self, types: Iterable[ResourceType] = ()) -> None:
        self._by_name: dict[str, ResourceType] = {}
        self._by_kind: dict[tuple[str, str], ResourceType] = {}
        for resource in types:
            self.add_type(resource)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._by_name.values())

    def add_type(self, resource: ResourceType) -> None:
        """Serve a type from now on, replacing a type with the same name."""
        self._by_name[resource.name] = resource
        self._by_kind[resource.api_version, resource.kind] = resource

    def remove_type(self, resource: ResourceType) -> None:
        """Stop serving a type."""
        self._by_name.pop(resource.name, None)
        self._by_kind.pop((resource.api_version, resource.kind), None)

    def get(self, api_version: str, plural: str) -> ResourceType | None:
        """Return the resource with this group/version and plural, or None."""
        return self._by_name.get(f"{api_version}/{plural}")

    def of_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """Return the resource with an object's apiVersion and kind, or None."""
        return self._by_kind.get((api_version, kind))

    def find(self, resource: str | GroupVersionResource) -> ResourceType:
        """Return a resource by `"v1/pods"` or a GroupVersionResource.

        Raises:
            ConfigError: It has another form. The message has the right one.
            LookupError: It is not served.
        """
        served = self._by_name.get(str(resource))
        if served is None:
            raise LookupError(
                f"the server does not serve {str(parse_resource(resource))!r}; register it, or its CRD, first"
            )
        return served

    def at_path(self, group: str, version: str, plural: str) -> ResourceType:
        """Return the resource at a request path. Raises the server's 404 if there is none."""
        resource = self.get(group_version(group, version), plural)
        if resource is not None:
            return resource
        raise self.not_served(group)

    def not_served(self, group: str) -> StatusError:
        """Return the 404 for a resource that is not served: JSON for a built-in group, otherwise plain text."""
        builtin = any(resource.builtin for resource in self if resource.group == group)
        return missing_resource() if builtin else page_not_found()

    def versions(self) -> dict[str, list[str]]:
        """Return the versions of each group, those of built-in kinds first, others sorted by name and priority."""
        builtin: dict[str, list[str]] = {}
        others: dict[str, list[str]] = {}
        for resource in self:
            groups = builtin if resource.builtin or resource.group in builtin else others
            versions = groups.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return builtin | {group: sorted(others[group], key=version_priority) for group in sorted(others)}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return the key by which versions are sorted, the preferred first: v2, v1, v1beta1, v1alpha1, foo.

    (apimachinery, pkg/version/helpers.go, `CompareKubeAwareVersionStrings`)
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return len(_STAGES), 0, 0, version
    return _STAGES.index(match[2] or ""), -int(match[1]), -int(match[3] or 0), version
