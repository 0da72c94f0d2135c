"""A follower of the keys of a collection, which uses only public members, so any class can be such a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.tasks import wait_for_end
from kinformer.exceptions import StoppedError
from kinformer.informer.collection import Collection, wait_until_synced

__all__ = ["KeyFollower"]


class KeyChanged(Protocol):
    """Takes a key that may have changed, and whether it exists. Returns True if the loop should run other tasks."""

    def __call__(self, key: str, /, *, is_there: bool) -> bool: ...


class KeyFollower:
    """Reports each key of a collection that changes. The cache, not the event, determines whether the key exists.

    So a key that was added and removed is reported as it is now, and a duplicate report does no harm.

    Args:
        collection: The collection, which may be entered later.
        name: The name of its event stream.
        changed: Called with each key that has changed.
        synced: A plain or coroutine function, called once all keys that existed at the start have been reported.
        ended: Called once when the collection has ended, with its error, or with a StoppedError if it was stopped.

    Raises:
        StoppedError: The collection was stopped. If it crashed, its error is raised instead.
    """

    def __init__(
        self,
        collection: Collection,
        name: str,
        *,
        changed: KeyChanged,
        synced: Callable[[], Awaitable[object] | None],
        ended: Callable[[Exception], object],
    ) -> None:
        self._collection = collection
        self._stream = collection.events(queue_size=None, name=name)
        self._changed = changed
        self._synced = synced
        self._ended = ended

    async def run(self) -> None:
        """Follow the collection until it ends."""
        parts = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._follow_first())]
        try:
            while not parts[0].done():
                await asyncio.wait({part for part in parts if not part.done()}, return_when=asyncio.FIRST_COMPLETED)
                for part in parts:
                    if part.done():
                        part.result()
            self._ended(StoppedError(f"{self._collection.name} was exited"))
        except Exception as error:  # noqa: BLE001 - the collection's error, which is passed to `ended`
            self._ended(error)
        finally:
            for part in parts:
                part.cancel()
            await wait_for_end(parts)

    async def _follow(self) -> None:
        budget = YieldBudget()
        async with self._stream as stream:
            async for event in stream:
                await self._report(event.key or event.object.key, budget)

    async def _follow_first(self) -> None:
        await wait_until_synced(self._collection)
        budget = YieldBudget()
        for key in self._collection.by_key:
            await self._report(key, budget)
        synced = self._synced()
        if synced is not None:
            await synced

    async def _report(self, key: str, budget: YieldBudget) -> None:
        wants_turn = self._changed(key, is_there=key in self._collection.by_key)
        if wants_turn or budget.exhausted():
            await budget.pause()
