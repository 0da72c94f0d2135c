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
from typing import Any
from weakref import ref

import msgspec

from kinformer import Collection, EventStream, KinformerError, KubeObject, SharedInformer
from kinformer.contrib._numbered_log import NumberedLog

__all__ = ["Entry", "EventLog", "LogSnapshot", "LoggedChange", "LoggedValue"]

log = logging.getLogger("kinformer.contrib.events")

_LOOK = 0.02  # seconds between two looks at what the log has reached
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
class LoggedChange:
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


class LogSnapshot:
    """The objects after one change, by informer name. It takes 8 bytes per object, shared by all readers."""

    __slots__ = ("__weakref__", "number", "objects")

    def __init__(self, number: int, objects: Mapping[str, Sequence[Entry]]) -> None:
        self.number = number
        self.objects = objects

    def __iter__(self) -> Iterator[tuple[str, Entry]]:
        return ((name, obj) for name, objects in self.objects.items() for obj in objects)


class EventLog:
    """Numbers the changes of informers, and keeps the latest changes and the resulting state.

    A new reader starts with that state instead of the cache, because it matches the numbers exactly. It shares its
    objects with the cache, so it costs about 100 bytes per object.

    A task for each informer changes the state, and `follow` and `unfollow` add and remove informers.

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
        self._on_end = on_end
        self._log: NumberedLog[LoggedChange] = NumberedLog(events, size, _held)
        self._state: dict[str, dict[str, Entry]] = {name: {} for name in self._informers}
        self._snapshot: ref[LogSnapshot] | None = None
        self._streams: list[EventStream] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._feeds: dict[str, tuple[EventStream, asyncio.Task[None]]] = {}
        # After the change with this number, the state has all changes up to this version since the last full list.
        self._versions: deque[tuple[int, int]] = deque()
        self._lists = -1

    # --- lifecycle -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen to the informers until they end, or until `close` is called."""
        for name, informer in self._informers.items():
            self._listen(name, informer)

    def follow(self, name: str, informer: Collection[Any]) -> None:
        """Listen to another informer. Existing readers get its objects as adds."""
        self._versions.clear()  # two informers have no version
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
        self._log.announce()
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
                    self._note_version()
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
        self._log.append(LoggedChange(self._log.last + 1, source, key, old, new, deleted))

    def _note_version(self) -> None:
        """Record the version of the state, if that is known now.

        A full list that the informer makes later hides changes, so versions before it are forgotten.
        """
        position = self._streams[0].position if len(self._streams) == 1 and self._streams[0].has_synced else None
        if position is None:
            return
        versions, last = self._versions, self._log.last
        if position.lists != self._lists:
            versions.clear()
            self._lists = position.lists
        if versions and versions[-1][0] == last:
            versions.pop()
        versions.append((last, position.version))
        while versions[0][0] < last - len(self._log):
            versions.popleft()

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
        return self._log.last

    def snapshot(self) -> LogSnapshot:
        """Return the state after change `last`. All callers before the next change share one object."""
        current = self._snapshot() if self._snapshot is not None else None
        if current is None or current.number != self._log.last:
            current = LogSnapshot(self._log.last, {name: list(state.values()) for name, state in self._state.items()})
            self._snapshot = ref(current)
        return current

    def last_state(self, source: str, key: str) -> Entry | None:
        """Return the last state of an object, even if it has been deleted, or None if it has no changes here."""
        return next((change.new for change in self._log.newest() if (change.source, change.key) == (source, key)), None)

    def since(self, number: int) -> Sequence[LoggedChange] | None:
        """Return the changes after `number`, or None if some of them are no longer kept."""
        return self._log.since(number)

    async def wait(self, number: int, timeout: float) -> bool:
        """Wait until there is a change after `number` or no more will follow. Returns False after `timeout` seconds."""
        return await self._log.wait(number, timeout, ended=lambda: self.ended)

    # --- event ids --------------------------------------------------------------------------------------

    def name_of(self, number: int) -> str:
        """Return the id of a change or of the state after it, with a version of the server if that is known.

        The version means the same to the logs of other processes.
        """
        if number == self.last:
            self._note_version()
        version = next((version for at, version in reversed(self._versions) if at <= number), 0)
        return f"{self.epoch}-{number}-{version}" if version else f"{self.epoch}-{number}"

    async def resume(self, name: str) -> int | None:
        """Return the number after which a reader goes on that has seen an id of `name_of`, also of another process.

        The changes after it include all that the reader has missed.

        Returns:
            None if they are no longer kept, or a full list hides some of them.
        """
        epoch, _, place = name.partition("-")
        number, _, version = place.partition("-")
        if epoch == self.epoch:
            value = int(number) if number.isdecimal() and len(number) <= 18 else -1
            return value if self.last - len(self._log) <= value <= self.last else None
        if not version.isdecimal() or len(version) > 20 or not await self._reached(int(version)):
            return None
        return next((at for at, reached in reversed(self._versions) if reached <= int(version)), None)

    async def _reached(self, version: int) -> bool:
        """Wait until the log has what another process had at a version. Return False if it does not come."""
        informer = next(iter(self._informers.values()))
        if len(self._informers) > 1 or not isinstance(informer, SharedInformer) or informer.namespaces:
            return False
        try:
            async with asyncio.timeout(_BEHIND):
                await informer.wait_for_resource_version(str(version))
                while self._streams[0].position is None and not self.ended:
                    await self._log.wait(self.last, _LOOK)  # the feed reads what is waiting
        except (KinformerError, TimeoutError, ValueError):
            return False
        self._note_version()
        return not self.ended


def _held(change: LoggedChange) -> int:
    """Return the bytes held only by the log. A new state is also in the cache until the next change replaces it."""
    held = _size(change.old) if change.old is not None else 0
    return held + _size(change.new) if change.deleted else held


def _size(entry: Entry) -> int:
    return getsizeof(entry.value) if isinstance(entry, LoggedValue) else len(entry._data)
