"""`async for event in stream`: the changes of an informer, pulled by the reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self

from kinformer.objects.object import KubeObject, view
from kinformer.objects.types import M, M_co
from kinformer.processor.mailbox import ADD, DELETE, SYNC, Mailbox

__all__ = ["EventStream", "InformerEvent"]

# A reader that never suspends gives the loop its turn after so many events.
_EVENTS_A_TURN = 64


@dataclass(frozen=True, slots=True)
class InformerEvent(Generic[M_co]):
    """One change of the cache.

    `type` is `"ADDED"`, `"UPDATED"`, `"DELETED"` or `"SYNC"`. `old` is the state that the cache had before,
    on DELETED too; None on ADDED. `final_state_unknown` says of a DELETED that it was inferred from a
    relist, so that `object` may not be the last state there was.
    """

    type: str
    object: KubeObject[M_co]
    old: KubeObject[M_co] | None = None
    is_in_initial_list: bool = False
    final_state_unknown: bool = False


class EventStream(Generic[M]):
    """An async context manager and iterator over `InformerEvent`s; made by `SharedInformer.events`.

    Registered on entering, like a handler that joins late, and folded like one above `queue_size`. A
    cancelled `anext` loses nothing: an event is taken only in the step in which it is returned. One
    reader at a time. The iteration ends when the informer leaves, and raises its error if it crashed.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        *,
        attach: Callable[[EventStream[Any]], None],
        detach: Callable[[EventStream[Any]], None],
    ) -> None:
        self.mailbox = mailbox
        self._attach = attach
        self._detach = detach
        self._error: BaseException | None = None
        self._reading = False
        self._taken = 0

    @property
    def has_synced(self) -> bool:
        """Every initial add has been read."""
        return self.mailbox.has_synced

    def end(self, error: BaseException | None = None) -> None:
        """No more events; what waits is still read, then the iteration ends or raises `error`."""
        self._error = error
        self.mailbox.close(drain=True)

    async def __aenter__(self) -> Self:
        self._attach(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._detach(self)
        self.mailbox.close()

    def __aiter__(self) -> AsyncIterator[InformerEvent[M]]:
        return self

    async def __anext__(self) -> InformerEvent[M]:
        if self._reading:
            raise RuntimeError(f"stream {self.mailbox.name} is being read by another task")
        self._reading = True
        mailbox = self.mailbox
        try:
            self._taken += 1
            if self._taken % _EVENTS_A_TURN == 0:
                await asyncio.sleep(0)
            while (call := mailbox.take()) is None:
                if (mailbox.draining or mailbox.closed) and not len(mailbox):
                    if self._error is not None:
                        raise self._error
                    raise StopAsyncIteration
                await mailbox.wait()
        finally:
            self._reading = False
        mailbox.finished(call)
        kind, _, old, new, flag = call
        obj = view(new)
        return InformerEvent(
            kind,
            obj,
            obj if kind == SYNC else None if old is None else view(old),
            is_in_initial_list=flag and kind == ADD,
            final_state_unknown=flag and kind == DELETE,
        )
