"""The event stream: an async iterator from which a reader pulls the changes of an informer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, Self, TypedDict, Unpack

from kinformer._runtime.clock import YieldBudget
from kinformer.objects.object import KubeObject, view
from kinformer.objects.types import M, M_co
from kinformer.processor.first_sync import FirstSync
from kinformer.processor.mailbox import ADD, DELETE, SYNC, EventType, Mailbox, Notification

__all__ = ["EventStream", "InformerEvent", "OpenStream", "Position", "StreamParts"]


@dataclass(frozen=True, slots=True)
class InformerEvent(Generic[M_co]):
    """One change of the cache.

    Attributes:
        type: `"ADDED"`, `"UPDATED"`, `"DELETED"` or `"SYNC"` (a resync).
        object: The object, or its last known state if it was deleted.
        old: The previous state in the cache, also for DELETED, or None for ADDED.
        is_in_initial_list: True for an ADDED from the cache at the time when the stream was entered, or from the first
            list.
        key: The key of the object, or of the value in a derived collection.
        final_state_unknown: True for a DELETED whose event was missed (and inferred from a relist, for example) or
            could not be decoded, so that `object` may not be the last state.
    """

    type: EventType
    object: KubeObject[M_co]
    old: KubeObject[M_co] | None = None
    is_in_initial_list: bool = False
    final_state_unknown: bool = False
    key: str = ""


class Position(NamedTuple):
    """The place of a reader in the history of the server.

    Attributes:
        lists: The number of full lists that the cache has taken.
        version: The version up to which it has all changes since the last of them.
    """

    lists: int
    version: int


class OpenStream(Protocol):
    """An event stream, as used by the informer that feeds it."""

    _mailbox: Mailbox

    def _end(self, error: BaseException | None = None) -> None: ...


class StreamParts(TypedDict):
    """What a stream is made with, besides its mailbox."""

    attach: Callable[[OpenStream], None]
    detach: Callable[[OpenStream], None]
    position: Callable[[], Position | None]
    sync: FirstSync


class EventStream(Generic[M]):
    """An async context manager and iterator over `InformerEvent`s, created by `SharedInformer.events`.

    It is registered on entering, like a handler that is added late. Its events are folded like calls above
    `queue_size`. A cancelled `anext` loses nothing, because an event is taken only in the step in which it is returned.
    Only one task may read at a time. The iteration ends when the informer is stopped, and raises the informer's error
    if it crashed.
    """

    def __init__(self, mailbox: Mailbox, **parts: Unpack[StreamParts]) -> None:
        self._mailbox = mailbox
        self._sync = parts["sync"]
        self._position = parts["position"]
        self._attach = parts["attach"]
        self._detach = parts["detach"]
        self._error: BaseException | None = None  # set by `_end`, raised in the reader
        self._reading = False  # True while a task is inside `__anext__`

    @property
    def has_synced(self) -> bool:
        """True if every initial add has been read."""
        return self._mailbox.has_synced

    @property
    def position(self) -> Position | None:
        """The place of the reader, or None while events are waiting or the source has no versions.

        :meta private:
        """
        return None if len(self._mailbox) else self._position()

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool | None = None) -> None:
        """Wait until `has_synced`, while another task reads.

        The arguments, the warnings and the errors are as in `SharedInformer.wait_synced`.
        """
        if not self.has_synced:
            await self._sync.wait(timeout, fail_fast=fail_fast)

    def _end(self, error: BaseException | None = None) -> None:
        """Accept no more events. After the waiting ones, the iteration ends, or raises `error`."""
        self._error = error
        self._mailbox.close(drain=True)

    async def __aenter__(self) -> Self:
        self._mailbox.budget = YieldBudget(blames=False)  # the reader may wait between two events
        self._attach(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._detach(self)
        self._mailbox.close()

    def __aiter__(self) -> AsyncIterator[InformerEvent[M]]:
        return self

    async def __anext__(self) -> InformerEvent[M]:
        if self._reading:
            raise RuntimeError(f"stream {self._mailbox.name} is being read by another task; give each task its own")
        self._reading = True
        mailbox = self._mailbox
        try:
            if mailbox.budget.exhausted():  # the reader's work on the last event may not have suspended
                await mailbox.budget.pause()
            while (call := mailbox.take()) is None:
                if mailbox.draining and not len(mailbox):
                    if self._error is not None:
                        raise self._error
                    raise StopAsyncIteration
                await mailbox.wait()
                mailbox.budget.enter()
        finally:
            self._reading = False
        mailbox.finished(call)
        return self._event(call)

    async def read(self, limit: int) -> list[InformerEvent[M]]:
        """Wait for the next event, and return it with those waiting behind it, at most `limit`, or nothing at the end.

        Raises:
            RuntimeError: Another task reads.
            BaseException: The informer crashed, and this is its error.
        """
        try:
            events = [await anext(self)]
        except StopAsyncIteration:
            return []
        while len(events) < limit and (call := self._mailbox.take()) is not None:
            self._mailbox.finished(call)
            events.append(self._event(call))
        return events

    def _event(self, call: Notification) -> InformerEvent[M]:
        kind, key, old, new, flag = call
        obj = view(new)
        return InformerEvent(
            kind,
            obj,
            obj if kind == SYNC else None if old is None else view(old),
            is_in_initial_list=flag and kind == ADD,
            final_state_unknown=flag and kind == DELETE,
            key=key,
        )
