"""The initial stream of a WatchList (KEP-3157): collects its events, and decides when to list instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, YieldBudget
from kinformer._runtime.partitioned_dict import PartitionedDict
from kinformer.cache.indexer import is_newer
from kinformer.exceptions import WatchError
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import (
    Known,
    ends_initial_events,
    is_gone,
    key_of,
    known_or_new,
    resource_version_of,
    uid_of,
)
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.reflector.follower import Follower, Stream
from kinformer.reflector.timeouts import IdleTimeout

__all__ = ["FALLBACK_SECONDS", "INITIAL_SILENCE", "InitialEvents", "WatchListChoice", "initial_events"]

# Seconds without an initial event after which to stop waiting for the end bookmark. The API server sends its objects
# without a pause, and waits at most 3 s to reach the requested version. Some proxies swallow the bookmark
# (kubernetes#140890).
INITIAL_SILENCE = 30.0
# Seconds for which automatic mode lists after a stream has failed. A server without the feature is tried once an hour,
# and an upgraded server is detected within that time.
FALLBACK_SECONDS = 3600.0
SLICE = 256  # events between two checks of the clock


class WatchListChoice:
    """Decides whether the next full list is requested as a stream.

    Args:
        mode: True for always, False for never. None for a stream, except within an hour after one has failed.
        now: The clock for that hour.

    Attributes:
        mode: See above.
        failures: The number of consecutive streams that failed.
    """

    def __init__(self, mode: bool | None, now: Callable[[], float]) -> None:
        self.mode = mode
        self._now = now
        # `fall_back` and `worked` change these two.
        self._list_until: float | None = None
        self.failures = 0

    @property
    def may_list(self) -> bool:
        """True if a list may be requested instead of a stream that fails."""
        return self.mode is None

    @property
    def wanted(self) -> bool:
        """True if the next full list should be requested as a stream."""
        if self.mode is not None:
            return self.mode
        return self._list_until is None or self._now() >= self._list_until

    def fall_back(self) -> None:
        """Record that streams do not work, and list for an hour."""
        self._list_until = self._now() + FALLBACK_SECONDS
        self.failures = 0

    def worked(self) -> None:
        """Record that the end bookmark of a stream has arrived."""
        self.failures = 0
        self._list_until = None


class InitialEvents:
    """Collects the events of an initial stream: the newest state of each object, by key.

    The resourceVersions of these events are unordered, so only the version of the end bookmark is used (client-go,
    tools/cache/reflector.go, `watchList`).

    Args:
        known: The store's `known`. An object that is already in the store is used instead of a second copy.

    Attributes:
        resource_version: The version of the end bookmark, or "" before it.
        received: The number of received events.
        live: True once an event other than an ADDED has arrived. The end bookmark is then due, because a server that
            does not support initial streams sends such events without end.
    """

    def __init__(self, known: Known | None) -> None:
        self._known = known
        # Partitioned, because resizing a plain dict of 100,000 keys takes 10 ms.
        self._objects: PartitionedDict[str, object] = PartitionedDict()
        # `collect` and `feed` change these while the stream lasts.
        self.resource_version = ""
        self.received = 0
        self.live = False

    @property
    def progress(self) -> str:
        """The progress of the stream."""
        if not self.received:
            return "the initial stream is open, and no object has arrived yet"
        return f"still listing: {self.received:,} objects of the initial stream so far"

    def feed(self, events: Sequence[WatchEvent]) -> int | None:
        """Take events. Returns their number up to and including the end bookmark, or None if it has not arrived."""
        objects, known = self._objects, self._known
        for number, (kind, obj) in enumerate(events, 1):
            if kind == "ADDED" and not self.live:  # the usual case: each object comes once
                objects[key_of(obj)] = known_or_new(known, obj)
                continue
            if type(obj) is UndecodableObject:  # may result from an ADDED, so it does not show that the end is due
                self._remove(obj)
                continue
            self.live = True
            if kind in ("ADDED", "MODIFIED"):
                held = objects.get(key := key_of(obj))
                if type(held) is not KubeObject or type(obj) is not KubeObject or is_newer(obj, held):
                    objects[key] = known_or_new(known, obj)
            elif kind == "DELETED":
                self._remove(obj)
            elif self._is_end(kind, obj):
                return number
        return None

    def _remove(self, obj: object) -> None:
        """Remove the object of a DELETED, unless that is a doubled or late event about an earlier object."""
        held = self._objects.get(key := key_of(obj))
        if held is not None and is_gone(uid_of(held), resource_version_of(held), uid_of(obj), resource_version_of(obj)):
            self._objects.pop(key)

    def _is_end(self, kind: str, obj: object) -> bool:
        """Return True for the end bookmark, and keep its version. Raises WatchError for an unknown event type."""
        if kind != "BOOKMARK":
            raise WatchError(f"an event of the initial stream has the unknown type {kind!r}")
        if not ends_initial_events(obj):
            return False
        self.resource_version = resource_version_of(obj)
        return True

    async def collect(self, stream: Stream, timeout: IdleTimeout, budget: YieldBudget) -> Sequence[WatchEvent] | None:
        """Take events up to the end bookmark. Returns the events after it, or None if the stream ended before.

        Only initial events count as signs of life for the timeout, because bytes, bookmarks and live events do not
        show that the end is near.
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
        """Wait for the store if it can make the reflector wait."""

    async def take(self, budget: YieldBudget) -> ChunkedList[object]:
        """Return the objects, and release them here."""
        objects, self._objects = self._objects, PartitionedDict()
        chunks: ChunkedList[object] = ChunkedList()
        while objects.partitions:  # one by one, because freeing 100,000 keys at once blocks the loop
            chunks.add_table(objects.partitions.pop())
            if budget.exhausted():
                await budget.pause()
        return chunks


def initial_events(follower: Follower) -> InitialEvents:
    """Return the events of an initial stream for the store of a follower."""
    return _StreamedInitialEvents(follower) if follower.streaming is not None else InitialEvents(follower.known)


class _StreamedInitialEvents(InitialEvents):
    """Passes the events of an initial stream to a store as they arrive, without keeping them.

    Args:
        follower: A follower whose store is a `StreamingStore`.
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
                if not self.live or sink.is_newer(obj):
                    sink.put(obj)
            elif kind == "DELETED":
                sink.discard(key_of(obj), obj)
            elif self._is_end(kind, obj):
                return number
        return None

    async def _room(self, timeout: IdleTimeout) -> None:
        await self._follower.room(timeout)

    async def take(self, budget: YieldBudget) -> ChunkedList[object]:
        """Return the objects for the store's `replace`."""
        return self._sink.result()
