"""Installing CustomResourceDefinitions on a server, over plain HTTP, and waiting until they are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiohttp

from kinformer.exceptions import api_error

__all__ = ["answers", "call", "install"]

COLLECTION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLL = 0.05  # seconds between two questions whether it is served


async def call(
    session: aiohttp.ClientSession, method: str, path: str, body: Mapping[str, Any] | None = None
) -> tuple[int, Any]:
    """The status and the JSON body of one request."""
    async with session.request(method, path, json=body) as response:
        return response.status, await response.json()


async def answers(session: aiohttp.ClientSession, path: str) -> bool:
    """Whether a GET is answered with 200; False, too, where nobody listens."""
    with suppress(aiohttp.ClientConnectionError, ConnectionError):
        async with session.get(path) as response:
            return response.status == 200
    return False


async def install(session: aiohttp.ClientSession, crds: Sequence[dict[str, Any]], timeout: float) -> None:
    """Create or replace each, then wait until all are established and answer in every version that they serve.

    Args:
        session: Logged in as one who may, with the server's URL as its base.
        crds: Whole CustomResourceDefinitions.
        timeout: Seconds for all of them together.

    Raises:
        APIError: the server refuses one.
        TimeoutError: the text has the conditions of the one that was waited for.
    """
    for crd in crds:
        await _apply(session, crd)
    deadline = time.monotonic() + timeout
    for crd in crds:
        await _wait_served(session, crd, deadline)


async def _apply(session: aiohttp.ClientSession, crd: dict[str, Any]) -> None:
    status, answer = await call(session, "POST", COLLECTION, crd)
    if status == 409:
        path = f"{COLLECTION}/{crd['metadata']['name']}"
        _, current = await call(session, "GET", path)
        version = current.get("metadata", {}).get("resourceVersion", "")
        replacement = {**crd, "metadata": {**crd["metadata"], "resourceVersion": version}}
        status, answer = await call(session, "PUT", path, replacement)
    if status >= 300:
        raise api_error(status, answer.get("reason", ""), answer.get("message", ""), details=answer.get("details"))


async def _wait_served(session: aiohttp.ClientSession, crd: dict[str, Any], deadline: float) -> None:
    # Established alone comes too early: the handler for the new path follows a moment later.
    spec, name = crd["spec"], crd["metadata"]["name"]
    paths = [
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}?limit=1"
        for version in spec["versions"]
        if version.get("served")
    ]
    while True:
        _, current = await call(session, "GET", f"{COLLECTION}/{name}")
        # `conditions` is null for a moment after the creation
        conditions = {item["type"]: item["status"] for item in (current.get("status", {}).get("conditions") or ())}
        if conditions.get("Established") == "True":
            paths = [path for path in paths if not await answers(session, path)]
            if not paths:
                return
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{name} is not served in time: conditions {conditions}, no answer from {paths}")
        await asyncio.sleep(POLL)
