"""The core of a collection: the members that other parts of kinformer use besides its public ones.

The public faces of a core are `SharedInformer` and `DerivedCollection`. Each face keeps its core in `_core`. Other
modules get it only through `core_of`, so that none of them accesses a private member of a public class.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import anyio

from kinformer._runtime.life import SHUTDOWN_TIMEOUT, Life
from kinformer._runtime.logs import StructuredLogger
from kinformer._runtime.tasks import Tasks
from kinformer.connection.refusals import Refusals
from kinformer.exceptions import StoppedError
from kinformer.informer.metrics import CollectionMetrics
from kinformer.metrics import Metrics
from kinformer.processor.first_sync import FirstSync
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.publisher import Publisher
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.reflector.health import InformerHealth

__all__ = ["CollectionCore", "ProgramPart", "leave_parts", "numbered"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


class ProgramPart:
    """A part of a program that a factory or a `Manager` starts, stops and waits for.

    Attributes:
        name: The name in the log and in errors.
        life: Records whether it was entered and exited.
        sync: The waits for its first sync.
    """

    def __init__(self, name: str, life: Life, sync: FirstSync) -> None:
        self.name = name
        self.life = life
        self.sync = sync

    def is_synced(self, *, handlers: bool) -> bool:
        """Return True if it has synced, and its handlers too if these count."""
        return self.sync.is_done()

    async def synced(self, *, handlers: bool) -> None:
        """Wait until it has synced, and its handlers too if these count."""
        await self.sync.first()


async def leave_parts(*waves: Iterable[ProgramPart], deadline: float) -> list[BaseException]:
    """Leave the parts that were entered, by one deadline on the loop's clock, and return the errors.

    The parts of a wave leave beside one another. Each stops following before the next one begins to leave, so readers
    come before the parts that they read. A wave begins when the one before it has ended, or at the deadline. If this is
    cancelled, all parts end at once.
    """
    loop = asyncio.get_running_loop()
    waiting = [[part for part in wave if part.life.has_begun] for wave in waves]
    leaving: list[asyncio.Task[None]] = []
    try:
        for wave in waiting:
            while wave:
                leaving.append(loop.create_task(wave.pop(0).life.leave(deadline)))
                await asyncio.sleep(0)
            if leaving:
                await asyncio.wait(leaving, timeout=max(0.0, deadline - loop.time()))
        if leaving:
            await asyncio.wait(leaving)
    except asyncio.CancelledError:
        leaving += [loop.create_task(part.life.leave(deadline)) for wave in waiting for part in wave]
        await asyncio.sleep(0)  # each must have begun, or its cancellation would end nothing
        for task in leaving:
            task.cancel()
        if leaving:
            await asyncio.wait(leaving)
        raise
    errors = [task.exception() for task in leaving if not task.cancelled()]
    return [error for error in errors if error is not None]


def numbered(parts: Iterable[N]) -> dict[str, N]:
    """Return informers, collections or fleets by name. The second one with a name gets a number: `"v1/pods#2"`."""
    seen: dict[str, int] = {}
    named: dict[str, N] = {}
    for part in parts:
        number = seen[part.name] = seen.get(part.name, 0) + 1
        named[part.name if number == 1 else f"{part.name}#{number}"] = part
    return named


class CollectionCore(ProgramPart, ABC):
    """The core of a collection: its objects and their receivers, handlers, tasks and life.

    Args:
        kind: The kind of collection in errors, such as `"informer"`.
        name: See `ProgramPart`.
        publisher: The cache, and the receivers of its changes.
        schedule: The resyncs of its handlers.
        metrics: Its metrics.
        log: The logger of the waits for its first sync.
        limiter: Returns the limiter of its handlers' worker threads.
        shutdown_timeout: Seconds that exiting may take.

    Attributes:
        publisher: See above.
        metrics: See above.
        tasks: Its tasks.
        handlers: Its handlers and event streams.
        has_members: True if its keys begin with the name of a member, as in a union by name.
        has_departed: True once its cluster has left a fleet: see `depart`.
        on_departed: Called with an error when its cluster has left a fleet.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        *,
        publisher: Publisher,
        schedule: ResyncSchedule,
        metrics: CollectionMetrics,
        log: StructuredLogger,
        limiter: Callable[[], anyio.CapacityLimiter | None] = lambda: None,
        shutdown_timeout: float = SHUTDOWN_TIMEOUT,
    ) -> None:
        life = Life(
            f"{kind} {name}",
            start=self._start,
            finish=self._finish,
            refuse_inside=self.refuse_inside,
            shutdown_timeout=shutdown_timeout,
        )
        sync = FirstSync(
            name,
            self._first_sync,
            is_done=lambda: publisher.synced.is_open,
            reason=self.unsynced_reason,
            errors=self.unsynced_errors,
            refusals=self.refusals,
            log=log,
        )
        super().__init__(name, life, sync)
        self.has_members = False
        self.has_departed = False
        self.on_departed: list[Callable[[BaseException], None]] = []
        self.publisher = publisher
        self.metrics = metrics
        self.tasks = Tasks(self.crashed)
        self.cluster = ""
        self.handlers = HandlerSet(
            name,
            publisher,
            schedule,
            self.tasks,
            life.require_running,
            sync,
            self.unlisted_reason,
            metrics.handler,
            limiter,
        )

    @property
    def cluster(self) -> str:
        """The cluster whose name begins its log messages, in a fleet. Otherwise ""."""
        return self.sync.cluster

    @cluster.setter
    def cluster(self, name: str) -> None:
        self.sync.cluster = self.tasks.cluster = name

    # --- life -------------------------------------------------------------------------------------

    @abstractmethod
    def _start(self) -> None:
        """Start the tasks."""

    @abstractmethod
    async def _finish(self, deadline: float) -> None:
        """End the tasks within a deadline on the loop's clock."""

    @abstractmethod
    def crashed(self, task: str, error: BaseException) -> None:
        """Stop with the error of a task."""

    def refuse_inside(self, refusal: str) -> None:
        """Raise RuntimeError with this refusal if the caller is one of the handlers."""
        self.handlers.refuse_inside(refusal)

    def depart(self) -> None:
        """Record that its cluster has left a fleet, so that its objects are gone for collections that fetch them.

        A collection that is merely exited ends them instead: that its objects are gone would be wrong.
        """
        self.has_departed = True
        error = StoppedError(f"the cluster of {self.life.owner} has left its fleet")
        for call in tuple(self.on_departed):
            call(error)

    # --- the first sync ---------------------------------------------------------------------------

    async def _first_sync(self) -> None:
        """Wait for the first sync, without a time limit or warnings."""
        await self.publisher.synced.wait()

    @abstractmethod
    def refusals(self, strict: bool) -> Sequence[Refusals]:
        """Return the refusals of the informers that the first sync waits for.

        Args:
            strict: True to include those that it stops waiting for after a while, as a union by name does.
        """

    # --- state ------------------------------------------------------------------------------------

    @abstractmethod
    def unlisted_reason(self) -> str:
        """Return why the objects are not complete, or "" if they are."""

    def unsynced_reason(self) -> str:
        """Return why the collection or one of its handlers has not synced, or "" if all have."""
        return self.unlisted_reason() or self.handlers.unsynced_reason()

    @abstractmethod
    def unsynced_errors(self) -> Mapping[str, BaseException | None]:
        """Return the last error of each resource that the first sync waits for, or None."""

    @abstractmethod
    def health(self) -> InformerHealth:
        """Return the health: how well the collection follows its sources."""

    # --- sources ----------------------------------------------------------------------------------

    def is_synced(self, *, handlers: bool) -> bool:
        """Return True if it has synced, and its handlers too if these count."""
        return super().is_synced(handlers=handlers) and (not handlers or self.handlers.synced)

    async def synced(self, *, handlers: bool) -> None:
        """Wait until it has synced, and its handlers too if these count."""
        await super().synced(handlers=handlers)
        if handlers:
            await self.handlers.wait_synced()

    @property
    @abstractmethod
    def sink(self) -> Metrics | None:
        """The metrics sink of the collection, or of the first informer behind it that has one."""

    @abstractmethod
    def roots(self, member: str = "") -> list[Any]:
        """Return the cores of the informers that its objects come from, without duplicates.

        Args:
            member: In unions by name, only the informers behind this member are returned, or all if it is "".
        """

    @abstractmethod
    async def prove(self) -> None:
        """Return once the objects are at least as new as the server was at the call. Raises the requests' errors."""

    @property
    def resync_period(self) -> float:
        """Seconds between resyncs of handlers and streams that set no period, or 0 for no resyncs."""
        return 0.0

    @property
    def has_work(self) -> bool:
        """True if the collection is computed, and its values do not include every change of its inputs yet."""
        return False

    async def settled(self) -> None:
        """Wait until `has_work` is False, or the collection has ended."""
