"""Informers of a program without an `async with` of its own: a start that says ready or why not, and a stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest

from kinformer import ForbiddenError, SharedInformer, StoppedError
from kinformer.manager import Background
from tests.support.memory_source import MemorySource

pytestmark = pytest.mark.virtual_time

CALLER: ContextVar[str] = ContextVar("caller", default="none")


class Plugin:
    """What a program follows, with a note of what it has done."""

    def __init__(self, source: MemorySource) -> None:
        self.source = source
        self.notes: list[str] = []
        self.background = Background(self.followed)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[SharedInformer]:
        self.notes.append(f"entered by {CALLER.get()}")
        try:
            async with SharedInformer(self.source) as informer:
                await informer.wait_synced(30, fail_fast=True)
                yield informer
        finally:
            self.notes.append("exited")


def others() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_start_returns_what_is_ready_and_stop_ends_it() -> None:
    plugin = Plugin(MemorySource())
    plugin.source.set("a")
    informer = await plugin.background.start()
    assert informer.has_synced
    plugin.source.set("b")
    await asyncio.sleep(1)
    assert len(informer.lister) == 2
    assert plugin.notes == ["entered by none"]
    await plugin.background.stop()
    await plugin.background.stop()
    assert plugin.notes == ["entered by none", "exited"]
    assert informer.health().state == "stopped"
    assert others() == set()


async def test_the_reason_of_a_start_that_fails_comes_out_and_the_next_one_tries_again() -> None:
    plugin = Plugin(MemorySource())
    plugin.source.fail_with = ForbiddenError(403, "Forbidden", "pods is forbidden")
    for _ in range(2):
        with pytest.raises(ForbiddenError, match="pods is forbidden"):
            await plugin.background.start()
    plugin.source.fail_with = None
    assert (await plugin.background.start()).has_synced
    assert plugin.notes.count("exited") == 2
    await plugin.background.stop()


async def test_many_callers_start_it_once_and_one_that_gives_up_stops_nothing() -> None:
    plugin = Plugin(MemorySource())
    plugin.source.fail_with = ConnectionResetError("not there yet")
    CALLER.set("a request")
    hasty = asyncio.ensure_future(asyncio.wait_for(plugin.background.start(), 0.1))
    patient = [asyncio.ensure_future(plugin.background.start()) for _ in range(3)]
    with pytest.raises(TimeoutError):
        await hasty
    plugin.source.fail_with = None
    assert len({id(informer) for informer in await asyncio.gather(*patient)}) == 1
    assert await plugin.background.start() is patient[0].result()
    assert plugin.notes == ["entered by none"]
    await plugin.background.stop()


async def test_a_stop_ends_a_start_that_waits_and_a_start_waits_for_a_stop() -> None:
    plugin = Plugin(MemorySource())
    plugin.source.fail_with = ConnectionResetError("not there")
    starting = asyncio.ensure_future(plugin.background.start())
    await asyncio.sleep(1)
    await plugin.background.stop()
    with pytest.raises(StoppedError):
        await starting
    plugin.source.fail_with = None
    first = await plugin.background.start()
    stopping = asyncio.ensure_future(plugin.background.stop())
    await asyncio.sleep(0)
    second = await plugin.background.start()
    assert second is not first
    assert first.health().state == "stopped"
    assert stopping.done()
    await plugin.background.stop()


async def test_what_leaving_raises_comes_out_of_stop() -> None:
    def give_up(informer: object, error: Exception) -> None:
        raise error

    source = MemorySource()

    @asynccontextmanager
    async def followed() -> AsyncIterator[SharedInformer]:
        async with SharedInformer(source, on_error=give_up) as informer:
            await informer.wait_synced(30)
            yield informer

    background = Background(followed)
    informer = await background.start()
    source.fail_with = ForbiddenError(403, "Forbidden", "no more")
    source.cut()
    await asyncio.sleep(60)
    assert informer.health().state == "stopped"
    with pytest.raises(ForbiddenError, match="no more"):
        await background.stop()


async def test_a_loop_that_ends_cancels_it_and_everything_is_left() -> None:
    plugin = Plugin(MemorySource())
    informer = await plugin.background.start()
    for task in others():
        if task.get_name() == "kinformer background":
            task.cancel()
            await asyncio.wait({task})
    assert plugin.notes == ["entered by none", "exited"]
    assert informer.health().state == "stopped"
    await plugin.background.stop()
    assert (await plugin.background.start()).has_synced
    await plugin.background.stop()
