"""Wrappers around sources that pass objects through a function."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from operator import attrgetter
from typing import Any

from kinformer._runtime.clock import YieldBudget
from kinformer.exceptions import WatchError
from kinformer.list_watcher import ABILITIES, ListerWatcher, ListOptions, ListPage, Source, WatchEvent, source_of
from kinformer.listwatch.pages import map_page
from kinformer.objects.object import KubeObject

__all__ = ["ConvertingListerWatcher", "ListerWatcherWrapper"]


class ListerWatcherWrapper(Source):
    """A source that modifies another source's objects. Abilities that it does not have itself are the other's."""

    def __init__(self, inner: ListerWatcher) -> None:
        self._inner = source_of(inner)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._inner!r}>"


for _name in ABILITIES:
    setattr(ListerWatcherWrapper, _name, property(attrgetter(f"_inner.{_name}")))


class ConvertingListerWatcher(ListerWatcherWrapper, ABC):
    """A source that converts the objects of another one by one, in slices of 1 ms.

    Order, errors and cancellation are the same as for the inner source. Empty lists of events pass unchanged.
    """

    @abstractmethod
    def convert_object(self, obj: Any) -> KubeObject | None:
        """Convert an object of a list, or return None to leave it out."""

    @abstractmethod
    def convert_event(self, event: WatchEvent) -> WatchEvent:
        """Convert an event of a watch. A WatchError ends the stream after the events before it."""

    async def list(self, options: ListOptions) -> ListPage:
        """List one page. `items` is an async iterable of lists."""
        return map_page(await self._inner.list(options), self.convert_objects)

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        """Open a stream of lists of converted events."""
        async with self._inner.watch(options) as inner, aclosing(self._events(inner)) as events:
            yield events

    async def convert_objects(self, objects: Iterable[Any]) -> builtins.list[KubeObject]:
        """Convert objects of a list. The result belongs to the caller."""
        budget = YieldBudget()
        converted: builtins.list[KubeObject] = []
        for obj in objects:
            result = self.convert_object(obj)
            if result is not None:
                converted.append(result)
            if self._must_pause(budget):
                await self._pause(budget)
        return converted

    async def _events(
        self, inner: AsyncIterator[builtins.list[WatchEvent]]
    ) -> AsyncGenerator[builtins.list[WatchEvent], None]:
        budget = YieldBudget()
        async for events in inner:
            budget.enter()
            converted: builtins.list[WatchEvent] = []
            try:
                for event in events:
                    converted.append(self.convert_event(event))
                    if self._must_pause(budget):
                        await self._pause(budget)
            except WatchError:
                if converted:
                    yield converted
                raise
            yield converted

    def _must_pause(self, budget: YieldBudget) -> bool:
        return budget.exhausted()

    async def _pause(self, budget: YieldBudget) -> None:
        await budget.pause()
