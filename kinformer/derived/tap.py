"""The tap: the input of a derived collection from one of its sources."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from kinformer._runtime.chunks import ChunkedList
from kinformer.derived.entries import Entry, EntryChange, ValueView, owners_of
from kinformer.derived.reads import OWNER_INDEX
from kinformer.informer.collection import Collection, core_of
from kinformer.informer.core import CollectionCore
from kinformer.processor.mailbox import ADD, DELETE, SYNC, Notification
from kinformer.processor.publisher import Publisher

__all__ = ["ComputedCore", "Source", "Tap"]

_AT_ONCE = 2048  # objects that are indexed without a pause: about a millisecond


class ComputedCore(CollectionCore):
    """The core of a derived collection, as the engines of others see it.

    Attributes:
        height: One more than the height of the highest collection that it reads. An informer has height 0.
    """

    height: int

    @property
    @abstractmethod
    def is_held(self) -> bool:
        """True while a cache that it reads, directly or indirectly, is ahead of its receivers."""

    @abstractmethod
    def way_to(self, core: ComputedCore) -> list[str] | None:
        """Return the names on the path to a collection that it reads, directly or indirectly, or None if not read."""

    @abstractmethod
    def read_by(self, core: ComputedCore) -> None:
        """Record that another collection reads this one, so that its height follows."""

    @abstractmethod
    def left_by(self, core: ComputedCore) -> None:
        """Record that another collection no longer reads this one."""

    @abstractmethod
    def rise(self, height: int) -> None:
        """Raise the height to at least `height`, and the heights of the collections that read this one above it."""


class Source:
    """The port of derived collections: a collection, as the engine of another reads it.

    Args:
        collection: The collection, whose reads functions use, such as reads with a model.
        core: Its core, or the core of its mirror for one of the program's own collections.

    Attributes:
        computed: The core of a derived collection, and otherwise None.
        indexer: The reads that functions use.
        view: Converts a cached entry to the object that a function gets.
    """

    __slots__ = ("_collection", "computed", "core", "indexer", "view")

    def __init__(self, collection: Collection, core: CollectionCore) -> None:
        self._collection = collection  # kept, so that no other collection gets its id
        self.core = core
        self.computed = core if isinstance(core, ComputedCore) else None
        face: Any = collection
        # A class of the program may have something else under this name.
        self.indexer: Any = face.indexer if core_of(face) is core else ValueView(core.publisher.cache)
        self.view: Callable[[Any], Any] = self.indexer.view

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.core.name

    def reads_as(self, other: Source) -> bool:
        """Return True if another source has the same collection and the same reads."""
        return self.core is other.core and self.view == other.view

    @property
    def publisher(self) -> Publisher:
        """The cache of the collection, and its receivers."""
        return self.core.publisher


class Tap:
    """Receives the changes of one collection, and keeps them until the engine works.

    Args:
        source: The collection.
        number: Identifies it in the reads of the engine.
        wake: Schedules the work of the engine.
        ended: Called with the error when the collection was exited or has crashed.
        with_state: True to begin with all cached objects. False to receive only later changes.
    """

    def __init__(
        self,
        source: Source,
        number: int,
        *,
        wake: Callable[[], None],
        ended: Callable[[BaseException], None],
        with_state: bool,
    ) -> None:
        self.source = source
        self.number = number
        self.is_synced = False
        self._wake = wake
        self._ended = ended
        self._with_state = with_state
        self._is_ready: bool | None = None
        self._building: asyncio.Future[None] | None = None
        self._replays: deque[Iterator[Entry]] = deque()
        self._calls: deque[Notification] = deque()

    def attach(self) -> None:
        """Start receiving."""
        self.source.publisher.attach(self)
        self.source.publisher.on_settled.append(self._wake)

    def detach(self) -> None:
        """Stop receiving."""
        self.source.publisher.detach(self)
        if self._wake in self.source.publisher.on_settled:
            self.source.publisher.on_settled.remove(self._wake)
        if self._building is not None:
            self._building.cancel()
        self._replays.clear()
        self._calls.clear()

    # --- the side of the collection ---------------------------------------------------------------

    def put(self, batch: Sequence[Notification], initial: int = 0, /) -> None:
        """Keep some changes, in their order."""
        self._calls.extend(batch)
        self._wake()

    def replay(self, objects: ChunkedList[Entry], /) -> None:
        """Keep the initial state of the collection."""
        if self._with_state and len(objects):
            self._replays.append(iter(objects))
            self._wake()

    def upstream_synced(self) -> None:
        """Record that the state is complete."""
        self.is_synced = True
        self._wake()

    def fail(self, error: BaseException, /) -> None:
        """Report that the collection has ended."""
        self._ended(error)

    # --- the side of the engine -------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """True while a cache behind the collection is ahead of its receivers."""
        computed = self.source.computed
        return self.source.publisher.is_settling or (computed is not None and computed.is_held)

    @property
    def is_ready(self) -> bool:
        """True if the collection is complete, and up to date with its own sources.

        Evaluated once in a turn of the engine, in which nothing else runs.
        """
        if self._is_ready is None:
            is_new = not self.is_held and not self.source.core.has_work
            self._is_ready = self.is_synced and not self.is_building and is_new
        return self._is_ready

    @property
    def is_building(self) -> bool:
        """True while an index that is read is being built."""
        return self._building is not None and not self._building.done()

    def begin_turn(self) -> None:
        """Evaluate `is_ready` again."""
        self._is_ready = None

    def index_owners(self) -> None:
        """Index the collection by the uids of owners. A large collection is not ready until this is done."""
        cache = self.source.publisher.cache
        if OWNER_INDEX in cache.index_names or self._building is not None:
            return
        if len(cache) <= _AT_ONCE:
            cache.add_indexers({OWNER_INDEX: owners_of})
            return
        self._building = asyncio.ensure_future(cache.build_indexers({OWNER_INDEX: owners_of}))
        self._building.add_done_callback(self._built)
        self._is_ready = False

    def _built(self, building: asyncio.Future[None]) -> None:
        if not building.cancelled() and (error := building.exception()) is not None:
            self._ended(error)
        self._wake()

    @property
    def is_empty(self) -> bool:
        """True if nothing is waiting here."""
        return not self._calls and not self._replays

    def take(self, count: int) -> Iterable[EntryChange]:
        """Take up to `count` changes: first the initial state, then the later changes."""
        while self._replays:
            taken = [(entry.key, None, entry) for entry in islice(self._replays[0], count)]
            if taken:
                return taken
            self._replays.popleft()
        calls = self._calls
        return [_change(calls.popleft()) for _ in range(min(count, len(calls)))]


def _change(call: Notification) -> EntryChange:
    kind, key, old, new, _ = call
    if kind == DELETE:
        return key, old, None
    if kind in (ADD, SYNC):
        return key, None if kind == ADD else new, new
    return key, old, new
