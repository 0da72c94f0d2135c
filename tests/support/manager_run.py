"""A manager that runs while a test looks at it, and what its probes answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kinformer import Manager


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(manager.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def page(manager: Manager, path: str, **headers: str) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{manager.port}{path}", headers=headers) as answer,
    ):
        return answer.status, await (answer.json() if answer.content_type == "application/json" else answer.text())


async def within(seconds: float, awaitable: Any) -> Any:
    async with asyncio.timeout(seconds):
        return await awaitable
