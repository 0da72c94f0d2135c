"""Small requests beside lists and watches: a resource's newest version, one object's metadata, a hint after a 404."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from kinformer._runtime.logs import get_logger
from kinformer.client.client import Client
from kinformer.client.discovery import lacking_resource, served_kind
from kinformer.exceptions import APIError, ConnectError, DecodeError, NotFoundError
from kinformer.list_watcher import ListOptions, ReadBack
from kinformer.objects.accessors import string_at, tables_at
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["AS_METADATA", "check_existence", "kind_now", "newest_version", "read_back", "with_hint"]

log = get_logger("kinformer.list_watch")

AS_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
_LIST_OF_METADATA = {"Accept": AS_METADATA.replace("{}", "List")}
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
_HINT_TIMEOUT = 5.0  # seconds to wait for a hint after a 404


async def newest_version(client: Client, path: str) -> str:
    """Return the server's current resourceVersion, read from etcd by a LIST of one item.

    Raises:
        APIError, ConnectError, DecodeError: The request failed or was refused.
    """
    answer = await client.request("GET", path, params={"limit": "1"}, headers=_LIST_OF_METADATA, retries=0)
    return _version_of(answer, path)


async def read_back(client: Client, path: str, options: ListOptions, name: str) -> ReadBack:
    """Read the metadata of the object with this name below a collection's path: see `ListWatch.read_back`.

    Raises:
        APIError, ConnectError, DecodeError: The request failed or was refused.
    """
    escaped = name.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")  # apimachinery, pkg/fields
    selector = ",".join(part for part in (options.field_selector, f"metadata.name={escaped}") if part)
    params = options.replace(field_selector=selector).params()
    answer = await client.request("GET", path, params=params, headers=_LIST_OF_METADATA, retries=0)
    # A server that does not know the field selector sends the others too.
    found = next((item for item in tables_at(answer, "items") if string_at(item, "metadata", "name") == name), None)
    return ReadBack(None if found is None else KubeObject.from_dict(found), _version_of(answer, path))


async def with_hint(client: Client, resource: GroupVersionResource, error: NotFoundError) -> NotFoundError:
    """Return a 404 of a collection, with the nearest resource that the server has if it lacks this one."""
    try:
        async with asyncio.timeout(_HINT_TIMEOUT):
            nearest = await lacking_resource(client, resource)
    except TimeoutError:
        return error
    if nearest is None:
        return error
    hint = f"; the nearest is {nearest}" if nearest else ""
    message = f"{error.message or 'not found'}: the server has no {resource}{hint}"
    hinted = NotFoundError(error.status, error.reason, message, error.retry_after, error.details)
    hinted.nearest = nearest
    return hinted


async def check_existence(client: Client, namespace: str, name: str) -> None:
    """Log a warning if a namespace does not exist. The server lists what is in such a namespace, as empty.

    Args:
        client: The client, which asks once for each namespace. Most roles may not read namespaces, so that the answer
            is often a 403, and then nothing is logged.
        namespace: The name of the namespace.
        name: The source, in words.
    """
    await client._shared(("namespace", namespace), lambda: _check_existence(client, namespace, name), ttl=math.inf)


async def _check_existence(client: Client, namespace: str, name: str) -> None:
    path, headers = NAMESPACES.path(name=namespace), {"Accept": AS_METADATA}
    try:
        await client.request("GET", path, headers=headers, retries=0, timeout=_HINT_TIMEOUT)
    except NotFoundError:
        message = "%s: the namespace %r does not exist, so there is nothing to follow until it is created"
        log.warning(message, name, namespace, resource=name, key=namespace, reason="no_namespace")
    except (APIError, ConnectError, DecodeError):
        return  # it is only a hint


async def kind_now(client: Client, resource: GroupVersionResource) -> str:
    """Return the kind that discovery has for a resource at present, or "" if it has none, or does not answer."""
    try:
        async with asyncio.timeout(_HINT_TIMEOUT):
            return await served_kind(client, resource)
    except TimeoutError:
        return ""


def _version_of(answer: Mapping[str, Any], path: str) -> str:
    version = string_at(answer, "metadata", "resourceVersion")
    if not version:
        raise DecodeError(f"GET {path}: a list without a resourceVersion")
    return version
