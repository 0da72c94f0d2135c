"""The initial stream of a WatchList (KEP-3157): collects its events, and decides when to list instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, YieldBudget
from kinformer._runtime.partitioned_dict import PartitionedDict
from kinformer.exceptions import WatchError
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import Known, ends_initial_events, key_of, known_or_new, resource_version_of
from kinformer.objects.object import UndecodableObject
from kinformer.reflector.timeouts import IdleTimeout
from kinformer.reflector.watch import Follower, Stream

__all__ = ["FALLBACK_SECONDS", "INITIAL_SILENCE", "InitialEvents", "StreamedInitialEvents", "WatchListChoice"]

# Seconds without an initial event, after which the end bookmark is given up. The API server sends its objects without a
# pause, and waits 3 s at most to reach the requested version; some proxies swallow the bookmark (kubernetes#140890).
INITIAL_SILENCE = 30.0
# Seconds for which automatic mode lists after a stream did not work: a server without the feature is tried once an
# hour, and one that was upgraded is noticed within that time.
FALLBACK_SECONDS = 3600.0
SLICE = 256  # events between two looks at the clock


class WatchListChoice:
    """Decides if the next full list is requested as a stream.

    Args:
        mode: True for always, False for never; None for a stream, except in the hour after one did not work.
        now: The clock of that hour.

    Attributes:
        mode: See above.
        failures: The number of consecutive streams that failed.
    """

    def __init__(self, mode: bool | None, now: Callable[[], float]) -> None:
        self.mode = mode
        self._now = now
        self._list_until: float | None = None
        self.failures = 0

    @property
    def may_list(self) -> bool:
        """True if a list may be requested instead of a stream that fails."""
        return self.mode is None

    @property
    def has_fallen_back(self) -> bool:
        """True if a stream did not work before, so that lists were made."""
        return self._list_until is not None

    @property
    def wanted(self) -> bool:
        """True if the next full list is requested as a stream."""
        if self.mode is not None:
            return self.mode
        return self._list_until is None or self._now() >= self._list_until

    def fall_back(self) -> None:
        """Record that streams do not work here, and list for an hour."""
        self._list_until = self._now() + FALLBACK_SECONDS
        self.failures = 0

    def worked(self) -> None:
        """Record that the end bookmark of a stream came."""
        self.failures = 0
        self._list_until = None


class InitialEvents:
    """Collects the events of an initial stream: the newest state of each object, by key.

    The resourceVersions of these events are unordered, so only that of the end bookmark is used (client-go,
    tools/cache/reflector.go, `watchList`).

    Args:
        known: `known` of the store. An object that the store has already is kept instead of a second copy.

    Attributes:
        resource_version: The version of the end bookmark; "" before it.
        received: The number of events that have come.
        live: True once an event other than an ADDED has come. The end bookmark is due then: a server that does not
            support initial streams sends such events without end.
    """

    def __init__(self, known: Known | None) -> None:
        self._known = known
        # Partitioned, because resizing a plain dict of 100,000 keys takes 10 ms.
        self._objects: PartitionedDict[str, object] = PartitionedDict()
        self.resource_version = ""
        self.received = 0
        self.live = False

    @property
    def progress(self) -> str:
        """The progress of the stream."""
        if not self.received:
            return "the initial stream is open, and no object has come yet"
        return f"still listing: {self.received:,} objects of the initial stream so far"

    def feed(self, events: Sequence[WatchEvent]) -> int | None:
        """Take events; return the number of them up to the end bookmark, including it, or None if it has not come."""
        objects, known = self._objects, self._known
        for number, (kind, obj) in enumerate(events, 1):
            if kind == "ADDED":
                objects[key_of(obj)] = known_or_new(known, obj)
                continue
            if type(obj) is UndecodableObject:  # may come of an ADDED, so it does not show that the end is due
                objects.pop(obj.key)
                continue
            self.live = True
            if kind == "MODIFIED":
                objects[key_of(obj)] = known_or_new(known, obj)
            elif kind == "DELETED":
                objects.pop(key_of(obj))
            elif self._is_end(kind, obj):
                return number
        return None

    def _is_end(self, kind: str, obj: object) -> bool:
        """True if this is the end bookmark, whose version is kept; WatchError if it is not a bookmark."""
        if kind != "BOOKMARK":
            raise WatchError(f"an event of the initial stream has the unknown type {kind!r}")
        if not ends_initial_events(obj):
            return False
        self.resource_version = resource_version_of(obj)
        return True

    async def collect(self, stream: Stream, timeout: IdleTimeout, budget: YieldBudget) -> Sequence[WatchEvent] | None:
        """Take events up to the end bookmark; return those after it, or None if the stream ended before.

        Only initial events count as signs of life for the timeout: bytes, bookmarks and live events do not show that
        the end is near.
        """
        async for events in stream:
            for start in range(0, len(events), SLICE):
                end = self.feed(events[start : start + SLICE])
                self.received += min(SLICE, len(events) - start)
                if end is not None:
                    return events[start + end :]
                if not self.live:
                    timeout.heard = SYSTEM.loop()
                await self._room(timeout)
                if budget.exhausted():
                    await budget.pause()
        return None

    async def _room(self, timeout: IdleTimeout) -> None:
        """Wait for the store, if it may make the reflector wait."""

    async def take(self, budget: YieldBudget) -> ChunkedList[object]:
        """Return the objects, and release them here."""
        objects, self._objects = self._objects, PartitionedDict()
        chunks: ChunkedList[object] = ChunkedList()
        while objects.partitions:  # one by one, because freeing 100,000 keys at once stalls the loop
            chunks.add_table(objects.partitions.pop())
            if budget.exhausted():
                await budget.pause()
        return chunks


class StreamedInitialEvents(InitialEvents):
    """Hands the events of an initial stream to a store as they come, and holds none of them.

    Args:
        follower: Its store is a `StreamingStore`.
    """

    def __init__(self, follower: Follower) -> None:
        super().__init__(None)
        assert follower.streaming is not None
        self._follower = follower
        self._sink = follower.streaming.sink()

    def feed(self, events: Sequence[WatchEvent]) -> int | None:
        """Take events like `InitialEvents.feed`."""
        sink = self._sink
        for number, (kind, obj) in enumerate(events, 1):
            if type(obj) is UndecodableObject:
                sink.discard(obj.key, None)
                continue
            self.live = self.live or kind != "ADDED"
            if kind in ("ADDED", "MODIFIED"):
                sink.put(obj)
            elif kind == "DELETED":
                sink.discard(key_of(obj), obj)
            elif self._is_end(kind, obj):
                return number
        return None

    async def _room(self, timeout: IdleTimeout) -> None:
        await self._follower.room(timeout)

    async def take(self, budget: YieldBudget) -> ChunkedList[object]:
        """Return what the store's `replace` shall get."""
        return self._sink.result()
