"""The derived collection: its life, its reads and its handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Tasks, require_loop
from kinformer._runtime.waiters import warnings_while
from kinformer.cache.lister import Lister
from kinformer.derived.engine import DerivedStatistics, Engine
from kinformer.derived.entries import ValuesByKey, ValueView, value_of
from kinformer.derived.metrics import DerivedMetrics
from kinformer.derived.values import ValueIndexers, over_values
from kinformer.exceptions import NotSyncedError, StoppedError
from kinformer.informer.collection import CollectionReads
from kinformer.processor.event_stream import EventStream
from kinformer.processor.handler import Handler, HandlerRegistration
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.publisher import Readable
from kinformer.reflector.health import InformerHealth, combine_health, nothing_followed

__all__ = ["DerivedCollection"]

V = TypeVar("V")

log = get_logger("kinformer.derived")

_SHUTDOWN_TIMEOUT = 30.0  # seconds, as of informers


class DerivedCollection(CollectionReads[V], Generic[V]):
    """A collection that is computed from others, and follows them; made by `derive` and the short forms beside it.

    ``async with`` starts and stops it. Entering returns at once; `wait_synced` waits until everything that it reads is
    complete and every value has been computed. Until then readers see nothing. What it reads has to be entered by its
    owner, before or after, and left after it; if it is left before, this changes no more.

    What it promises: at rest it equals its function applied to everything that there is. A value is computed from one
    state of everything that it reads, and no other is ever seen. The cache has a change before a handler hears of it,
    and handlers hear only of values that differ from those before (`==`). It works in slices of 1 ms.

    Attributes:
        name: For the log, errors and metrics.
        indexer: The cache by key and by index.
        lister: The cache by name, namespace and selector.
        by_key: The cache as a mapping.
    """

    def __init__(self, engine: Engine, *, indexers: ValueIndexers | None = None) -> None:
        self.name = engine.name
        self.shutdown_timeout = _SHUTDOWN_TIMEOUT
        self._engine = engine
        self._values = engine.values
        if indexers:
            self._values.add_indexers(indexers)
        self.indexer: ValueView[V] = ValueView(self._values.indexer)
        self.lister: Lister[V] = Lister(self.indexer)
        self.by_key: Mapping[str, V] = ValuesByKey(self.indexer)
        self._readable = Readable(self, self._values, engine)
        engine.on_end = self._ended
        self._tasks = Tasks(self._crashed)
        self._metrics = DerivedMetrics(lambda: self._readable.metrics, self)
        by = (self._values, self._values.schedule, self._tasks, self._usable, self._metrics.handler)
        self._handlers = HandlerSet(self.name, *by, unlisted_reason=self._unlisted_reason)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_left = False

    # --- life ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._start_tasks()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._leave(asyncio.get_running_loop().time() + self.shutdown_timeout)
        if self._crash is not None and error is None:
            raise self._crash

    def _start_tasks(self) -> None:
        """Start to compute. What `async with` does on entering, for its owner."""
        if self._loop is not None:
            raise RuntimeError(f"derived collection {self.name} was entered before; make a new one")
        self._loop = asyncio.get_running_loop()
        self._engine.start()  # raises if what it reads has ended: then there is no task to end
        self._engine.on_tap = self._metrics.start  # the first member of a union may bring the sink
        self._metrics.start()
        self._tasks.start(self._values.schedule.run(), f"kinformer resync of {self.name}")
        self._handlers.start()

    @shielded_from_scopes
    async def _leave(self, deadline: float) -> None:
        """Stop within `deadline` on the loop's clock: compute no more, then let the handlers finish.

        Raises:
            RuntimeError: Called from inside one of the handlers that it would wait for.
        """
        self._refuse_leaving()
        self._is_left = True
        try:
            self._engine.stop(StoppedError(f"derived collection {self.name} has been left"))
            await self._handlers.finish(deadline)
        finally:
            await self._tasks.cancel()
            self._metrics.close()

    def _refuse_leaving(self) -> None:
        """Raise RuntimeError where `_leave` would."""
        require_loop(self._loop, "leaving", f"derived collection {self.name}")
        self._handlers.refuse_inside(f"derived collection {self.name} cannot be left")

    def _crashed(self, task: str, error: BaseException) -> None:
        self._engine.crashed(error)

    def _ended(self) -> None:
        self._handlers.end_streams(self._crash)

    def _usable(self, what: str) -> None:
        require_loop(self._loop, what, f"derived collection {self.name}")
        if self._engine.error is not None:
            raise self._engine.error

    @property
    def _crash(self) -> BaseException | None:
        """The error that it ended by, if it ended by itself."""
        error = self._engine.error
        return None if isinstance(error, StoppedError) else error

    # --- the sync -----------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """True once everything that it reads is complete, and every value has been computed."""
        return self._values.synced.is_open

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until `has_synced`. After 5 s, and every 10 s from then on, a warning says what is missing and why.

        Raises:
            NotSyncedError: `timeout` seconds have passed; the text names what is missing.
            StoppedError: It, or what it reads, has been left.
            Exception: What it, or what it reads, has crashed of.
        """
        require_loop(self._loop, "wait_synced", f"derived collection {self.name}")
        try:
            async with asyncio.timeout(timeout):
                with warnings_while(self._warn):
                    await self._values.synced.wait()
        except TimeoutError:
            text = f"{self.name} has not synced after {timeout:g} s: {self._unlisted_reason()}"
            raise NotSyncedError(text, self._engine.missing()) from None

    def _unlisted_reason(self) -> str:
        if self._loop is None:
            return "it has not been entered; use `async with` on it"
        return "" if self.has_synced else self._engine.unsynced_reason()

    def _warn(self) -> None:
        text = "%s still waits for its first values: %s"
        log.warning(text, self.name, self._unlisted_reason(), resource=self.name, reason="unsynced")

    def health(self) -> InformerHealth:
        """How well it follows: the health of the worst of what it reads; synced if it is itself."""
        parts = self._engine.health_of_inputs()
        error = self._engine.error
        if not parts:  # it has not been entered, or is a union without a member
            parts = [nothing_followed(running=self._loop is not None)]
        return combine_health(parts, synced=self.has_synced, stopped=error is not None, error=self._crash)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the collections that it reads, as far as it has."""
        return tuple(tap.source.name for tap in self._engine.taps)

    def statistics(self) -> DerivedStatistics:
        """What has gone through, and what waits."""
        return self._engine.statistics(self._handlers)

    # --- handlers -----------------------------------------------------------------------------------

    def add_event_handler(
        self,
        handler: Any = None,
        *,
        on_add: Any = None,
        on_update: Any = None,
        on_delete: Any = None,
        resync_period: float | None = None,
        filter: Any = None,  # noqa: A002 - the contract's name
        queue_size: int | None = 1024,
        name: str | None = None,
        thread: bool = False,
    ) -> HandlerRegistration:
        """Have callbacks called for what is there, as adds, and for every change of a value.

        The arguments and the order of calls are those of `SharedInformer.add_event_handler`; callbacks and the filter
        get values. A callback that takes `key` gets the key too.

        Raises:
            StoppedError: It, or what it reads, has been left.
            ConfigError: There is no callback, or both a handler and callbacks.
        """
        owner = f"derived collection {self.name}"
        target = Handler(handler, on_add=on_add, on_update=on_update, on_delete=on_delete, owner=owner)
        only, period = _of_entries(filter), resync_period or 0.0
        return self._handlers.add(
            target, name=name, queue_size=queue_size, only=only, resync_period=period, thread=thread
        )

    async def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Call a handler no more; see `SharedInformer.remove_event_handler`."""
        require_loop(self._loop, "remove_event_handler", f"derived collection {self.name}")
        await self._handlers.remove(registration, drain=drain)

    def events(
        self,
        *,
        queue_size: int | None = 1024,
        filter: Any = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream[Any]:
        """The changes to iterate over; `object` and `old` of an event are values. See `SharedInformer.events`."""
        return self._handlers.stream(
            name or "events", queue_size=queue_size, only=_of_entries(filter), resync_period=0.0, make=EventStream
        )

    def add_indexers(self, indexers: ValueIndexers) -> None:
        """Add indexes over the values, before or after the start; see `SharedInformer.add_indexers`."""
        require_loop(self._loop, "add_indexers", f"derived collection {self.name}")
        self._values.add_indexers(indexers)

    async def build_indexers(self, indexers: ValueIndexers) -> None:
        """Like `add_indexers`, in slices that leave the loop its turns; the indexes are there on return."""
        require_loop(self._loop, "build_indexers", f"derived collection {self.name}")
        await self._values.indexer.build_indexers(over_values(indexers))

    def __repr__(self) -> str:
        return f"<DerivedCollection {self.name}: {len(self)} values>"


def _of_entries(only: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
    """Return the filter of a handler, which takes values, as one that takes the entries of the cache."""
    return None if only is None else lambda entry: only(value_of(entry))
