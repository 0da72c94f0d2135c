"""A source of objects cut down to some slots, which may change while an informer follows it."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

from kinformer.exceptions import ExpiredError
from kinformer.list_watcher import ListerWatcher, ListOptions, ListPage, WatchEvent
from kinformer.listwatch.wrapper import ListerWatcherWrapper
from kinformer.objects.accessors import ends_initial_events
from kinformer.objects.object import UndecodableObject
from kinformer.sharding.slots import ALL_SLOTS, shard_selector, slot_of

__all__ = ["ShardSource", "controller_uid"]


def controller_uid(obj: Any) -> str | None:
    """The uid of an object's controlling owner; None where it has none."""
    return next((owner.uid for owner in obj.owner_references if owner.controller), None)


class ShardSource(ListerWatcherWrapper):
    """A `ListerWatcher` around another, for the objects of some slots.

    The server is asked for them alone, and what comes is checked in any case: servers without the gate
    ShardedListAndWatch send everything, and lists of custom resources never tell which it is. When the slots change,
    the watch ends as if its history were gone, so that the informer lists anew: objects of slots that were taken come
    as adds, those of slots that were given away go as deletes, and nothing in between is lost. Such a list, or stream,
    is the newest that there is, whatever version is asked for: who had the slots before may have written just now.

    Everything else that the inner source offers (`tip`, `presence`, `stats`) is offered here too.

    Args:
        inner: The source, without a shard selector of its own.
        uid_of: The uid whose slot counts; None leaves an object out. The object's own by default; for owned resources
            `controller_uid`, which no server filters by.

    Attributes:
        dropped: Objects and events that came and were not of our slots.
    """

    def __init__(self, inner: ListerWatcher, *, uid_of: Callable[[Any], str | None] | None = None) -> None:
        super().__init__(inner)
        self.dropped = 0
        self.slots: frozenset[int] = frozenset()
        self._uid_of = uid_of
        self._changes = 0
        self._listed = -1  # which of the changes the last list had
        self._handed = -1  # ... and the last list that the reflector has handed on
        self._waiting: asyncio.Timeout | None = None
        self._wake = asyncio.Event()

    def __repr__(self) -> str:
        return f"<ShardSource of {self._inner!r}: {len(self.slots)} slots>"

    @property
    def settled(self) -> bool:
        """All that is in the slots of now has been listed, and handed on."""
        return self._handed == self._changes

    def reshard(self, slots: Iterable[int]) -> None:
        """Have other slots from here on."""
        slots = frozenset(slots)
        if slots == self.slots:
            return
        self.slots = slots
        self._changes += 1
        self._wake.set()
        self._wake = asyncio.Event()
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def list(self, options: ListOptions) -> ListPage:
        """One page of what is in the slots; `items` is an async iterable of lists."""
        if not options.continue_token and options.limit != 1:
            # One object is asked for to see where the server stands: such a list is not what the watch goes on from.
            self._listed = self._changes
        if not self.slots:
            # Nothing is ours, but from somewhere the watch must go on: ask for one object, and drop it.
            page = await self._inner.list(options.replace(limit=1))
            return ListPage(self._kept(page, frozenset(), only_page=True), header=page.header)
        if not options.continue_token and options.limit != 1 and not self.settled:
            options = options.replace(resource_version=None, resource_version_match=None)
        page = await self._inner.list(self._narrowed(options))
        return ListPage(self._kept(page, self.slots), header=page.header)

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[builtins.list[WatchEvent]]]:
        """A stream of lists of events, until the slots change; then it raises ExpiredError."""
        return self._watch(options)

    @asynccontextmanager
    async def _watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        if options.send_initial_events:
            self._listed = self._changes
        if self._listed != self._changes:
            raise _resharded()
        if not options.send_initial_events:
            self._handed = self._listed
        elif not self.settled:
            options = options.replace(resource_version=None)
        if not self.slots:
            yield _Nothing(self._wake)
            return
        async with (
            self._inner.watch(self._narrowed(options)) as inner,
            aclosing(self._events(inner, self.slots, initial=bool(options.send_initial_events))) as events,
        ):
            yield events

    async def _events(
        self, inner: AsyncIterator[builtins.list[WatchEvent]], slots: frozenset[int], *, initial: bool
    ) -> AsyncGenerator[builtins.list[WatchEvent], None]:
        listed = self._listed
        while True:
            if listed != self._changes:
                raise _resharded()
            try:
                async with asyncio.timeout(None) as self._waiting:
                    events = await anext(inner)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if listed == self._changes:  # somebody else's
                    raise
                continue
            finally:
                self._waiting = None
            yield [event for event in events if self._concerns(event, slots)]
            if initial and any(event.type == "BOOKMARK" and ends_initial_events(event.object) for event in events):
                initial, self._handed = False, listed  # who asks for more has handed these on

    async def _kept(
        self, page: ListPage, slots: frozenset[int], *, only_page: bool = False
    ) -> AsyncGenerator[builtins.list[Any], None]:
        if isinstance(page.items, AsyncIterable):
            try:
                async for items in page.items:
                    yield [item for item in items if self._is_in(item, slots)]
            finally:
                if (close := getattr(page.items, "aclose", None)) is not None:
                    await close()
        else:
            yield [item for item in page.items if self._is_in(item, slots)]
        if only_page:
            page.continue_token = ""  # there are more objects, and none of them is in the slots

    def _concerns(self, event: WatchEvent, slots: frozenset[int]) -> bool:
        # Of what is left of an object nobody knows the slot; who has it cached is to let go of it.
        return event.type == "BOOKMARK" or type(event.object) is UndecodableObject or self._is_in(event.object, slots)

    def _is_in(self, obj: Any, slots: frozenset[int]) -> bool:
        uid = obj.uid if self._uid_of is None else self._uid_of(obj)
        if uid is not None and slot_of(uid) in slots:
            return True
        self.dropped += 1
        return False

    def _narrowed(self, options: ListOptions) -> ListOptions:
        if self._uid_of is not None or self.slots == ALL_SLOTS:
            return options
        return options.replace(shard_selector=shard_selector(self.slots))


class _Nothing:
    """The events of no slots: none, until there are some."""

    def __init__(self, wake: asyncio.Event) -> None:
        self._wake = wake

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        await self._wake.wait()
        raise _resharded()


def _resharded() -> ExpiredError:
    # With a delay of its own, since this is no failure that a growing one would help against.
    return ExpiredError(410, "Expired", "the slots have changed; everything is listed anew", retry_after=0.1)
