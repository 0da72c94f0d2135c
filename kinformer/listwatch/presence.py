"""The presence of a collection on a server: whether it is gone, where it is, and what was meant instead.

A 404 proves nothing, because a proxy and a wrong backend send it too, and so does a server that no longer serves a
version whose objects go on in another one.
"""

from __future__ import annotations

import asyncio

from kinformer._runtime.logs import get_logger
from kinformer.connection.connection import Connection
from kinformer.connection.discovery import (
    REMEMBERED,
    UNANSWERED,
    forget_version,
    recent_discovery,
    recent_entry,
    served_verbs,
)
from kinformer.exceptions import APIError, ForbiddenError, NotFoundError, NotWatchableError
from kinformer.kinds.builtin import is_namespaced, wrong_scope
from kinformer.objects.meta import GroupVersionResource

__all__ = ["METADATA", "differs_in_scope", "explained", "presence"]

log = get_logger("kinformer.discovery")

METADATA = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"}
"""The headers of a request for the metadata of one object."""

_DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_OLDEST = 15.0  # the most seconds since discovery was asked. `RemovedResourceCheck` relies on it
_HINT_TIMEOUT = 5.0  # seconds to wait for an explanation
_NOT_ALLOWED = 405


async def presence(client: Connection, resource: GroupVersionResource) -> bool | None:
    """Return True if a collection exists, False if this look finds it gone, or None if it proves neither.

    A collection exists if discovery has the resource in any version of its group, since the objects go on there. It
    also exists if it has a CustomResourceDefinition, even one that serves no version or whose names are not accepted. A
    user who may not read that gets the answer of discovery alone. The answer is at most 15 s old, and shared by callers
    that ask within 10 s.
    """
    try:
        resources = await recent_discovery(client)
        served = resources.serves(resource) if resources.age <= _OLDEST else None
        if served is not False or not resource.group:
            return served
        key = ("definition", resource.group, resource.resource)
        return await client._shared(key, lambda: _is_defined(client, resource), ttl=REMEMBERED)
    except UNANSWERED as error:
        log.debug("discovery of %s failed: %s", resource, error, resource=resource, reason=error)
        return None


async def differs_in_scope(client: Connection, resource: GroupVersionResource, *, namespaced: bool) -> bool:
    """Return True if a resource is certainly not namespaced, or certainly is, other than the argument says.

    No request is made for a built-in resource. Of others, discovery of the last 10 s is asked, and a new one before the
    answer is True, because a definition may have been replaced by one with another scope.
    """
    if (scope := is_namespaced(resource)) is not None:
        return scope is not namespaced
    if (await recent_entry(client, resource)).get("namespaced") is not (not namespaced):
        return False
    forget_version(client, resource)
    return (await recent_entry(client, resource)).get("namespaced") is (not namespaced)


async def _is_defined(client: Connection, resource: GroupVersionResource) -> bool:
    try:
        path = _DEFINITIONS.path(name=f"{resource.resource}.{resource.group}")
        await client.request("GET", path, headers=METADATA, retries=0)
    except (ForbiddenError, NotFoundError):
        return False
    return True


async def explained(
    client: Connection, resource: GroupVersionResource, error: APIError, namespace: str | None = None
) -> Exception:
    """Return the error of a request for a collection, with what discovery says about it. It may take 5 s.

    A 404 in a namespace is a ScopeError if the resource has no namespaces. Another 404 gets the nearest resource that
    the server has, if it lacks this one: another version of it, if there is one.
    A 405, as a watch gets it, is a NotWatchableError if the resource has no verb `watch`.
    """
    try:
        async with asyncio.timeout(_HINT_TIMEOUT):
            if isinstance(error, NotFoundError):
                if namespace and await differs_in_scope(client, resource, namespaced=True):
                    return wrong_scope(resource, namespace)
                return _with_nearest(error, resource, (await recent_discovery(client)).nearest(resource))
            verbs = await served_verbs(client, resource) if error.status == _NOT_ALLOWED else ()
    except (*UNANSWERED, TimeoutError) as failure:
        log.debug("%s is not explained: %s", resource, failure, resource=resource, reason=failure)
        return error
    if not verbs or "watch" in verbs:
        return error
    offered = ", ".join(verbs)
    return NotWatchableError(
        f"{resource} cannot be watched (its verbs are {offered}); pass poll=30 to list it every 30 s"
    )


def _with_nearest(error: NotFoundError, resource: GroupVersionResource, nearest: str | None) -> NotFoundError:
    if nearest is None:
        return error
    hint = f"; the nearest is {nearest}" if nearest else ""
    message = f"{error.message or 'not found'}: the server has no {resource}{hint}"
    hinted = NotFoundError(error.status, error.reason, message, error.retry_after, error.details)
    hinted.nearest = nearest
    return hinted
