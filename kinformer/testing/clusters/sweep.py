"""Empties a namespace on a server without a namespace controller."""

from __future__ import annotations

import asyncio
from typing import Any

from kinformer.client.client import Client
from kinformer.connection.discovery import discover
from kinformer.exceptions import APIError, ConflictError, NotFoundError
from kinformer.objects.meta import GroupVersionResource

__all__ = ["remove_namespace"]

AT_ONCE = 8  # collections emptied concurrently
ATTEMPTS = 5  # the program under test may write to an object while it is being removed


async def remove_namespace(client: Client, name: str) -> None:
    """Delete a namespace with its contents, as a cluster's namespace controller would. Finalizers are ignored.

    A control plane without controllers leaves a deleted namespace Terminating forever, and its objects in every list
    of all namespaces. Other objects of the cluster are not changed.

    Raises:
        APIError: The server refuses a request.
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
        return  # the test or the server has removed it


async def _empty(client: Client, collection: str) -> None:
    try:
        listed = await client.request("GET", collection)
    except APIError:
        return  # served by an aggregated API that is down, or by a definition that was just deleted
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
