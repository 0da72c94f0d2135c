"""The publisher: a cache with its receivers, which get each change after the cache has it.

One publisher is an informer's `Processor`, which applies changes from a server. Another is a derived collection's,
which applies the results of a function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.waiters import Latch
from kinformer.cache.indexer import Indexer
from kinformer.objects.object import KubeObject
from kinformer.processor.event_stream import Position
from kinformer.processor.mailbox import ADD, Notification, Receiver, deliver
from kinformer.processor.resync_schedule import ResyncSchedule

__all__ = ["Publisher"]

_SLICE = 256  # changes that are handed out together. With a filter, which may be slow, it is one


class Publisher:
    """A cache and its receivers. Its only writer, a subclass, puts a change into the cache and then hands it out.

    Args:
        indexer: The cache.
        resyncs: The schedule that returns the receivers of a resync, or None if no handler gets one.

    Attributes:
        events: The number of changes that were applied, by type.
        synced: Open once the cache is complete for the first time.
        is_settling: True while the cache is ahead of its receivers, which get a relist in slices after the swap.
        on_settled: Called each time when `is_settling` has become False.
    """

    def __init__(self, indexer: Indexer, resyncs: ResyncSchedule | None = None) -> None:
        self.events: Counter[str] = Counter()
        self.synced = Latch()
        self.is_settling = False
        self.on_settled: list[Callable[[], None]] = []
        self._indexer = indexer
        self._resyncs = resyncs
        self._receivers: list[Receiver] = []  # changed by `attach` and `detach`
        self._slice = _SLICE  # changes handed out together: 1 if a receiver calls a filter
        self._calls: list[Notification] = []  # changes that are in the cache, and in no receiver yet

    @property
    def cache(self) -> Indexer:
        """The cache, for reads and for readers' indexes."""
        return self._indexer

    def position(self) -> Position | None:
        """Return the place of the cache in the history of one server, or None if that is not known now."""
        return None

    # --- receivers --------------------------------------------------------------------------------

    def attach(self, receiver: Receiver) -> None:
        """Replay the cache to `receiver` as initial adds, and then deliver every change to it.

        This runs between two changes, like everything else on the loop, so no change is missed or delivered twice.
        """
        receiver.replay(ChunkedList(self._indexer.tables()))
        if self.synced.is_open:
            receiver.upstream_synced()
        self._receivers.append(receiver)
        self._fit_slice()

    def detach(self, receiver: Receiver) -> None:
        """Stop delivering changes to `receiver`."""
        if receiver in self._receivers:
            self._receivers.remove(receiver)
            self._fit_slice()

    def _fit_slice(self) -> None:
        self._slice = 1 if any(receiver.filters for receiver in self._receivers) else _SLICE

    def fail(self, error: BaseException) -> None:
        """Raise `error` in each task that waits for the cache to be complete, because it will not be."""
        self.synced.fail(error)
        for receiver in tuple(self._receivers):
            receiver.fail(error)

    # --- the writer's side ------------------------------------------------------------------------

    def hand_out(self, receivers: Sequence[Receiver] | None = None) -> None:
        """Deliver the changes since the last call, which are all in the cache, to these receivers. Default: to all."""
        calls, self._calls = self._calls, []
        if calls:
            is_first = not self.synced.is_open
            deliver(calls, self._receivers if receivers is None else receivers, self.events, initial=is_first)

    def _open(self) -> None:
        """Record that the cache is complete for the first time."""
        self.synced.open()
        for receiver in self._receivers:
            receiver.upstream_synced()

    def _start(self, receivers: Sequence[Receiver], objects: ChunkedList[KubeObject]) -> None:
        """Count objects that entered the cache at once as adds, and replay them to receivers."""
        self.events[ADD] += len(objects)
        for receiver in receivers:
            receiver.replay(objects)

    def _settled(self) -> None:
        self.is_settling = False
        for call in tuple(self.on_settled):
            call()
