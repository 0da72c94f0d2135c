"""Feeds a ledger what a reflector reads: events at once, and what is much in slices that do not stall the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, Clock, YieldBudget
from kinformer.sharding.ledger import ShardLedger

__all__ = ["ShardFeed"]


class _Event(NamedTuple):
    """What is to be told the ledger, and how."""

    tell: Callable[[Any], None]
    what: Any


class _List(NamedTuple):
    """All that there is at a version."""

    items: ChunkedList[Any] | list[Any]
    version: str


class _Confirmed(NamedTuple):
    """What the others have seen; see `ShardLedger.confirmed`."""

    seen: int | None
    asked: float
    forget_after: float


class ShardFeed:
    """The store between a Reflector and a `ShardLedger`; `run` is what takes in lists, and what others have confirmed.

    What comes while a list is being taken in waits behind it, in its order, so the ledger is told of everything in the
    order of the server. Until a list has been taken in to its end the ledger shows the state before it.

    Args:
        ledger: Fed by nobody else.
        clock: For the slices.
    """

    takes_chunks = True

    def __init__(self, ledger: ShardLedger, *, clock: Clock = SYSTEM) -> None:
        self._ledger = ledger
        self._budget = YieldBudget(clock=clock)
        self._waiting: deque[_Event | _List] = deque()
        self._confirmed: _Confirmed | None = None
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

    def replace(self, items: ChunkedList[Any] | list[Any], resource_version: str) -> None:
        """Everything that there is now; `run` takes it in, soon."""
        self._waiting.append(_List(items, resource_version))
        self._is_busy = True
        self._wake.set()

    def _tell(self, call: Callable[[Any], None], what: Any) -> None:
        if self._is_busy:
            self._waiting.append(_Event(call, what))
        else:
            call(what)

    def confirm(self, seen: int | None, asked: float, forget_after: float) -> None:
        """Tell the ledger what the others have seen, soon, and behind what waits; the newest counts."""
        self._confirmed = _Confirmed(seen, asked, forget_after)
        self._wake.set()

    # --- slices -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take in lists and what came behind them, and what was confirmed, until cancelled.

        Raises:
            ValueError: A resourceVersion is no number.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._budget.restart()
            self._is_busy = True
            while self._waiting or self._confirmed is not None:
                if self._waiting:
                    await self._take(self._waiting.popleft())
                else:
                    confirmed, self._confirmed = self._confirmed, None
                    if confirmed is not None:
                        await self._in_slices(self._ledger.confirming(*confirmed))
            self._is_busy = False

    async def _take(self, one: _Event | _List) -> None:
        if isinstance(one, _List):
            objects: Iterable[Any] = one.items.drain() if isinstance(one.items, ChunkedList) else one.items
            await self._in_slices(self._ledger.replacing(objects, one.version))
        else:
            one.tell(one.what)
            await self._rest()

    async def _in_slices(self, steps: Iterator[None]) -> None:
        for _ in steps:
            await self._rest()

    async def _rest(self) -> None:
        if self._budget.exhausted():
            await self._budget.pause()
