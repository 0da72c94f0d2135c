"""Discovery of the resources that a server serves, and lookup by the names that people use."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from kinformer._runtime.logs import get_logger
from kinformer.connection.connection import Connection
from kinformer.connection.retries import RETRIES
from kinformer.exceptions import APIError, ConfigError, ConnectError, DecodeError
from kinformer.objects.accessors import string_at, tables_at
from kinformer.objects.meta import GroupVersionResource, version_path
from kinformer.objects.object import KubeObject
from kinformer.objects.types import JSON

__all__ = [
    "REMEMBERED",
    "UNANSWERED",
    "APIResource",
    "Discovery",
    "KubeSystemProbe",
    "discover",
    "forget_version",
    "recent_discovery",
    "recent_entry",
    "recent_version",
    "served_kind",
    "served_verbs",
]

log = get_logger("kinformer.discovery")

_AGGREGATED = ",".join(
    [f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")]
    + ["application/json"]
)
_AT_ONCE = 16  # concurrent requests, one per group version, if the server has no aggregated discovery
_UNREADABLE_TTL = 60.0  # seconds before asking again a server that hides kube-system
_ANY = "*"  # stands for a group that cannot be read, which could be any group

REMEMBERED = 10.0
"""Seconds for which a result is reused."""

UNANSWERED = (APIError, ConnectError, DecodeError)
"""The errors of a request without a usable answer."""

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

    _asked_at: float  # on the loop's clock
    _unclear: Container[str]  # the groups of which a part could not be read

    def __new__(
        cls, resources: Iterable[APIResource] = (), *, asked_at: float = 0.0, unclear: Container[str] = ()
    ) -> Self:
        made = super().__new__(cls, resources)
        made._asked_at, made._unclear = asked_at, unclear
        return made

    @property
    def age(self) -> float:
        """Seconds since the server was asked.

        :meta private:
        """
        return asyncio.get_running_loop().time() - self._asked_at

    def serves(self, resource: GroupVersionResource) -> bool | None:
        """Return True if a version of its group has the resource, False if none has, or None if that is unknown.

        An entry, a version or a group that cannot be read could be the resource, so it is unknown then.

        :meta private:
        """
        if any((served.group, served.name) == (resource.group, resource.resource) for served in self):
            return True
        return None if _ANY in self._unclear or resource.group in self._unclear else False

    def nearest(self, resource: GroupVersionResource) -> str | None:
        """Return what was probably meant by a resource that the server lacks, or "" if nothing is similar.

        It is the same name in another version, then in another group, a singular name or a kind, or a similar spelling.
        None if the server has the resource, or that is unknown.

        :meta private:
        """
        if str(resource) in map(str, self) or self.serves(resource) is None:
            return None
        own_group_first = sorted(self, key=lambda known: known.group != resource.group)
        return _nearest(own_group_first, str(resource)) or ""

    def find(self, name: str) -> APIResource:
        """Return the resource that `name` means to kubectl.

        `pods`, `pod`, `po` and `Pod` select the first group that has them. `deployments.apps`, `deployments.v1.apps`,
        `v1/pods` and `apps/v1/deployments` specify the group. Case is ignored. (client-go, restmapper/shortcut.go, and
        apimachinery, pkg/api/meta/priority.go)

        Raises:
            ConfigError: No resource has this name. The message names the nearest one.
        """
        lowered = name.strip().lower()
        matches = [resource for resource in self if lowered in _names(resource)]
        if not matches:
            # Short names come last, because the full name of any other resource takes precedence.
            bare, _, group = lowered.partition(".")
            matches = [r for r in self if bare in r.short_names and (not group or group in _suffixes(r))]
        if matches:
            return matches[0]
        nearest = _nearest(self, lowered)
        hint = f"; the nearest is {nearest}" if nearest else ""
        raise ConfigError(f"the server has no resource {name!r}{hint}")


async def discover(client: Connection) -> Discovery:
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
    return await _Reading(client, retries=RETRIES).discovery()


async def recent_discovery(client: Connection) -> Discovery:
    """Return what the server serves, as `discover` does, without retries. A result of the last 10 s is reused."""
    return await client._shared("discovery", lambda: _Reading(client, retries=0).discovery(), ttl=REMEMBERED)


async def recent_version(client: Connection, resource: GroupVersionResource) -> Any:
    """Return the list of the resources of a group version. A result of the last 10 s is reused.

    Raises:
        APIError, ConnectError, DecodeError: The request failed or was refused.
    """
    path = version_path(resource)
    return await client._shared(("resources", path), lambda: client.request("GET", path), ttl=REMEMBERED)


def forget_version(client: Connection, resource: GroupVersionResource) -> None:
    """Have `recent_version` ask again."""
    client._forget(("resources", version_path(resource)))


async def served_verbs(client: Connection, resource: GroupVersionResource) -> tuple[str, ...]:
    """Return the verbs of a resource according to discovery of the last 10 s, or none if they are unknown."""
    return _texts(await recent_entry(client, resource), "verbs")


async def recent_entry(client: Connection, resource: GroupVersionResource) -> _Document:
    """Return the entry of a resource in discovery of the last 10 s, or an empty mapping."""
    try:
        return _entry_of(resource, _dict(await recent_version(client, resource)))
    except UNANSWERED as error:
        _note_failure(resource, error)
        return {}


async def served_kind(client: Connection, resource: GroupVersionResource, *, is_last: bool = False) -> str:
    """Return the kind of a resource according to discovery, or "" if this is unknown.

    With `is_last`, the connection is closed afterwards, because no other request follows soon.
    """
    headers = {"Connection": "close"} if is_last else None
    try:
        document = _dict(await client.request("GET", version_path(resource), headers=headers, retries=0))
    except UNANSWERED as error:
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
    """Reads the uid of kube-system, the identity of a cluster. A refusal is cached for a while.

    The client keeps the FlowSchema of the response with the uid, because both are in the same etcd.
    """

    def __init__(self, client: Connection) -> None:
        self._client = client
        self._unreadable_until = 0.0

    async def uid(self) -> str | None:
        """Return the uid, or None if it may not be read."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._unreadable_until:
            return None
        try:
            response, schema = await self._client._probe("/api/v1/namespaces/kube-system")
        except APIError as error:
            if error.status not in (401, 403, 404):
                raise
            self._unreadable_until = loop.time() + _UNREADABLE_TTL
            return None
        if not isinstance(response, KubeObject) or (response.kind, response.key) != ("Namespace", "kube-system"):
            return None
        self._client._recognized = schema, response.uid or None
        return response.uid or None


class _Reading:
    """One reading of the documents of discovery.

    Args:
        client: The client.
        retries: The number of retries of each request.
    """

    def __init__(self, client: Connection, *, retries: int) -> None:
        self._client = client
        self._retries = retries
        self._unclear: set[str] = set()  # the groups of which a part cannot be read, which grows with each document

    async def discovery(self) -> Discovery:
        """Return all resources. Raises as `discover` does."""
        asked_at = asyncio.get_running_loop().time()
        resources: list[APIResource] = []
        for path in ("/api", "/apis"):
            document = await self._get(path, Accept=_AGGREGATED)
            if document.get("kind") == "APIGroupDiscoveryList":
                resources += self._aggregated(document, path)
            else:
                resources += await self._one_by_one(document, path)
        return Discovery(resources, asked_at=asked_at, unclear=self._unclear)

    async def _get(self, path: str, **headers: str) -> _Document:
        return _dict(await self._client.request("GET", path, headers=headers, retries=self._retries))

    def _all_tables(self, document: _Document, name: str, group: str) -> list[_Document]:
        """Return the mappings in a list of a document. The group is unclear if the list has other items, or is none."""
        tables = tables_at(document, name)
        entries = document.get(name)
        if not isinstance(entries, list) or len(tables) < len(entries):
            self._unclear.add(group)
        return tables

    def _aggregated(self, document: _Document, path: str) -> Iterator[APIResource]:
        for group in self._all_tables(document, "items", _ANY):
            name = string_at(group, "metadata", "name")
            if bool(name) != (path == "/apis"):  # without its name, it would be taken for the core group
                self._ignore(f"{path}: a group", f"its name is {name!r}", _ANY)
                continue
            for version in self._all_tables(group, "versions", name):
                if string_at(version, "freshness") == "Stale":
                    self._unclear.add(name)
                    log.warning(
                        "the server of %s/%s does not respond; its resources may be out of date",
                        name,
                        string_at(version, "version"),
                        reason="stale_group",
                    )
                for entry in self._all_tables(version, "resources", name):
                    yield from self._readable(
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

    async def _one_by_one(self, document: _Document, path: str) -> list[APIResource]:
        if path == "/api":
            listed = list(_texts(document, "versions"))
        else:
            if document.get("kind") != "APIGroupList":
                self._unclear.add(_ANY)
            groups = self._all_tables(document, "groups", _ANY)
            listed = [name for group in groups for name in self._preferred_first(group)]
        names = [name for name in listed if self._is_version(name, path)]
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str) -> list[APIResource]:
            async with slots:
                try:
                    response = await self._get(f"{path}/{name}")
                    if response.get("groupVersion", name) != name:
                        raise DecodeError(f"the response is about {response.get('groupVersion')!r}")
                except UNANSWERED as error:
                    self._unclear.add(name.rpartition("/")[0])
                    log.warning("discovery ignores %s: %s", name, error, reason=error)
                    return []
            return list(self._listed(name, response))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(name)) for name in names]
        return [resource for task in tasks for resource in task.result()]

    def _preferred_first(self, group: _Document) -> list[str]:
        preferred = string_at(group, "preferredVersion", "groupVersion")
        versions = self._all_tables(group, "versions", string_at(group, "name") or _ANY)
        names = [string_at(version, "groupVersion") for version in versions]
        return sorted(names, key=lambda name: name != preferred)  # stable, so the others keep the server's order

    def _listed(self, group_version: str, document: _Document) -> Iterator[APIResource]:
        group, _, version = group_version.rpartition("/")
        if document.get("kind") != "APIResourceList":
            self._unclear.add(group)
        for entry in self._all_tables(document, "resources", group):
            name = string_at(entry, "name")
            if "/" in name:
                continue
            yield from self._readable(
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

    def _is_version(self, name: str, path: str) -> bool:
        """Return True if this is a group version below `path`. Any other string could lead to another path."""
        group, _, version = name.rpartition("/")
        try:
            GroupVersionResource(group, version, "any")
        except ConfigError as error:
            self._ignore(f"{path}/{name}", error, _ANY)
            return False
        if bool(group) != (path == "/apis"):
            self._ignore(f"{path}/{name}", "it is no group version of this path", _ANY)
            return False
        return True

    def _readable(self, *, group: str, version: str, name: str, kind: str, **fields: Any) -> Iterator[APIResource]:
        """Yield the resource of an entry, unless the entry has no valid name or kind."""
        resource = APIResource(group=group, version=version, name=name, kind=kind, **fields)
        try:
            if not kind:
                raise ConfigError(f"resource {str(resource)!r} has no kind")
            _ = resource.gvr
        except ConfigError as error:
            self._ignore("an entry", error, group)
        else:
            yield resource

    def _ignore(self, what: str, why: object, group: str) -> None:
        self._unclear.add(group)
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
