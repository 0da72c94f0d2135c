"""The objects that requests are about: finds resource, scope and path for a key, or for the kind of an object."""

from __future__ import annotations

import msgspec

from kinformer.connection.connection import Connection
from kinformer.connection.discovery import forget_version, recent_discovery, recent_version
from kinformer.exceptions import APIError, ConfigError, ConnectError, DecodeError, NotFoundError
from kinformer.kinds.builtin import builtin_resource, is_namespaced_kind
from kinformer.listwatch.presence import differs_in_scope
from kinformer.objects.accessors import flag_at, string_at, tables_at
from kinformer.objects.meta import (
    GroupVersionResource,
    split_meta_namespace_key,
)
from kinformer.verbs.bodies import SentObject

__all__ = ["Target", "about", "check_key", "check_scope", "target_of", "target_of_key"]

# Objects that are sent to a subresource, and the resource that has it. A Scale may belong to any resource.
_PARENTS = {"Binding": "pods", "Eviction": "pods", "TokenRequest": "serviceaccounts"}


class Target(msgspec.Struct, frozen=True):
    """One object, or a collection if `name` is empty.

    Attributes:
        verb: The method's name, for errors.
        resource: Its resource.
        namespace: Its namespace, or "" if it is cluster-scoped.
        name: Its name.
    """

    verb: str
    resource: GroupVersionResource
    namespace: str
    name: str

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.verb} {self.resource} {key}".rstrip()

    def path(self, subresource: str | None = None) -> str:
        """Return the path of the object or one of its subresources. Raises ConfigError if a name is no path segment."""
        return self.resource.path(self.namespace, self.name, subresource)


async def target_of_key(client: Connection, verb: str, resource: str | GroupVersionResource, key: str) -> Target:
    """Return the object of a resource with a key.

    Raises:
        ConfigError: The resource or the key is invalid, or its namespace is missing or one too many.
    """
    gvr = GroupVersionResource.parse(resource)
    if not isinstance(key, str):
        raise ConfigError(f"{verb} {gvr}: the key must be a string such as 'namespace/name', got {key!r}")
    try:
        namespace, name = split_meta_namespace_key(key)
    except ValueError as error:
        raise ConfigError(f"{verb} {gvr}: {error}") from None
    if not name or key.startswith("/"):
        raise ConfigError(f"{verb} {gvr}: invalid key {key!r}: expected 'namespace/name' or 'name'")
    await check_key(client, verb, gvr, key)
    return Target(verb, gvr, namespace, name)


async def target_of(client: Connection, verb: str, obj: SentObject, *, subresource: str | None) -> Target:
    """Return the resource, namespace and name of an object that is to be sent.

    Raises:
        ConfigError: apiVersion, kind or namespace is missing or wrong. The message names the field.
        APIError, ConnectError, DecodeError: Discovery of a kind that is not built in failed.
    """
    resource, namespaced = await _resource_of(client, verb, obj, subresource)
    what = f"{verb} {obj}"
    if namespaced and not obj.namespace:
        raise ConfigError(f"{what}: metadata.namespace is missing, but {resource} is namespaced")
    if not namespaced and obj.namespace:
        raise ConfigError(f"{what}: metadata.namespace is {obj.namespace!r}, but {resource} is cluster-scoped")
    return Target(verb, resource, obj.namespace, obj.name)


def about(error: NotFoundError, what: str) -> NotFoundError:
    """Return a 404 with a message that begins with `what`, because the server's message has no namespace."""
    return NotFoundError(error.status, error.reason, f"{what}: {error.message}", error.retry_after, error.details)


async def check_key(client: Connection, verb: str, resource: GroupVersionResource, key: str) -> None:
    """Raise ConfigError if a key has a namespace and the resource has none, or the other way round."""
    if not await differs_in_scope(client, resource, namespaced="/" in key):
        return
    has, scope, expected = ("a", "cluster-scoped", "name") if "/" in key else ("no", "namespaced", "namespace/name")
    message = f"the key {key!r} has {has} namespace, but {resource} is {scope}: expected {expected!r}"
    raise ConfigError(f"{verb} {resource}: {message}")


async def check_scope(client: Connection, verb: str, resource: GroupVersionResource, namespace: str | None) -> None:
    """Raise ConfigError if a namespace is given for a resource without namespaces."""
    if namespace and await differs_in_scope(client, resource, namespaced=True):
        raise ConfigError(f"{verb} {resource}: namespace={namespace!r} is given, but {resource} is cluster-scoped")


async def _resource_of(
    client: Connection, verb: str, obj: SentObject, subresource: str | None
) -> tuple[GroupVersionResource, bool]:
    for field, value in (("apiVersion", obj.api_version), ("kind", obj.kind)):
        if not value:
            raise ConfigError(f"{verb} {obj}: {field} is missing")
    if subresource and obj.kind in _PARENTS:
        return GroupVersionResource("", "v1", _PARENTS[obj.kind]), True
    if subresource == "scale" and obj.kind == "Scale":
        message = "a Scale does not say of which resource: use patch(resource, key, ..., subresource='scale')"
        raise ConfigError(f"{verb} {obj}: {message}")
    group, _, version = obj.api_version.rpartition("/")
    resource = builtin_resource(group, version, obj.kind)
    if resource is not None:
        return resource, is_namespaced_kind(obj.kind)
    return await _discovered(client, verb, obj, GroupVersionResource(group, version, "any"))


async def _discovered(
    client: Connection, verb: str, obj: SentObject, sample: GroupVersionResource
) -> tuple[GroupVersionResource, bool]:
    """Look for a kind among the resources of its group version, which `sample` is a member of."""
    served: tuple[GroupVersionResource, bool] | None = None
    for is_last in (False, True):  # a kind that is missing, or has another scope, may have been defined since
        try:
            served = _of_kind(obj.kind, sample, await recent_version(client, sample))
        except NotFoundError:
            served = None
            break
        if is_last or (served is not None and served[1] == bool(obj.namespace)):
            break
        forget_version(client, sample)
    if served is not None:
        return served
    nearest = await _nearest(client, obj)
    hint = f"; the nearest is {nearest}" if nearest else ""
    raise ConfigError(f"{verb} {obj}: the server has no kind {obj.kind!r} in apiVersion {obj.api_version!r}{hint}")


def _of_kind(kind: str, sample: GroupVersionResource, document: object) -> tuple[GroupVersionResource, bool] | None:
    """Return the resource of a kind in the discovery of its group version, and whether it is namespaced, or None."""
    for entry in tables_at(document, "resources"):
        name = string_at(entry, "name")
        if string_at(entry, "kind") == kind and "/" not in name:
            return GroupVersionResource(sample.group, sample.version, name), flag_at(entry, "namespaced")
    return None


async def _nearest(client: Connection, obj: SentObject) -> str:
    """Return the apiVersion and kind that were probably meant, or ""."""
    try:
        resources = await recent_discovery(client)
    except (APIError, ConnectError, DecodeError):  # the error is about the kind, with a hint or without
        return ""
    kinds = {resource.kind: f"{resource.gvr.api_version} {resource.kind}" for resource in reversed(resources)}
    lower = {kind.lower(): kind for kind in kinds}
    from difflib import get_close_matches  # only needed for this error message

    close = get_close_matches(obj.kind.lower(), lower, n=1, cutoff=0.6)
    return kinds[lower[close[0]]] if close else ""
