"""The feed of a ledger: applies events immediately, and long lists in slices that do not stall the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, Clock, YieldBudget
from kinformer._runtime.tasks import Tasks
from kinformer.objects.meta import DeletedFinalStateUnknown, GroupVersionResource
from kinformer.reflector.reflector import Reflector
from kinformer.sharding.ledger import LedgerObject, ShardLedger
from kinformer.sharding.options import SourceFactory
from kinformer.sharding.source import NewestListSource

__all__ = ["LedgerFollower", "ShardFeed"]

Items = ChunkedList[LedgerObject] | list[LedgerObject]


class _FullList(NamedTuple):
    """All objects at a version."""

    items: Items
    version: str


class _Confirmation(NamedTuple):
    """The arguments of a call of `ShardLedger.confirm`."""

    seen: int | None
    asked: float
    forget_after: float


class ShardFeed:
    """The store between a Reflector and a `ShardLedger`. `run` applies lists and confirmations.

    Events that arrive while a list is applied wait behind it, so the ledger sees everything in the server's order.
    Until a list has been applied completely, the ledger shows the previous state.

    Args:
        ledger: The ledger, which nothing else may feed.
        clock: Times the slices.
    """

    def __init__(self, ledger: ShardLedger, *, clock: Clock = SYSTEM) -> None:
        self._ledger = ledger
        self._budget = YieldBudget(clock=clock)
        self._waiting: deque[_FullList | Callable[[], None]] = deque()
        self._confirmation: _Confirmation | None = None
        self._is_busy = False
        self._wake = asyncio.Event()

    # --- the methods of a reflector's store -------------------------------------------------------------------

    def add(self, obj: LedgerObject) -> None:
        """Record an object that was created or changed."""
        if self._is_busy:
            self._waiting.append(partial(self._ledger.add, obj))
        else:
            self._ledger.add(obj)

    update = add

    def delete(self, obj: LedgerObject | DeletedFinalStateUnknown) -> None:
        """Record the deletion of an object."""
        if self._is_busy:
            self._waiting.append(partial(self._ledger.delete, obj))
        else:
            self._ledger.delete(obj)

    def bookmark(self, resource_version: str) -> None:
        """Record that there are no more events up to this version."""
        if self._is_busy:
            self._waiting.append(partial(self._ledger.bookmark, resource_version))
        else:
            self._ledger.bookmark(resource_version)

    def resync(self) -> None:
        """Do nothing: a ledger has no handlers."""

    def replace(self, items: Items, resource_version: str) -> None:
        """Replace all objects. `run` applies the list soon."""
        self._waiting.append(_FullList(items, resource_version))
        self._is_busy = True
        self._wake.set()

    def confirm(self, seen: int | None, asked: float, forget_after: float) -> None:
        """Schedule a confirmation after everything that is waiting. Only the newest confirmation counts."""
        self._confirmation = _Confirmation(seen, asked, forget_after)
        self._wake.set()

    # --- slices -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Apply lists, the events behind them, and confirmations, until cancelled.

        Raises:
            ValueError: A resourceVersion is not a number.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._budget.enter()
            self._is_busy = True
            while self._waiting or self._confirmation is not None:
                if self._waiting:
                    await self._read_in(self._waiting.popleft())
                else:
                    confirmation, self._confirmation = self._confirmation, None
                    if confirmation is not None:
                        await self._in_slices(self._ledger.confirm_in_steps(*confirmation))
            self._is_busy = False

    async def _read_in(self, entry: _FullList | Callable[[], None]) -> None:
        if isinstance(entry, _FullList):
            items = entry.items
            objects: Iterable[LedgerObject] = items.drain() if isinstance(items, ChunkedList) else items
            await self._in_slices(self._ledger.replace_in_steps(objects, entry.version))
        else:
            entry()
            await self._pause_if_due()

    async def _in_slices(self, steps: Iterator[None]) -> None:
        for _ in steps:
            await self._pause_if_due()

    async def _pause_if_due(self) -> None:
        if self._budget.exhausted():
            await self._budget.pause()


class LedgerFollower:
    """Follows the metadata of a whole resource, and fills one ledger after another.

    Args:
        resource: The sharded resource.
        source: Creates its source.
        tasks: Owns the tasks of the reflector and the feed, and reports their crashes.
    """

    def __init__(self, resource: GroupVersionResource, source: SourceFactory, tasks: Tasks) -> None:
        self._resource = resource
        self._source = source
        self._tasks = tasks
        self._following: list[asyncio.Task[None]] = []
        self._feed: ShardFeed | None = None

    def follow_into(self, ledger: ShardLedger) -> None:
        """Fill a new ledger, beginning with a list requested from now on, and stop filling the previous one."""
        for task in self._following:
            task.cancel()
        source, feed = NewestListSource(self._source(self._resource, True)), ShardFeed(ledger)
        self._feed = feed
        reflector = Reflector(source, feed, name=f"{self._resource} (ledger)", watch_list=False)
        self._following = [
            self._tasks.start(feed.run(), f"kinformer ledger of {self._resource}"),
            self._tasks.start(reflector.run(), f"kinformer reflector of the ledger of {self._resource}"),
        ]

    def confirm(self, seen: int | None, asked: float, forget_after: float) -> None:
        """Schedule a confirmation. See `ShardLedger.confirm`."""
        if self._feed is not None:
            self._feed.confirm(seen, asked, forget_after)
