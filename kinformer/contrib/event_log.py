"""A numbered log of the latest changes of some collections, so that a reader can resume after an interruption."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from math import isfinite
from sys import getsizeof
from typing import Any, NamedTuple
from weakref import ref

import msgspec

from kinformer import Collection, EventStream, KinformerError, KubeObject, SharedInformer, WatchEvent

__all__ = ["Change", "Entry", "EventLog", "LoggedValue", "Resumption", "Snapshot"]

log = logging.getLogger("kinformer.contrib.events")

_BEHIND = 8.0  # seconds for which a reader waits until this process has reached what it saw in another one


@dataclass(frozen=True, slots=True)
class LoggedValue:
    """A value of a derived collection. Its JSON has `key` and `value`, with text for what JSON does not have."""

    key: str
    value: Any

    @property
    def uid(self) -> str:
        """Always empty, because a value is identified by its key."""
        return ""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the value. Empty if it has no attribute `labels`."""
        labels = getattr(self.value, "labels", None)
        return labels if isinstance(labels, Mapping) else {}

    @property
    def raw(self) -> bytes:
        """The value as JSON. Objects in it keep their original bytes."""
        return msgspec.json.encode({"key": self.key, "value": _as_json(self.value)}, enc_hook=str)


Entry = KubeObject | LoggedValue


def _entry(key: str, value: Any) -> Entry:
    return value if isinstance(value, KubeObject) and value.key == key else LoggedValue(key, value)


def _as_json(value: Any) -> Any:
    if isinstance(value, KubeObject):
        return msgspec.Raw(value.raw)
    if isinstance(value, Mapping):
        return {str(key): _as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_as_json(part) for part in value]
    if isinstance(value, msgspec.Struct):
        return {name: _as_json(getattr(value, name)) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _as_json(getattr(value, field.name)) for field in fields(value)}
    return value if not isinstance(value, float) or isfinite(value) else str(value)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one object. A replacement, with another uid, is a delete and an add.

    Attributes:
        number: Its position in the log, counted from 1.
        source: The name of its informer in the log.
        key: The key of the object.
        old: The state before, or None for an add.
        new: The state after, or the last state for a delete.
        deleted: True for a delete.
    """

    number: int
    source: str
    key: str
    old: Entry | None
    new: Entry
    deleted: bool


class Snapshot:
    """The objects after one change, by informer name. It takes 8 bytes per object, shared by all readers."""

    __slots__ = ("__weakref__", "number", "objects")

    def __init__(self, number: int, objects: Mapping[str, Sequence[Entry]]) -> None:
        self.number = number
        self.objects = objects

    def __iter__(self) -> Iterator[tuple[str, Entry]]:
        return ((name, obj) for name, objects in self.objects.items() for obj in objects)


class Resumption(NamedTuple):
    """The place at which a reader goes on: first with `missed`, which the log does not have, and then after `number`.

    The `missed` events are those of a watch.
    """

    number: int
    missed: Sequence[WatchEvent] = ()


class EventLog:
    """Numbers the changes of informers, and keeps the latest changes and the resulting state.

    A new reader starts with that state instead of the cache, because it matches the numbers exactly. It shares its
    objects with the cache, so it costs about 100 bytes per object.

    Args:
        informers: The informers, by the name under which their changes are logged.
        events: The number of changes to keep. The default, 4,096, covers 20 s at 200 changes a second, enough for a
            browser to reconnect.
        size: The maximum memory in bytes of kept states that are no longer in the cache.
        on_end: Called when no more changes will follow.
    """

    def __init__(
        self,
        informers: Mapping[str, Collection[Any]],
        *,
        events: int = 4096,
        size: int = 16 * 1024 * 1024,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        self.epoch = secrets.token_hex(6)
        """Identifies this log, because other processes and other logs also count from 1."""
        self._informers = dict(informers)
        self._limit = events
        self._size_limit = size
        self._size = 0
        self._on_end = on_end
        self._changes: deque[Change] = deque()
        self._last = 0
        self._state: dict[str, dict[str, Entry]] = {name: {} for name in self._informers}
        self._snapshot: ref[Snapshot] | None = None
        self._streams: list[EventStream] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._feeds: dict[str, tuple[EventStream, asyncio.Task[None]]] = {}
        self._news = asyncio.Event()
        followed = list(informers.values())
        only = followed[0] if len(followed) == 1 else None
        self._history = only.history if isinstance(only, SharedInformer) else None
        # After the change with this number, the state has all changes up to this version.
        self._versions: deque[tuple[int, int]] = deque()

    # --- lifecycle -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen to the informers until they end, or until `close` is called."""
        for name, informer in self._informers.items():
            self._listen(name, informer)

    def follow(self, name: str, informer: Collection[Any]) -> None:
        """Listen to another informer. Existing readers get its objects as adds."""
        self._history = None  # an id of two informers is no version
        self._versions.clear()
        self._informers[name] = informer
        self._state[name] = {}
        self._listen(name, informer)

    async def unfollow(self, name: str) -> None:
        """Stop listening to an informer. Existing readers get its objects as deletes."""
        del self._informers[name]
        stream, task = self._feeds.pop(name)
        self._streams.remove(stream)
        task.cancel()
        await asyncio.wait({task})
        for key, obj in self._state.pop(name).items():
            self._append(name, key, obj, obj, deleted=True)

    def _listen(self, name: str, informer: Collection[Any]) -> None:
        stream = informer.events(queue_size=None, name="event log")
        self._streams.append(stream)
        task = asyncio.create_task(self._feed(name, informer, stream), name=f"kinformer event log of {name}")
        self._tasks.add(task)
        self._feeds[name] = stream, task
        task.add_done_callback(partial(self._feed_ended, informer))

    async def close(self) -> None:
        """Stop listening."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def ended(self) -> bool:
        """True if no more changes will follow, because every informer has stopped or crashed."""
        return bool(self._streams) and not self._tasks

    def _feed_ended(self, informer: Collection[Any], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._announce()
        error = None if task.cancelled() else task.exception()
        if error is not None and error is not informer.health().last_error:  # an informer logs its own crash
            log.error(
                "%s ended: %s",
                task.get_name(),
                error,
                exc_info=error,
                extra={"resource": informer.name, "key": "", "reason": "ended"},
            )
        if not self._tasks:
            self._on_end()

    async def _feed(self, name: str, informer: Collection[Any], stream: EventStream) -> None:
        state = self._state[name]
        async with stream:
            async for event in stream:
                if event.type == "SYNC":
                    continue
                key, told = event.key, _entry(event.key, event.object)
                old = state.get(key)
                replaced = old is not None and old.uid != told.uid
                if event.type == "DELETED":
                    state.pop(key, None)
                    # The change refers to the object that readers know.
                    self._append(name, key, old, old if old is not None and replaced else told, deleted=True)
                    self._note_version()
                    continue
                if old is not None and replaced:
                    self._append(name, key, old, old, deleted=True)
                    old = None
                # The object in the cache costs no extra memory. If the cache is ahead, the event's object is used.
                cached = informer.by_key.get(key)
                new = _entry(key, cached) if cached is not None and cached == event.object else told
                state[key] = new
                self._append(name, key, old, new, deleted=False)
                self._note_version()

    def _append(self, source: str, key: str, old: Entry | None, new: Entry, *, deleted: bool) -> None:
        self._last += 1
        change = Change(self._last, source, key, old, new, deleted)
        self._changes.append(change)
        self._size += _held(change)
        while len(self._changes) > self._limit or (self._size > self._size_limit and len(self._changes) > 1):
            self._size -= _held(self._changes.popleft())
        self._announce()

    def _note_version(self) -> None:
        """Record the version of the state, if that is known now."""
        if self._history is None or not self._streams:
            return
        version, versions = self._history.version_of(self._streams[0]), self._versions
        if not version or not self._streams[0].has_synced:
            return
        if versions and versions[-1][1] > version:  # the server went back
            versions.clear()
        if versions and versions[-1][0] == self._last:
            versions.pop()
        versions.append((self._last, version))
        while versions[0][0] < self._last - len(self._changes):
            versions.popleft()

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # --- reading ----------------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """True if the first list of every informer is in the state."""
        return bool(self._streams) and all(stream.has_synced for stream in self._streams)

    async def wait_synced(self) -> None:
        """Wait until `has_synced`.

        Raises:
            StoppedError: An informer stopped before it synced. If it crashed, its error is raised instead.
        """
        for stream in self._streams:
            await stream.wait_synced(fail_fast=False)  # a browser waits for rights that are given later

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the informers in the log."""
        return tuple(self._informers)

    @property
    def last(self) -> int:
        """The number of the last change, or 0 before the first."""
        return self._last

    def snapshot(self) -> Snapshot:
        """Return the state after change `last`. All callers before the next change share one object."""
        found = self._snapshot() if self._snapshot is not None else None
        if found is None or found.number != self._last:
            found = Snapshot(self._last, {name: list(state.values()) for name, state in self._state.items()})
            self._snapshot = ref(found)
        return found

    def since(self, number: int) -> Sequence[Change] | None:
        """Return the changes after `number`, or None if some of them are no longer kept."""
        missing = self._last - number
        if missing <= 0:
            return ()
        if missing > len(self._changes):
            return None
        if missing * 2 > len(self._changes):
            return list(self._changes)[-missing:]
        tail: list[Change] = []
        for change in reversed(self._changes):
            if change.number <= number:
                break
            tail.append(change)
        return tail[::-1]

    async def wait(self, number: int, timeout: float) -> bool:
        """Wait until there is a change after `number` or no more will follow. Returns False after `timeout` seconds."""
        news = self._news
        if self._last > number or self.ended:
            return True
        try:
            async with asyncio.timeout(timeout):
                await news.wait()
        except TimeoutError:
            return False
        return True

    # --- event ids --------------------------------------------------------------------------------------

    def name_of(self, number: int) -> str:
        """Return the id of a change or of the state after it.

        If the cache is shared, it ends with what is the same in all processes: the objects, and a version of them.
        """
        if self._history is None:
            return f"{self.epoch}-{number}"
        if number == self._last:
            self._note_version()
        version = next((version for at, version in reversed(self._versions) if at <= number), 0)
        lineage = self._history.lineage
        return f"{self.epoch}-{number}-{lineage}-{version}" if version and lineage else f"{self.epoch}-{number}"

    def number_of(self, name: str) -> int | None:
        """Return the number for an id of `name_of`, or None if it is from another log or no longer kept."""
        epoch, _, number = name.partition("-")
        number = number.partition("-")[0]
        if epoch != self.epoch or not number.isdecimal() or len(number) > 18:
            return None
        value = int(number)
        return value if self._last - len(self._changes) <= value <= self._last else None

    async def resume(self, name: str, label_selector: str | None) -> Resumption | None:
        """Return the place after an id of `name_of`, also of another process that shares the cache.

        Args:
            name: The id.
            label_selector: What the reader sees, "" for everything, or None if no selector describes it.

        Returns:
            None if the changes after it are no longer kept.
        """
        number = self.number_of(name)
        if number is not None:
            return Resumption(number)
        version = self._version_of(name)
        if version is None or not await self._reached(version):
            return None
        history = self._history
        self._note_version()
        # The state after each of these has more than the reader saw, or the same.
        place = next((at for at, reached in reversed(self._versions) if reached <= version), None)
        if place is not None:
            return Resumption(place)
        if history is None or label_selector is None or not self._versions:
            return None
        place, reached = self._versions[-1]
        missed = await history.changes(version, reached, label_selector)
        return None if missed is None else Resumption(place, missed)

    def _version_of(self, name: str) -> int | None:
        """Return the version in an id of another process, if it means the same here."""
        _, _, place = name.partition("-")
        _, _, shared = place.partition("-")
        lineage, _, version = shared.partition("-")
        if self._history is None or not lineage or lineage != self._history.lineage:
            return None
        return int(version) if version.isdecimal() and len(version) <= 20 else None

    async def _reached(self, version: int) -> bool:
        """Wait until the log has what another process had at a version. Return False if it does not come."""
        (informer,) = self._informers.values()
        if not isinstance(informer, SharedInformer) or self._history is None:
            return False
        try:
            async with asyncio.timeout(_BEHIND):
                await informer.wait_for_resource_version(str(version))
                while not self._history.version_of(self._streams[0]):
                    await asyncio.sleep(0)  # the feed reads what is waiting
                    if self.ended:
                        return False
        except (KinformerError, TimeoutError, ValueError):
            return False
        return True


def _held(change: Change) -> int:
    """Return the bytes held only by the log. A new state is also in the cache until the next change replaces it."""
    held = _size(change.old) if change.old is not None else 0
    return held + _size(change.new) if change.deleted else held


def _size(entry: Entry) -> int:
    return getsizeof(entry.value) if isinstance(entry, LoggedValue) else len(entry._data)
