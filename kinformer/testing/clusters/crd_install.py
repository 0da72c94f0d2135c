"""Installs CustomResourceDefinitions on a server and waits until they are served, with plain HTTP requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiohttp

from kinformer.client.client import Client
from kinformer.exceptions import AlreadyExistsError, NotFoundError, ServerError, TooManyRequestsError

__all__ = ["install", "is_ok", "request_json"]

COLLECTION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLL = 0.05  # seconds between two checks


async def request_json(
    session: aiohttp.ClientSession, method: str, path: str, body: Mapping[str, Any] | None = None
) -> tuple[int, Any]:
    """Send a request, and return the status and the JSON body."""
    async with session.request(method, path, json=body) as response:
        return response.status, await response.json()


async def is_ok(session: aiohttp.ClientSession, path: str) -> bool:
    """Return True if a GET returns 200. A failed connection returns False too."""
    with suppress(aiohttp.ClientConnectionError, ConnectionError):
        async with session.get(path) as response:
            return response.status == 200
    return False


async def install(client: Client, crds: Sequence[dict[str, Any]], timeout: float) -> None:
    """Create or replace each definition, then wait until all are established and serve all their versions.

    Args:
        client: An entered client with the rights to manage definitions.
        crds: Whole CustomResourceDefinitions.
        timeout: Seconds for all definitions together.

    Raises:
        APIError: The server refuses a definition.
        TimeoutError: A definition is not served in time. The message has its conditions.
    """
    for crd in crds:
        await _create_or_replace(client, crd)
    deadline = time.monotonic() + timeout
    for crd in crds:
        await _wait_served(client, crd, deadline)


async def _create_or_replace(client: Client, crd: dict[str, Any]) -> None:
    try:
        await client.request("POST", COLLECTION, body=crd)
    except AlreadyExistsError:
        path = f"{COLLECTION}/{crd['metadata']['name']}"
        version = (await client.request("GET", path))["metadata"].get("resourceVersion", "")
        await client.request("PUT", path, body={**crd, "metadata": {**crd["metadata"], "resourceVersion": version}})


async def _wait_served(client: Client, crd: dict[str, Any], deadline: float) -> None:
    # The condition Established is not sufficient: the handler for the new path follows a moment later.
    spec, name = crd["spec"], crd["metadata"]["name"]
    paths = [
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        for version in spec["versions"]
        if version.get("served")
    ]
    while True:
        current = await client.request("GET", f"{COLLECTION}/{name}")
        # `conditions` is null for a moment after the creation.
        conditions = {item["type"]: item["status"] for item in (current.get("status", {}).get("conditions") or ())}
        if conditions.get("Established") == "True":
            paths = [path for path in paths if not await _is_served(client, path)]
            if not paths:
                return
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{name} was not served in time: conditions {conditions}, no response from {paths}")
        await asyncio.sleep(POLL)


async def _is_served(client: Client, path: str) -> bool:
    try:
        await client.request("GET", path, params={"limit": "1"})
    except (NotFoundError, ServerError, TooManyRequestsError):  # not served yet, or its watch cache is still filling
        return False
    return True
