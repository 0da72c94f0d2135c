"""Installing CustomResourceDefinitions on a server, and waiting until they are served; plain questions over HTTP."""

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
POLL = 0.05  # seconds between two questions whether it is served


async def request_json(
    session: aiohttp.ClientSession, method: str, path: str, body: Mapping[str, Any] | None = None
) -> tuple[int, Any]:
    """The status and the JSON body of one request."""
    async with session.request(method, path, json=body) as response:
        return response.status, await response.json()


async def is_ok(session: aiohttp.ClientSession, path: str) -> bool:
    """True if a GET is answered with 200; False, too, if the connection fails."""
    with suppress(aiohttp.ClientConnectionError, ConnectionError):
        async with session.get(path) as response:
            return response.status == 200
    return False


async def install(client: Client, crds: Sequence[dict[str, Any]], timeout: float) -> None:
    """Create or replace each, then wait until all are established and answer in every version that they serve.

    Args:
        client: Entered, with the rights that this needs.
        crds: Whole CustomResourceDefinitions.
        timeout: Seconds for all of them together.

    Raises:
        APIError: the server refuses one.
        TimeoutError: the text has the conditions of the one that was waited for.
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
    # Established alone comes too early: the handler for the new path follows a moment later.
    spec, name = crd["spec"], crd["metadata"]["name"]
    paths = [
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        for version in spec["versions"]
        if version.get("served")
    ]
    while True:
        current = await client.request("GET", f"{COLLECTION}/{name}")
        # `conditions` is null for a moment after the creation
        conditions = {item["type"]: item["status"] for item in (current.get("status", {}).get("conditions") or ())}
        if conditions.get("Established") == "True":
            paths = [path for path in paths if not await _is_served(client, path)]
            if not paths:
                return
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{name} is not served in time: conditions {conditions}, no answer from {paths}")
        await asyncio.sleep(POLL)


async def _is_served(client: Client, path: str) -> bool:
    try:
        await client.request("GET", path, params={"limit": "1"})
    except (NotFoundError, ServerError, TooManyRequestsError):  # not yet, or its watch cache is being filled
        return False
    return True
