"""Emptying a namespace of a server that has no controller for it."""

from __future__ import annotations

import asyncio
from typing import Any

from kinformer.client.client import Client
from kinformer.client.discovery import discover
from kinformer.exceptions import APIError, ConflictError, NotFoundError
from kinformer.objects.meta import GroupVersionResource

__all__ = ["remove_namespace"]

AT_ONCE = 8  # collections that are emptied at a time
ATTEMPTS = 5  # an object may be written to by the program under test while it is taken away


async def remove_namespace(client: Client, name: str) -> None:
    """Delete a namespace with all that is in it, finalizers or not, as a cluster's namespace controller would.

    A control plane without controllers leaves a deleted namespace Terminating for ever, and its objects in every list
    over all namespaces. Other objects of the cluster are not touched.

    Raises:
        APIError: the server refuses.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def empty(resource: GroupVersionResource) -> None:
        async with slots:
            await _empty(client, resource.path(name))

    async with asyncio.TaskGroup() as group:
        for resource in await discover(client):
            if resource.namespaced and {"list", "delete"} <= set(resource.verbs):
                group.create_task(empty(resource.gvr))
    path = f"/api/v1/namespaces/{name}"
    try:
        await client.request("DELETE", path)
        namespace = await client.request("GET", path)
        body = {**dict(namespace), "spec": {"finalizers": []}}
        await client.request("PUT", f"{path}/finalize", body=body)
    except NotFoundError:
        return  # the test has removed it, or the server has done so itself


async def _empty(client: Client, collection: str) -> None:
    try:
        listed = await client.request("GET", collection)
    except APIError:
        return  # served by an aggregated API that is away, or a definition that has just been deleted
    items: list[dict[str, Any]] = listed["items"]
    for item in items:
        await _remove(client, f"{collection}/{item['metadata']['name']}")


async def _remove(client: Client, path: str) -> None:
    for attempt in range(ATTEMPTS):
        try:
            left = await client.request("DELETE", path, body={"gracePeriodSeconds": 0})
            if (left.get("metadata") or {}).get("finalizers"):
                await client.request("PATCH", path, body={"metadata": {"finalizers": None}})
            return
        except NotFoundError:
            return
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
