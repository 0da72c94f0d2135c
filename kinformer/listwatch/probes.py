"""Small requests beside lists and watches: the newest version, metadata of a few objects, hints after a 404."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from kinformer.client.client import Client
from kinformer.client.discovery import lacking_resource, served_kind
from kinformer.exceptions import DecodeError, NotFoundError
from kinformer.list_watcher import ListOptions, MetadataList
from kinformer.objects.accessors import string_at, tables_at
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["AS_METADATA", "kind_now", "list_metadata", "newest_version", "with_hint"]

AS_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
_LIST_OF_METADATA = {"Accept": AS_METADATA.replace("{}", "List")}
_PAGE = 500  # objects in a response, as in client-go
_HINT_TIMEOUT = 5.0  # seconds to wait for a hint after a 404


async def newest_version(client: Client, path: str) -> str:
    """Return the server's current resourceVersion, read from etcd by a LIST of one item.

    Raises:
        APIError, ConnectError, DecodeError: The request failed or was refused.
    """
    answer = await client.request("GET", path, params={"limit": "1"}, headers=_LIST_OF_METADATA, retries=0)
    return _version_of(answer, path)


async def list_metadata(
    client: Client, path: str, options: ListOptions, name: str, label_selector: str
) -> MetadataList:
    """List the metadata of the objects below a path that `options` and these conditions select.

    Raises:
        APIError, ConnectError, DecodeError: The request failed or was refused.
    """
    escaped = name.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")  # apimachinery, pkg/fields
    selected = options.replace(
        field_selector=_all_of(options.field_selector, f"metadata.name={escaped}" if name else None),
        label_selector=_all_of(options.label_selector, label_selector),
        limit=_PAGE,
    )
    found: list[KubeObject] = []
    version = ""
    while True:
        answer = await client.request("GET", path, params=selected.params(), headers=_LIST_OF_METADATA, retries=0)
        version = version or _version_of(answer, path)
        for item in tables_at(answer, "items"):
            # A server that does not know a field selector sends the others too.
            if name in ("", string_at(item, "metadata", "name")):
                found.append(KubeObject.from_dict(item))
        token = string_at(answer, "metadata", "continue")
        if not token:
            return MetadataList(found, version)
        selected = selected.replace(continue_token=token)


def _all_of(*selectors: str | None) -> str | None:
    return ",".join(filter(None, selectors)) or None


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
