"""Small requests beside lists and watches: the newest version, metadata of a few objects, the kind of a resource."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from kinformer._runtime.logs import get_logger
from kinformer.connection.connection import Connection
from kinformer.connection.discovery import served_kind
from kinformer.exceptions import APIError, ConnectError, DecodeError, NotFoundError
from kinformer.list_watcher import ListOptions, MetadataList
from kinformer.listwatch.part import Part
from kinformer.listwatch.presence import METADATA
from kinformer.objects.accessors import string_at, tables_at
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject

__all__ = ["AS_METADATA", "check_existence", "kind_now", "list_metadata", "newest_version"]

log = get_logger("kinformer.list_watch")

AS_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
_LIST_OF_METADATA = AS_METADATA.replace("{}", "List")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
_PAGE = 500  # objects in a response, as in client-go
_HINT_TIMEOUT = 5.0  # seconds to wait for a hint


async def newest_version(client: Connection, path: str) -> tuple[str, str]:
    """Return the server's current resourceVersion, read from etcd by a LIST of one item, and the FlowSchema's uid.

    Raises:
        APIError, ConnectError, DecodeError: The request failed or was refused.
    """
    answer, schema = await client._probe(path, {"limit": "1"}, Accept=_LIST_OF_METADATA)
    return _version_of(answer, path), schema


async def list_metadata(
    client: Connection, path: str, options: ListOptions, name: str, label_selector: str, part: Part | None
) -> MetadataList:
    """List the metadata of the objects below a path that `options`, these conditions and the part select.

    Raises:
        APIError, ConnectError, DecodeError: The request failed or was refused.
    """
    escaped = name.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")  # apimachinery, pkg/fields
    selected = options.replace(
        field_selector=_all_of(options.field_selector, f"metadata.name={escaped}" if name else None),
        label_selector=_all_of(options.label_selector, label_selector),
        limit=_PAGE,
    )
    objects: list[KubeObject] = []
    version = ""
    while True:
        answer, _ = await client._probe(path, selected.params(), Accept=_LIST_OF_METADATA)
        version = version or _version_of(answer, path)
        for item in tables_at(answer, "items"):
            # A server that does not know a field selector sends the others too.
            if name in ("", string_at(item, "metadata", "name")):
                obj = KubeObject.from_dict(item)
                if part is None or part.has(obj):
                    objects.append(obj)
        token = string_at(answer, "metadata", "continue")
        if not token:
            return MetadataList(objects, version)
        selected = selected.replace(continue_token=token)


def _all_of(*selectors: str | None) -> str | None:
    return ",".join(filter(None, selectors)) or None


async def check_existence(client: Connection, namespace: str, name: str) -> None:
    """Log a warning if a namespace does not exist. The server lists what is in such a namespace, as empty.

    Args:
        client: The client, which asks once for each namespace. Most roles may not read namespaces, so that the answer
            is often a 403, and then nothing is logged.
        namespace: The name of the namespace.
        name: The source, in words.
    """
    await client._shared(("namespace", namespace), lambda: _check_existence(client, namespace, name), ttl=math.inf)


async def _check_existence(client: Connection, namespace: str, name: str) -> None:
    try:
        await client.request("GET", NAMESPACES.path(name=namespace), headers=METADATA, retries=0, timeout=_HINT_TIMEOUT)
    except NotFoundError:
        message = "%s: the namespace %r does not exist, so there is nothing to follow until it is created"
        log.warning(message, name, namespace, resource=name, key=namespace, reason="no_namespace")
    except (APIError, ConnectError, DecodeError):
        return  # it is only a hint


async def kind_now(client: Connection, resource: GroupVersionResource) -> str:
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
