"""WATCH: one watcher of one resource, from first to last event (apiserver/pkg/storage/cacher/cache_watcher.go)."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar, cast

from kinformer._runtime.clock import YieldBudget
from kinformer.apiserver.options import Options
from kinformer.apiserver.pages import wait_for_revision
from kinformer.apiserver.selecting.filters import Selector
from kinformer.apiserver.status import StatusError, expired
from kinformer.apiserver.storage import EventView, Storage, Stored, StoredChange, StoredCollection

__all__ = ["Line", "Watcher"]

BOOKMARK_PERIOD = 60.0  # seconds (cacher.go, defaultBookmarkFrequency)
BOOKMARK_BEFORE_END = 2.0  # seconds before the deadline (cache_watcher.go, nextBookmarkTime)
MIN_REQUEST_TIMEOUT = 1800.0  # seconds. A watch without a timeout gets a random one in [x, 2x)
# A watch with this many pending events whose socket is blocked is ended cleanly, without an ERROR line.
MAX_PENDING = 1000
MAX_BLOCKED = 1.0  # seconds
MAX_BATCH = 128 << 10  # bytes of the objects of a batch, besides its last one
MAX_QUEUED = 20_000  # ... and one with this many, whether its socket is blocked at the moment or not

T = TypeVar("T")
_LEFT = "LEFT"


class Line(Generic[T]):
    """A line of a watch stream. `event` is True for ADDED, MODIFIED and DELETED."""

    __slots__ = ("data", "end_of_initial", "event")

    def __init__(self, data: T, *, event: bool = True, end_of_initial: bool = False) -> None:
        self.data = data
        self.event = event
        self.end_of_initial = end_of_initial


class _Pending(NamedTuple):
    """An event that is no line yet. Its type is `_LEFT` if the object no longer matches."""

    type: str
    change: StoredChange


class Watcher(Generic[T]):
    """Queues the lines of one watch. Call `open` to subscribe, `next_batch` until it returns None, and then `close`.

    Every change is evaluated as soon as it is made, and becomes a line when it is sent. So a slow reader only costs
    memory for references to objects that all watchers share, and for one batch.

    Attributes:
        direct: Sends a line at once and returns True, or returns False if it must wait in the queue. It is called for a
            lone change while nothing is queued and a task waits in `next_batch`.
        on_slow: Called when the watch has ended because its reader is too slow, so a write may be blocked for ever.
    """

    direct: Callable[[T], bool] | None = None
    on_slow: Callable[[], None] | None = None

    def __init__(
        self,
        storage: Storage,
        collection: StoredCollection,
        view: EventView[T],
        selected: Selector,
        options: Options,
    ) -> None:
        self._storage = storage
        self._collection = collection
        self._view = view
        self._filter = selected
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._initial: Iterator[Stored] | None = None
        self._lines: deque[Line[T] | _Pending] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False
        self._marks_end = False  # a bookmark follows the initial events
        self._holds_mark = self._was_held = False  # it waits for `release_mark`, or has waited for it
        self._woken = False
        self._first_row = True
        self._blocked_since: float | None = None
        timeout = options.timeout or random.uniform(MIN_REQUEST_TIMEOUT, 2 * MIN_REQUEST_TIMEOUT)
        started = self._loop.time()
        self._deadline = started + timeout
        self._next_bookmark = self._bookmark_time(started)
        self._last_known = 0  # the newest revision that the client knows
        self._position = 0  # events up to this revision are skipped

    async def open(self) -> None:
        """Subscribe, and queue the existing objects. Failures that a stream reports as an ERROR line are not raised."""
        options = self._options
        revision = options.revision
        initial = options.initial_events
        # With WatchList, a watch without a version has initial events (internalversion/defaults.go).
        legacy = initial is None and not revision
        try:
            if initial and revision:
                await wait_for_revision(self._storage, revision)
            if initial or legacy:
                self._start_with_state()
                self._marks_end = bool(initial) or options.promoted
            elif not revision:  # sendInitialEvents=false: only later events
                self._position = self._storage.revision
            else:
                self._start_from(revision)
        except StatusError as error:
            self.offer(error)
            return
        # The initial objects, selected or not, are not progress that a bookmark must report.
        self._last_known = max(self._position, self._collection.revision)
        self._collection.watchers[self.offer] = None

    def _start_with_state(self) -> None:
        self._position = self._options.as_of or self._storage.revision
        # A snapshot never changes, so its events are encoded while it is sent, not all at once.
        self._initial = iter(self._collection.at(self._position).within(self._filter.namespace).items)
        for change in self._collection.since(self._position):
            self.offer(change)

    async def _initial_batch(self, most: int) -> list[Line[T]]:
        batch: list[Line[T]] = []
        size, budget = 0, YieldBudget()
        for stored in self._initial or ():
            if self._filter.matches(stored):
                batch.append(Line(self._event("ADDED", stored)))
                size += stored.size
                if len(batch) == most or size >= MAX_BATCH:
                    return batch
            if budget.exhausted():
                await budget.pause()
        self._initial = None
        if not self._was_held:
            batch += self._mark(self._position)
        elif not self._holds_mark:
            self._lines += self._mark(self._storage.revision)
        return batch

    def _mark(self, revision: int) -> list[Line[T]]:
        if not (self._options.bookmarks and self._marks_end):
            return []
        return [Line(self._view.bookmark(revision, initial_end=True), event=False, end_of_initial=True)]

    def _start_from(self, revision: int) -> None:
        floor = self._collection.floor
        if revision < floor:
            raise expired(f"too old resource version: {revision} ({floor})")
        # A future revision is accepted, and events up to it are silently skipped, as by a real server.
        self._position = revision
        for change in self._collection.since(revision):
            self.offer(change)

    def hold_mark(self) -> None:
        """Hold the bookmark after the initial events back until `release_mark`. Call this before `open`."""
        self._holds_mark = self._was_held = True

    def release_mark(self) -> None:
        """Queue the bookmark that was held back, after the changes until now."""
        self._holds_mark = False
        if self._initial is None and not self._ended:
            self._lines += self._mark(self._storage.revision)
            self._notify()

    def offer(self, change: StoredChange | StatusError | None) -> None:
        """Queue a change, an error that ends the stream, or None for its end. Called by the collection."""
        if change is None:
            self.end()
            return
        if isinstance(change, StatusError):
            if not self._ended:
                self._lines.append(Line(self._view.error(change), event=False))
            self.end()
            return
        if change.revision <= self._position or self._ended:
            return
        type_ = self._type_of(change)
        if not type_:
            return
        self._last_known = max(self._last_known, change.revision)
        waiting = self._waiting
        if (
            self.direct is not None
            and waiting is not None
            and not (self._lines or self._collection.is_bulk or waiting.done())
            and self.direct(self._line(type_, change))
        ):
            return
        self._lines.append(_Pending(type_, change))
        if len(self._lines) > MAX_PENDING and self._is_slow():
            self._lines.clear()
            self._collection.watchers.pop(self.offer, None)
            self.end()
            if self.on_slow is not None:
                self.on_slow()
        self._notify()

    def _is_slow(self) -> bool:
        blocked = self._blocked_since
        if blocked is not None and self._loop.time() - blocked > MAX_BLOCKED:
            return True
        return len(self._lines) > MAX_QUEUED

    def end(self) -> None:
        """End the stream cleanly after the queued lines."""
        self._ended = True
        self._notify()

    def wake(self) -> None:
        """Make `next_batch` return immediately, even without lines."""
        self._woken = True
        self._notify()

    def set_blocked(self, blocked: bool) -> None:
        """Set whether the socket is currently blocked."""
        self._blocked_since = self._loop.time() if blocked else None

    async def next_batch(self, most: int = 500) -> list[Line[T]] | None:
        """Return the next lines: an empty list after `wake`, or None at the end."""
        while True:
            if self._initial is not None and not self._ended:
                batch = await self._initial_batch(most)
                if batch:
                    return batch
            if self._lines:
                return self._queued_batch(most)
            if self._ended:
                return None
            if self._woken:
                self._woken = False
                return []
            now = self._loop.time()
            if now >= self._deadline:
                self.end()
            elif self._options.bookmarks and now >= self._next_bookmark:
                self._next_bookmark = self._bookmark_time(now)
                self._bookmark()
            else:
                await self._wait(now)

    def close(self) -> None:
        """Unsubscribe."""
        self._collection.watchers.pop(self.offer, None)
        self._ended = True

    async def _wait(self, now: float) -> None:
        until = min(self._deadline, self._next_bookmark) if self._options.bookmarks else self._deadline
        wake = self._waiting = self._loop.create_future()
        timer = self._loop.call_later(max(0.0, until - now), self._notify)
        try:
            await wake
        finally:
            timer.cancel()
            self._waiting = None

    def _notify(self) -> None:
        wake = self._waiting
        if wake is not None and not wake.done():
            wake.set_result(None)

    def _bookmark_time(self, now: float) -> float:
        before_end = self._deadline - BOOKMARK_BEFORE_END
        regular = now + BOOKMARK_PERIOD
        # A bookmark 2 s before the end lets the client resume from a recent revision. No other follows.
        if now >= before_end:
            return self._deadline
        return min(regular, before_end)

    def _bookmark(self) -> None:
        newest = self._storage.revision
        if newest <= self._last_known:
            return  # the client knows this revision already
        self._last_known = newest
        self._lines.append(Line(self._view.bookmark(newest), event=False))

    def _queued_batch(self, most: int) -> list[Line[T]]:
        batch: list[Line[T]] = []
        lines, size = self._lines, 0
        while lines and len(batch) < most and size < MAX_BATCH:
            line = lines.popleft()
            if isinstance(line, _Pending):
                size += line.change.new.size
                line = Line(self._line(*line))
            batch.append(line)
        return batch

    def _type_of(self, change: StoredChange) -> str:
        """Return the type of the event of a change, or "" for none: it depends on what matches before and after."""
        selected = self._filter
        if selected.everything:
            return change.type
        before = change.old is not None and selected.matches(change.old)
        if change.type != "DELETED" and selected.matches(change.new):
            return "MODIFIED" if before else "ADDED"
        return "" if not before else change.type if change.type == "DELETED" else _LEFT

    def _line(self, type_: str, change: StoredChange) -> T:
        if type_ != _LEFT:
            return self._event(type_, change.new, change)
        # It no longer matches: send the old content with the new revision (cache_watcher.go, convertToWatchEvent).
        assert change.old is not None
        key = (self._view.key, _LEFT)
        line = cast("T | None", change.lines.get(key))
        if line is None or self._view.form == "table":
            line = self._event("DELETED", self._view.moved(change.old, change.revision))
            change.lines[key] = line
        return line

    def _event(self, kind: str, stored: Stored, change: StoredChange | None = None) -> T:
        if self._view.form == "table":
            first, self._first_row = self._first_row, False
            return self._view.event(kind, stored, first=first)
        if change is not None:
            return self._view.line(change, kind, stored)
        return self._view.event(kind, stored)
