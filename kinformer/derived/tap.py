"""The tap, which is the input of a derived collection from one of its sources, and the graph that the taps make."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kinformer._runtime.chunks import ChunkedList
from kinformer.derived.entries import Entry, EntryChange, ValueView, owners_of
from kinformer.derived.reads import OWNER_INDEX
from kinformer.informer.collection import Collection, core_of
from kinformer.informer.core import CollectionCore
from kinformer.processor.mailbox import ADD, DELETE, SYNC, Notification
from kinformer.processor.publisher import Publisher
from kinformer.reflector.health import InformerHealth

__all__ = ["Behind", "CollectionSource", "ComputedCore", "Tap"]

_AT_ONCE = 2048  # objects that are indexed without a pause: about a millisecond


class Behind(NamedTuple):
    """The publishers of the informers behind a derived collection.

    Attributes:
        links: The number of the propagation's `links` at which they were found.
    """

    links: int
    publishers: list[Publisher]


class ComputedCore(CollectionCore):
    """The core of a derived collection, as the engines of others see it.

    Walks through the collections behind it visit each one once, and use no stack: there may be many paths to one, and a
    path may be long.

    `rise` changes the height, and `read_by` and `left_by` the readers. The engine changes the taps and `behind`.

    Attributes:
        height: One more than the height of the highest collection that it reads. An informer has height 0.
        taps: One tap per collection that it reads, in the order in which reading began.
        readers: The derived collections that read this one.
        behind: The informers behind it, as they were last found.
    """

    height: int
    taps: list[Tap]
    readers: list[ComputedCore]
    behind: Behind

    @property
    @abstractmethod
    def is_held(self) -> bool:
        """True while a cache that it reads, directly or indirectly, is ahead of its receivers."""

    @property
    @abstractmethod
    def has_own_work(self) -> bool:
        """True if some changes that its sources have delivered are not in its values yet."""

    @abstractmethod
    def inputs(self, member: str = "") -> Sequence[CollectionSource]:
        """Return the current sources, or the first ones before it has been entered.

        Args:
            member: In unions by name, only the source of this member is returned, or all if it is "".
        """

    @abstractmethod
    def waits_for(self) -> tuple[list[str], list[tuple[str, CollectionCore]]]:
        """Return why its values are not complete: its own reasons, and the names and cores of incomplete sources."""

    @abstractmethod
    def blocked_by(self, strict: bool) -> list[CollectionCore]:
        """Return the sources that its first sync waits for. See `refusals`."""

    @abstractmethod
    def health_from(self, healths: Mapping[CollectionCore, InformerHealth]) -> InformerHealth:
        """Return the health, given that of the sources."""

    def walk(self, inputs: Callable[[ComputedCore], Iterable[CollectionSource]]) -> Iterator[CollectionCore]:
        """Yield the collections that it reads, directly or indirectly, and itself, each after those that it reads."""
        seen: set[CollectionCore] = {self}
        path: list[tuple[CollectionCore, Iterator[CollectionSource]]] = [(self, iter(inputs(self)))]
        while path:
            core, rest = path[-1]
            source = next((candidate for candidate in rest if candidate.core not in seen), None)
            if source is None:
                path.pop()
                yield core
            else:
                seen.add(source.core)
                path.append((source.core, iter(() if source.computed is None else inputs(source.computed))))

    def way_to(self, core: ComputedCore) -> list[str] | None:
        """Return the names on the path to a collection that it reads, directly or indirectly, or None if not read."""
        came_from: dict[ComputedCore, ComputedCore | None] = {self: None}
        waiting: list[ComputedCore] = [self]
        while waiting:
            current = waiting.pop()
            if current is core:
                names, step = [current.name], came_from[current]
                while step is not None:
                    names.append(step.name)
                    step = came_from[step]
                return names[::-1]
            for source in current.inputs():
                if source.computed is not None and source.computed not in came_from:
                    came_from[source.computed] = current
                    waiting.append(source.computed)
        return None

    def read_by(self, core: ComputedCore) -> None:
        """Record that another collection reads this one, so that its height follows."""
        self.readers.append(core)

    def left_by(self, core: ComputedCore) -> None:
        """Record that another collection no longer reads this one."""
        if core in self.readers:
            self.readers.remove(core)

    def rise(self, height: int) -> None:
        """Raise the height to at least `height`, and the heights of the collections that read this one above it."""
        rising: list[tuple[ComputedCore, int]] = [(self, height)]
        while rising:
            core, least = rising.pop()
            if least > core.height:
                core.height = least
                rising.extend((reader, least + 1) for reader in core.readers)


class CollectionSource:
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

    def reads_as(self, other: CollectionSource) -> bool:
        """Return True if another source has the same collection and the same reads."""
        return self.core is other.core and self.view == other.view

    @property
    def publisher(self) -> Publisher:
        """The cache of the collection, and its receivers."""
        return self.core.publisher


class Tap:
    """Receives the changes of one collection, and keeps them until the engine works.

    The collection adds changes by `put` and `replay`, and the engine removes them by `take`.

    Args:
        source: The collection.
        number: Identifies it in the reads of the engine.
        wake: Schedules the work of the engine.
        ended: Called with the tap and the error when the collection was exited or has crashed, or when its cluster has
            left a fleet.
        with_state: True to begin with all cached objects. False to receive only later changes.

    Attributes:
        is_synced: True once the state of the collection is complete.
        error: The error with which the collection has ended, set by the engine, or None.
    """

    filters = False

    def __init__(
        self,
        source: CollectionSource,
        number: int,
        *,
        wake: Callable[[], None],
        ended: Callable[[Tap, BaseException], None],
        with_state: bool,
    ) -> None:
        self.source = source
        self.number = number
        self.is_synced = False
        self.error: BaseException | None = None
        self._wake = wake
        self._ended = ended
        self._with_state = with_state
        self._is_ready: bool | None = None
        self._has_worked = False  # True once the engine had a turn, for which all lower ones have worked
        self._building: asyncio.Future[None] | None = None
        self._replays: deque[Iterator[Entry]] = deque()
        self._calls: deque[Notification] = deque()

    def attach(self) -> None:
        """Start receiving."""
        self.source.publisher.attach(self)
        self.source.publisher.on_settled.append(self._wake)
        self.source.core.on_departed.append(self.fail)

    def detach(self) -> None:
        """Stop receiving."""
        self.source.publisher.detach(self)
        if self._wake in self.source.publisher.on_settled:
            self.source.publisher.on_settled.remove(self._wake)
        if self.fail in self.source.core.on_departed:
            self.source.core.on_departed.remove(self.fail)
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
        self._ended(self, error)

    # --- the side of the engine -------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True if the collection is complete, and up to date with its own sources.

        Evaluated once in a turn of the engine, in which nothing else runs.
        """
        if self._is_ready is None:
            is_complete = self.is_synced and not self.is_building
            self._is_ready = is_complete and (self._has_worked or self._is_new())
        return self._is_ready

    def _is_new(self) -> bool:
        core, computed = self.source.core, self.source.computed
        is_held = core.publisher.is_settling or (computed is not None and computed.is_held)
        return not is_held and not core.has_work

    @property
    def is_building(self) -> bool:
        """True while an index that is read is being built."""
        return self._building is not None and not self._building.done()

    def begin_turn(self) -> None:
        """Evaluate `is_ready` again. What the engine reads has no work left, or it would not have a turn."""
        self._is_ready = None
        self._has_worked = True

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
            self.fail(error)
        self._wake()

    @property
    def is_empty(self) -> bool:
        """True if nothing is waiting here."""
        return not self._calls and not self._replays

    def take(self) -> EntryChange | None:
        """Take the next change: first those of the initial state, then the later ones. None if there is none."""
        while self._replays:
            if (entry := next(self._replays[0], None)) is not None:
                return entry.key, None, entry
            self._replays.popleft()
        return _change(self._calls.popleft()) if self._calls else None


def _change(call: Notification) -> EntryChange:
    kind, key, old, new, _ = call
    if kind == DELETE:
        return key, old, None
    if kind in (ADD, SYNC):
        return key, None if kind == ADD else new, new
    return key, old, new
