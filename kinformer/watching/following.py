"""A reflector that runs beside the body of an `async with`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.fence import unfenced
from kinformer._runtime.tasks import wait_for_end
from kinformer.reflector.reflector import Reflector

__all__ = ["following"]


@asynccontextmanager
async def following(reflector: Reflector) -> AsyncIterator[asyncio.Task[None]]:
    """Run a reflector in a task, which ends with the body; if it ends before, its exception is the reason."""
    with unfenced():  # it only reads, and a leader's body may have started it
        task = asyncio.get_running_loop().create_task(reflector.run(), name=f"kinformer reflector of {reflector.name}")
    try:
        yield task
    finally:
        await _end(task)


@shielded_from_scopes
async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await wait_for_end([task])
