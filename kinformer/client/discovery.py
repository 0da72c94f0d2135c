"""Discovery of the resources that a server serves, and lookup by the names that people use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kinformer._runtime.logs import get_logger
from kinformer.client.client import Client
from kinformer.exceptions import APIError, ConfigError, ConnectError, DecodeError, NotFoundError
from kinformer.objects.accessors import string_at, tables_at, value_at
from kinformer.objects.meta import GroupVersionResource, version_path
from kinformer.objects.object import KubeObject
from kinformer.objects.types import JSON

__all__ = [
    "APIResource",
    "Discovery",
    "KubeSystemProbe",
    "discover",
    "is_namespaced",
    "lacking_resource",
    "nearest_resource",
    "presence",
    "recent_discovery",
    "recent_version",
    "served_kind",
]

log = get_logger("kinformer.discovery")

_AGGREGATED = ",".join(
    [f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")]
    + ["application/json"]
)
_AT_ONCE = 16  # concurrent requests, one per group version, if the server has no aggregated discovery
_UNREADABLE_TTL = 60.0  # seconds before asking again a server that hides kube-system
_REMEMBERED = 10.0  # seconds for which a result is reused for hints
_UNANSWERED = (APIError, ConnectError, DecodeError)

_Document = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class APIResource:
    """A resource that a server serves (apimachinery, pkg/apis/meta/v1/types.go, APIResource).

    `str(resource)` is an argument for `for_resource`: `"v1/pods"`, `"apps/v1/deployments"`.

    Attributes:
        group: The API group, or "" for the core group.
        version: The version, such as `"v1"`.
        name: The plural name in URLs, such as `"pods"`.
        kind: The kind of its objects, such as `"Pod"`.
        singular: The singular name, such as `"pod"`. Some servers leave it empty.
        short_names: Abbreviations, such as `("po",)`.
        namespaced: True if its objects are in namespaces.
        verbs: The operations that the server offers: `"list"`, `"watch"`, `"create"`, ...
        categories: Groups of resources that it belongs to, such as `("all",)`.
    """

    group: str
    version: str
    name: str
    kind: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def gvr(self) -> GroupVersionResource:
        """Its group, version and name, for `for_resource` and `ListWatch`."""
        return GroupVersionResource(self.group, self.version, self.name)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}/{self.name}" if self.group else f"{self.version}/{self.name}"


class Discovery(tuple[APIResource, ...]):
    """The resources that a server serves, as found by `discover`.

    They are in the server's order: the core group first, and the preferred version of each group before the others.
    """

    __slots__ = ()

    def find(self, name: str) -> APIResource:
        """Return the resource that `name` means to kubectl.

        `pods`, `pod`, `po` and `Pod` select the first group that has them. `deployments.apps`, `deployments.v1.apps`,
        `v1/pods` and `apps/v1/deployments` specify the group. Case is ignored. (client-go, restmapper/shortcut.go, and
        apimachinery, pkg/api/meta/priority.go)

        Raises:
            ConfigError: No resource has this name. The message names the nearest one.
        """
        wanted = name.strip().lower()
        matches = [resource for resource in self if wanted in _names(resource)]
        if not matches:
            # Short names come last, because the full name of any other resource takes precedence.
            bare, _, group = wanted.partition(".")
            matches = [r for r in self if bare in r.short_names and (not group or _group_matches(r, group))]
        if matches:
            return matches[0]
        nearest = _nearest(self, wanted)
        hint = f"; the nearest is {nearest}" if nearest else ""
        raise ConfigError(f"the server has no resource {name!r}{hint}")


async def discover(client: Client) -> Discovery:
    """Return all resources that the server serves, without subresources.

    ::

        resources = await discover(client)
        deployments = resources.find("deploy")              # apps/v1/deployments
        listable = [str(one) for one in resources if "list" in one.verbs]

    This takes two requests if the server has aggregated discovery (1.26 and later), and otherwise one per group
    version. An aggregated API whose own server does not respond is omitted, with a logged warning. So is an entry that
    names no resource, such as one without a kind, with a log record at level INFO.

    Raises:
        APIError, ConnectError, DecodeError: `/api` or `/apis` cannot be read.
    """
    found: list[APIResource] = []
    for path in ("/api", "/apis"):
        document = _dict(await client.request("GET", path, headers={"Accept": _AGGREGATED}))
        if document.get("kind") == "APIGroupDiscoveryList":
            found += _aggregated(document, path)
        else:
            found += await _one_by_one(client, path, document)
    return Discovery(found)


async def nearest_resource(client: Client, resource: GroupVersionResource) -> str | None:
    """Return the resource that was probably meant by `resource`, as `"apps/v1/deployments"`, or None.

    It looks for the same name in another version or group, then for a singular name or a kind, then for a similar
    spelling. It is for error messages and never raises. It returns None if discovery fails, or if the server has the
    resource itself. A result of the last 10 s is reused.
    """
    return await lacking_resource(client, resource) or None


async def recent_discovery(client: Client) -> Discovery:
    """Return what the server serves, as `discover` does. A result of the last 10 s is reused."""
    return await client._shared("discovery", lambda: discover(client), ttl=_REMEMBERED)


async def recent_version(client: Client, resource: GroupVersionResource) -> Any:
    """Return the list of the resources of a group version. A result of the last 10 s is reused.

    Raises:
        APIError, ConnectError, DecodeError: The request failed or was refused.
    """
    path = version_path(resource)
    return await client._shared(("resources", path), lambda: client.request("GET", path), ttl=_REMEMBERED)


async def lacking_resource(client: Client, resource: GroupVersionResource) -> str | None:
    """Return the nearest resource if the server lacks this one, or "" if none is near.

    None if it exists or is unknown.
    """
    try:
        resources = await recent_discovery(client)
    except _UNANSWERED as error:
        log.debug("could not look for resources similar to %s: %s", resource, error, resource=resource, reason=error)
        return None
    if any(str(known) == str(resource) for known in resources):
        return None
    return _nearest(resources, str(resource)) or ""


async def presence(client: Client, resource: GroupVersionResource) -> bool | None:
    """Return True if the server has the resource, False if not, or None if this is unknown.

    Only JSON is trusted, because False empties caches, and a 404 may come from a proxy or a wrong server. A group
    version that responds with 404 is absent only if the list of all groups (or core versions) can be read and lacks it
    too. An entry without a readable name could be the resource, so the response is then unknown.
    """
    try:
        try:
            document = _dict(await client.request("GET", version_path(resource), retries=0))
        except NotFoundError:
            return await _version_presence(client, resource)
    except _UNANSWERED as error:
        _note_failure(resource, error)
        return None
    if document.get("kind") != "APIResourceList" or document.get("groupVersion") != resource.api_version:
        return None
    if _entry_of(resource, document):
        return True
    return None if _all_texts(document.get("resources"), "name") is None else False


async def is_namespaced(client: Client, resource: GroupVersionResource) -> bool | None:
    """Return True if the resource is namespaced according to discovery, or None if this is unknown.

    A result of the last 10 s is reused.
    """
    try:
        response = await recent_version(client, resource)
    except _UNANSWERED as error:
        _note_failure(resource, error)
        return None
    scope = _entry_of(resource, _dict(response)).get("namespaced")
    return scope if isinstance(scope, bool) else None


async def served_kind(client: Client, resource: GroupVersionResource, *, is_last: bool = False) -> str:
    """Return the kind of a resource according to discovery, or "" if this is unknown.

    With `is_last`, the connection is closed afterwards, because no other request follows soon.
    """
    headers = {"Connection": "close"} if is_last else None
    try:
        document = _dict(await client.request("GET", version_path(resource), headers=headers, retries=0))
    except _UNANSWERED as error:
        _note_failure(resource, error)
        return ""
    if document.get("groupVersion") != resource.api_version:
        return ""
    return string_at(_entry_of(resource, document), "kind")


def _note_failure(resource: GroupVersionResource, error: Exception) -> None:
    log.debug("discovery of %s failed: %s", resource, error, resource=resource, reason=error)


def _entry_of(resource: GroupVersionResource, document: _Document) -> _Document:
    """Return the entry of a resource in the list of its group version, or an empty mapping."""
    entries = tables_at(document, "resources")
    return next((entry for entry in entries if string_at(entry, "name") == resource.resource), {})


class KubeSystemProbe:
    """Reads the uid of kube-system, the identity of a cluster. A refusal is cached for a while."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._unreadable_until = 0.0

    async def uid(self) -> str | None:
        """Return the uid, or None if it may not be read."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._unreadable_until:
            return None
        try:
            response = await self._client.request("GET", "/api/v1/namespaces/kube-system", retries=0)
        except APIError as error:
            if error.status not in (401, 403, 404):
                raise
            self._unreadable_until = loop.time() + _UNREADABLE_TTL
            return None
        if not isinstance(response, KubeObject) or (response.kind, response.key) != ("Namespace", "kube-system"):
            return None
        return response.uid or None


async def _version_presence(client: Client, resource: GroupVersionResource) -> bool | None:
    document = _dict(await client.request("GET", "/apis" if resource.group else "/api", retries=0))
    listed = _group_versions(document) if resource.group else _core_versions(document)
    # If it is listed, but responds with 404, there are two servers, or one that is changing.
    return False if listed is not None and resource.api_version not in listed else None


def _core_versions(document: _Document) -> list[str] | None:
    versions = document.get("versions")
    if document.get("kind") != "APIVersions" or not isinstance(versions, list):
        return None
    return versions if all(isinstance(version, str) and version for version in versions) else None


def _group_versions(document: _Document) -> list[str] | None:
    groups = document.get("groups")
    if document.get("kind") != "APIGroupList" or not isinstance(groups, list):
        return None
    found: list[str] = []
    for group in groups:
        names = _all_texts(value_at(group, "versions"), "groupVersion")
        if names is None:
            return None
        found += names
    return found


def _all_texts(entries: object, name: str) -> list[str] | None:
    """Return a field of each entry, or None if one of them cannot be read."""
    if not isinstance(entries, list):
        return None
    found = [string_at(entry, name) for entry in entries]
    return found if all(found) else None


def _aggregated(document: _Document, path: str) -> Iterator[APIResource]:
    for group in tables_at(document, "items"):
        name = string_at(group, "metadata", "name")
        if bool(name) != (path == "/apis"):  # without its name, it would be taken for the core group
            _ignore(f"{path}: a group", f"its name is {name!r}")
            continue
        for version in tables_at(group, "versions"):
            if string_at(version, "freshness") == "Stale":
                log.warning(
                    "the server of %s/%s does not respond; its resources may be out of date",
                    name,
                    string_at(version, "version"),
                    reason="stale_group",
                )
            for entry in tables_at(version, "resources"):
                yield from _readable(
                    group=name,
                    version=string_at(version, "version"),
                    name=string_at(entry, "resource"),
                    kind=string_at(entry, "responseKind", "kind"),
                    singular=string_at(entry, "singularResource"),
                    short_names=_texts(entry, "shortNames"),
                    namespaced=string_at(entry, "scope") != "Cluster",
                    verbs=_texts(entry, "verbs"),
                    categories=_texts(entry, "categories"),
                )


async def _one_by_one(client: Client, path: str, document: _Document) -> list[APIResource]:
    if path == "/api":
        listed = list(_texts(document, "versions"))
    else:
        listed = [name for group in tables_at(document, "groups") for name in _preferred_first(group)]
    names = [name for name in listed if _is_version(name, path)]
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> list[APIResource]:
        async with slots:
            try:
                response = _dict(await client.request("GET", f"{path}/{name}"))
                if response.get("groupVersion", name) != name:
                    raise DecodeError(f"the response is about {response.get('groupVersion')!r}")
            except _UNANSWERED as error:
                log.warning("discovery ignores %s: %s", name, error, reason=error)
                return []
        return list(_listed(name, response))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(name)) for name in names]
    return [resource for task in tasks for resource in task.result()]


def _preferred_first(group: _Document) -> list[str]:
    preferred = string_at(group, "preferredVersion", "groupVersion")
    names = [string_at(version, "groupVersion") for version in tables_at(group, "versions")]
    return sorted(names, key=lambda name: name != preferred)  # stable, so the others keep the server's order


def _listed(group_version: str, document: _Document) -> Iterator[APIResource]:
    group, _, version = group_version.rpartition("/")
    for entry in tables_at(document, "resources"):
        name = string_at(entry, "name")
        if "/" in name:
            continue
        yield from _readable(
            group=group,
            version=version,
            name=name,
            kind=string_at(entry, "kind"),
            singular=string_at(entry, "singularName"),
            short_names=_texts(entry, "shortNames"),
            namespaced=entry.get("namespaced") is True,
            verbs=_texts(entry, "verbs"),
            categories=_texts(entry, "categories"),
        )


def _is_version(name: str, path: str) -> bool:
    """Return True if this is a group version below `path`. Any other string could lead to another path."""
    group, _, version = name.rpartition("/")
    try:
        GroupVersionResource(group, version, "any")
    except ConfigError as error:
        _ignore(f"{path}/{name}", error)
        return False
    if bool(group) != (path == "/apis"):
        _ignore(f"{path}/{name}", "it is no group version of this path")
        return False
    return True


def _readable(*, group: str, version: str, name: str, kind: str, **fields: Any) -> Iterator[APIResource]:
    """Yield the resource of an entry, unless the entry has no valid name or kind."""
    resource = APIResource(group=group, version=version, name=name, kind=kind, **fields)
    try:
        if not kind:
            raise ConfigError(f"resource {str(resource)!r} has no kind")
        _ = resource.gvr
    except ConfigError as error:
        _ignore("an entry", error)
    else:
        yield resource


def _ignore(what: str, why: object) -> None:
    log.info("discovery ignores %s: %s", what, why, reason="odd_entry")


def _names(resource: APIResource) -> set[str]:
    """Return the names of a resource, without its short names."""
    bare = {resource.name, resource.singular or resource.kind.lower(), resource.kind.lower()}
    dotted = {f"{name}.{suffix}" for name in bare for suffix in _suffixes(resource)}
    slashed = {
        f"{resource.version}/{name}" if not resource.group else f"{resource.group}/{resource.version}/{name}"
        for name in bare
    }
    return bare | dotted | slashed


def _suffixes(resource: APIResource) -> tuple[str, ...]:
    # kubectl writes the core group as `pods.v1.` or `pods.`.
    return (resource.group, f"{resource.version}.{resource.group}")


def _group_matches(resource: APIResource, suffix: str) -> bool:
    return suffix in _suffixes(resource)


def _nearest(resources: Iterable[APIResource], wanted: str) -> str | None:
    bare = wanted.rpartition("/")[2] if "/" in wanted else wanted.partition(".")[0]
    resources = list(resources)
    for resource in resources:
        if bare in (resource.name, resource.singular, resource.kind.lower(), *resource.short_names):
            return str(resource)
    names = {resource.name: str(resource) for resource in reversed(resources)}
    import difflib  # only needed for this error message

    close = difflib.get_close_matches(bare, names, n=1, cutoff=0.6)
    return names[close[0]] if close else None


def _dict(answer: KubeObject | dict[str, JSON]) -> dict[str, JSON]:
    return answer.to_dict() if isinstance(answer, KubeObject) else answer


def _texts(document: _Document, name: str) -> tuple[str, ...]:
    values = document.get(name)
    return tuple(value for value in (values if isinstance(values, list) else []) if isinstance(value, str))
