"""A source of objects that is limited to some slots, which may change while an informer follows it."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from kinformer.exceptions import ExpiredError
from kinformer.list_watcher import ListerWatcher, ListOptions, ListPage, WatchEvent
from kinformer.listwatch.wrapper import ListerWatcherWrapper
from kinformer.objects.accessors import ends_initial_events
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.sharding.slots import ALL_SLOTS, shard_selector, slot_of

__all__ = ["NewestListSource", "ShardSource", "controller_uid"]

UidOf = Callable[[KubeObject], str | None]


def controller_uid(obj: KubeObject) -> str | None:
    """Return the uid of an object's controlling owner, or None if it has none."""
    return next((owner.uid for owner in obj.owner_references if owner.controller), None)


class ShardSource(ListerWatcherWrapper):
    """A `ListerWatcher` around another one, limited to the objects of some slots.

    The server is asked for these objects only, and every object is checked in any case, because servers without the
    feature gate ShardedListAndWatch send everything, and lists of custom resources do not show which it is. A change of
    the slots ends the watch as if its history had expired, so that the informer lists again. Objects of added slots are
    then added, objects of removed slots are deleted, and nothing in between is lost. Such a list or initial stream has
    the newest state of the server regardless of the requested version, because the replica that had the slots before
    may have just written.

    Everything else that the inner source offers (`tip`, `presence`, `stats`) is offered here too.

    Args:
        inner: The source, without a shard selector of its own.
        uid_of: Returns the uid whose slot counts, or None to leave an object out. By default the object's own uid. For
            owned resources `controller_uid`, by which no server can filter.

    Attributes:
        slots: The current slots.
        dropped: Objects and events received that are in none of the slots.
    """

    def __init__(self, inner: ListerWatcher, *, uid_of: UidOf | None = None) -> None:
        super().__init__(inner)
        self.dropped = 0
        self.slots: frozenset[int] = frozenset()
        self._uid_of = uid_of
        self._changes = 0  # the number of changes of the slots
        self._listed = -1  # the number of changes at the last list
        self._passed_on = -1  # the number of changes at the last list that the reflector has passed on
        self._waiting: asyncio.Timeout | None = None
        self._changed = asyncio.Event()

    selects_all = False

    def selects(self, obj: KubeObject) -> bool:
        """Return False if the object is in none of the current slots, or if the inner source leaves it out."""
        uid = obj.uid if self._uid_of is None else self._uid_of(obj)
        return uid is not None and slot_of(uid) in self.slots and self._inner.selects(obj)

    def __repr__(self) -> str:
        return f"<ShardSource of {self._inner!r}: {len(self.slots)} slots>"

    @property
    def settled(self) -> bool:
        """True if everything in the current slots has been listed, and passed on by the reflector."""
        return self._passed_on == self._changes

    def set_slots(self, slots: Iterable[int]) -> None:
        """Change the slots. A running watch ends, so that its informer lists again."""
        slots = frozenset(slots)
        if slots == self.slots:
            return
        self.slots = slots
        self._changes += 1
        self._changed.set()
        self._changed = asyncio.Event()
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def list(self, options: ListOptions) -> ListPage:
        """List one page of the objects in the slots. `items` is an async iterable of lists."""
        if not options.continue_token and options.limit != 1:
            # A list of one object only asks for the server's newest version, and is not continued by a watch.
            self._listed = self._changes
        if not self.slots:
            # There are no slots, but the watch must continue from some version, so request one object and drop it.
            page = await self._inner.list(options.replace(limit=1))
            return ListPage(self._items_in(page, frozenset(), is_only_page=True), header=page.header)
        if not options.continue_token and options.limit != 1 and not self.settled:
            options = options.replace(resource_version=None, resource_version_match=None)
        page = await self._inner.list(self._with_selector(options))
        return ListPage(self._items_in(page, self.slots), header=page.header)

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[builtins.list[WatchEvent]]]:
        """Open a stream of lists of events, which raises ExpiredError when the slots change."""
        return self._watch(options)

    @asynccontextmanager
    async def _watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        if options.send_initial_events:
            self._listed = self._changes
        if self._listed != self._changes:
            raise _slots_changed()
        if not options.send_initial_events:
            self._passed_on = self._listed
        elif not self.settled:
            options = options.replace(resource_version=None)
        if not self.slots:
            yield _NoEvents(self._changed)
            return
        async with (
            self._inner.watch(self._with_selector(options)) as inner,
            aclosing(self._events(inner, self.slots, initial=bool(options.send_initial_events))) as events,
        ):
            yield events

    async def _events(
        self, inner: AsyncIterator[builtins.list[WatchEvent]], slots: frozenset[int], *, initial: bool
    ) -> AsyncGenerator[builtins.list[WatchEvent], None]:
        listed = self._listed
        while True:
            if listed != self._changes:
                raise _slots_changed()
            try:
                async with asyncio.timeout(None) as self._waiting:
                    events = await anext(inner)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if listed == self._changes:  # not the timeout of `set_slots`
                    raise
                continue
            finally:
                self._waiting = None
            yield [event for event in events if self._is_relevant(event, slots)]
            if initial and any(event.type == "BOOKMARK" and ends_initial_events(event.object) for event in events):
                initial, self._passed_on = False, listed  # a reader that asks for more has passed these events on

    async def _items_in(
        self, page: ListPage, slots: frozenset[int], *, is_only_page: bool = False
    ) -> AsyncGenerator[builtins.list[KubeObject], None]:
        if isinstance(page.items, AsyncIterable):
            try:
                async for items in page.items:
                    yield [item for item in items if self._is_in(item, slots)]
            finally:
                if (close := getattr(page.items, "aclose", None)) is not None:
                    await close()
        else:
            yield [item for item in page.items if self._is_in(item, slots)]
        if is_only_page:
            page.continue_token = ""  # the server has more objects, but none is in the slots

    def _is_relevant(self, event: WatchEvent, slots: frozenset[int]) -> bool:
        # The slot of an undecodable object is unknown, and a cache that holds the object must remove it.
        return event.type == "BOOKMARK" or type(event.object) is UndecodableObject or self._is_in(event.object, slots)

    def _is_in(self, obj: KubeObject, slots: frozenset[int]) -> bool:
        uid = obj.uid if self._uid_of is None else self._uid_of(obj)
        if uid is not None and slot_of(uid) in slots:
            return True
        self.dropped += 1
        return False

    def _with_selector(self, options: ListOptions) -> ListOptions:
        if self._uid_of is not None or self.slots == ALL_SLOTS:
            return options
        return options.replace(shard_selector=shard_selector(self.slots))


class _NoEvents:
    """The stream for no slots: it has no events, and expires when the slots change."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        await self._changed.wait()
        raise _slots_changed()


def _slots_changed() -> ExpiredError:
    # With a delay of its own, because this is not a failure that needs backoff.
    return ExpiredError(410, "Expired", "the slots have changed; listing everything again", retry_after=0.1)


class NewestListSource(ListerWatcherWrapper):
    """A source whose lists have the newest state, because the server's cache may be older than the membership."""

    async def list(self, options: ListOptions) -> ListPage:
        """List one page of the newest state."""
        if options.resource_version == "0":
            options = options.replace(resource_version=None)
        return await self._inner.list(options)

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[builtins.list[WatchEvent]]]:
        """Open the inner source's stream."""
        return self._inner.watch(options)
