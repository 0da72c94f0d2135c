"""The initial stream of a WatchList (KEP-3157): what it brings, when it has failed, and when to list instead."""

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
from kinformer.reflector.watch import Stream

__all__ = ["FALLBACK_SECONDS", "INITIAL_SILENCE", "InitialEvents", "WatchListChoice"]

# Seconds without an initial event, after which the end bookmark is not coming. The API server sends what it has without
# a pause, and waits 3 s at most to be as new as was asked; some proxies swallow the bookmark (kubernetes#140890).
INITIAL_SILENCE = 30.0
# Seconds that automatic mode remembers to list: long enough that a server without the feature is asked once an hour,
# short enough that one that has learnt it is found out.
FALLBACK_SECONDS = 3600.0
SLICE = 256  # events between two looks at the clock


class WatchListChoice:
    """Decides if the next full list is asked for as a stream.

    Args:
        mode: True: always. False: never. None: yes, except for an hour after it did not work.
        now: The clock of that hour.

    Attributes:
        failures: Streams in a row that failed.
    """

    def __init__(self, mode: bool | None, now: Callable[[], float]) -> None:
        self.mode = mode
        self._now = now
        self._list_until: float | None = None
        self.failures = 0

    @property
    def may_list(self) -> bool:
        """True if a list may be asked for instead of a stream that fails."""
        return self.mode is None

    @property
    def has_fallen_back(self) -> bool:
        """True if streams did not work here before."""
        return self._list_until is not None

    @property
    def wanted(self) -> bool:
        """True if the next full list is to be a stream."""
        if self.mode is not None:
            return self.mode
        return self._list_until is None or self._now() >= self._list_until

    def fall_back(self) -> None:
        """Streams do not work here: list for an hour."""
        self._list_until = self._now() + FALLBACK_SECONDS
        self.failures = 0

    def worked(self) -> None:
        """The end bookmark came."""
        self.failures = 0
        self._list_until = None


class InitialEvents:
    """What an initial stream has brought so far: the newest state of each object, by key.

    The resourceVersions of these events are in no order, so that of the end bookmark alone is of use
    (client-go, tools/cache/reflector.go, `watchList`).

    Args:
        known: `known` of the store: an object that it has already is kept instead of a second copy of it.
    """

    def __init__(self, known: Known | None) -> None:
        self._known = known
        self._objects: PartitionedDict[str, object] = (
            PartitionedDict()
        )  # a plain dict of 100,000 grows in steps of 10 ms
        self.resource_version = ""
        self.live = False
        """Something else than an ADDED has come, so the end bookmark is due: a server that does not know of initial
        streams goes on like that for ever."""

    def feed(self, events: Sequence[WatchEvent]) -> int | None:
        """Take events; the number of them up to and with the end bookmark, or None where it has not come."""
        objects, known = self._objects, self._known
        for number, (kind, obj) in enumerate(events, 1):
            if kind == "ADDED":
                objects[key_of(obj)] = known_or_new(known, obj)
                continue
            if type(obj) is UndecodableObject:  # of an ADDED too: it tells nothing of how far the stream is
                objects.pop(obj.key)
                continue
            self.live = True
            if kind == "MODIFIED":
                objects[key_of(obj)] = known_or_new(known, obj)
            elif kind == "DELETED":
                objects.pop(key_of(obj))
            elif kind != "BOOKMARK":
                raise WatchError(f"an event of the unknown type {kind!r} in the initial stream")
            elif ends_initial_events(obj):
                self.resource_version = resource_version_of(obj)
                return number
        return None

    async def collect(self, stream: Stream, dog: IdleTimeout, budget: YieldBudget) -> Sequence[WatchEvent] | None:
        """Take events up to the end bookmark; those that came behind it, or None if the stream ended before.

        The watchdog hears of initial events alone: bytes, bookmarks and live events do not show that an end is near.
        """
        async for events in stream:
            for start in range(0, len(events), SLICE):
                end = self.feed(events[start : start + SLICE])
                if end is not None:
                    return events[start + end :]
                if not self.live:
                    dog.heard = SYSTEM.loop()
                if budget.exhausted():
                    await budget.pause()
        return None

    async def take(self, budget: YieldBudget) -> ChunkedList[object]:
        """The objects; nothing of them is kept here."""
        objects, self._objects = self._objects, PartitionedDict()
        chunks: ChunkedList[object] = ChunkedList()
        while objects.partitions:  # part by part: freeing 100,000 keys at once is a stall too
            chunks.add_table(objects.partitions.pop())
            if budget.exhausted():
                await budget.pause()
        return chunks
