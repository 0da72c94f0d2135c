"""Feeds a ledger what a reflector reads: events at once, full lists in slices that do not stall the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kinformer.clock import SYSTEM, Clock, YieldBudget
from kinformer.pieces import Pieces
from kinformer.shard_ledger import ShardLedger

__all__ = ["ShardFeed"]


class _Event(NamedTuple):
    """What is to be told the ledger, and how."""

    tell: Callable[[Any], None]
    what: Any


class _List(NamedTuple):
    """All that there is at a version."""

    items: Pieces[Any] | list[Any]
    version: str


class ShardFeed:
    """The store between a Reflector and a `ShardLedger`; `run` is what takes the lists in.

    What comes while a list is being taken in waits behind it, in its order, so the ledger is told of everything in the
    order of the server. Until a list has been taken in to its end the ledger shows the state before it.

    Args:
        ledger: Fed by nobody else.
        clock: For the slices.
    """

    takes_pieces = True

    def __init__(self, ledger: ShardLedger, *, clock: Clock = SYSTEM) -> None:
        self._ledger = ledger
        self._budget = YieldBudget(clock=clock)
        self._waiting: deque[_Event | _List] = deque()
        self._is_busy = False
        self._wake = asyncio.Event()

    # --- what a reflector calls -------------------------------------------------------------------------------

    def add(self, obj: Any) -> None:
        """An object was made, or has changed."""
        self._tell(self._ledger.add, obj)

    def update(self, obj: Any) -> None:
        """An object has changed."""
        self._tell(self._ledger.update, obj)

    def delete(self, obj: Any) -> None:
        """An object has gone."""
        self._tell(self._ledger.delete, obj)

    def bookmark(self, resource_version: str) -> None:
        """Nothing happened up to here."""
        self._tell(self._ledger.bookmark, resource_version)

    def resync(self) -> None:
        """Nothing to do: nobody listens to a ledger."""

    def replace(self, items: Pieces[Any] | list[Any], resource_version: str) -> None:
        """Everything that there is now; `run` takes it in, soon."""
        self._waiting.append(_List(items, resource_version))
        self._is_busy = True
        self._wake.set()

    def _tell(self, call: Callable[[Any], None], what: Any) -> None:
        if self._is_busy:
            self._waiting.append(_Event(call, what))
        else:
            call(what)

    # --- slices -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take in lists, and what came behind them, until cancelled.

        Raises:
            ValueError: A resourceVersion is no number.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._budget.restart()
            while self._waiting:
                one = self._waiting.popleft()
                if isinstance(one, _List):
                    await self._take_in(one)
                else:
                    one.tell(one.what)
                    await self._rest()
            self._is_busy = False

    async def _take_in(self, listed: _List) -> None:
        objects: Iterable[Any] = listed.items.drain() if isinstance(listed.items, Pieces) else listed.items
        for _ in self._ledger.replacing(objects, listed.version):
            await self._rest()

    async def _rest(self) -> None:
        if self._budget.exhausted():
            await self._budget.pause()
