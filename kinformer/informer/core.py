"""The inside of a collection: what other parts of kinformer need of it beside its public members.

A `SharedInformer` and a `DerivedCollection` are the public faces of such a core. Each face keeps its core in `_core`,
and `core_of` is the only function that reads it, so that no other module looks into a class with public members.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from kinformer._runtime.life import SHUTDOWN_TIMEOUT, FirstSync, Life
from kinformer._runtime.logs import StructuredLogger
from kinformer._runtime.tasks import Tasks
from kinformer.informer.metrics import CollectionMetrics
from kinformer.metrics import Metrics
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.publisher import Publisher
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.reflector.health import InformerHealth

__all__ = ["CollectionCore", "Part"]


class Part:
    """What a factory or a `Manager` starts, leaves and waits for.

    Attributes:
        name: For the log and errors.
        life: Whether it has been entered and left.
        sync: The waits for its first sync.
    """

    def __init__(self, name: str, life: Life, sync: FirstSync) -> None:
        self.name = name
        self.life = life
        self.sync = sync


class CollectionCore(Part, ABC):
    """The inside of a collection: its objects and their receivers, its handlers, its tasks and its life.

    Args:
        kind: What it is, in words, for errors: `"informer"`.
        name: See `Part`.
        publisher: The cache, and those that are told of its changes.
        schedule: The resyncs of its handlers.
        metrics: Its metrics.
        log: The logger of the waits for its first sync.
        limiter: Returns the limiter of the worker threads of its handlers.
        shutdown_timeout: Seconds that leaving may take.

    Attributes:
        publisher: See above.
        metrics: See above.
        tasks: Its tasks.
        handlers: Its handlers and event streams.
        has_members: True if its keys begin with the name of a member, as those of a union by name do.
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
            log=log,
        )
        super().__init__(name, life, sync)
        self.has_members = False
        self.publisher = publisher
        self.metrics = metrics
        self.tasks = Tasks(self.crashed)
        self.handlers = HandlerSet(
            name, publisher, schedule, self.tasks, life.require_running, metrics.handler, limiter, self.unlisted_reason
        )

    # --- life -------------------------------------------------------------------------------------

    @abstractmethod
    def _start(self) -> None:
        """Start the tasks."""

    @abstractmethod
    async def _finish(self, deadline: float) -> None:
        """End the tasks within a deadline on the loop's clock."""

    @abstractmethod
    def crashed(self, task: str, error: BaseException) -> None:
        """End by the error of a task."""

    def refuse_inside(self, refusal: str) -> None:
        """Raise RuntimeError with this refusal if one of the handlers is the caller."""
        self.handlers.refuse_inside(refusal)

    # --- the first sync ---------------------------------------------------------------------------

    async def _first_sync(self, fail_fast: bool) -> None:
        """Wait for the first sync, without a limit and without warnings."""
        await self.publisher.synced.wait()

    # --- state ------------------------------------------------------------------------------------

    @abstractmethod
    def unlisted_reason(self) -> str:
        """Return why the objects are not complete, in words; "" if they are."""

    def unsynced_reason(self) -> str:
        """Return why it, or one of its handlers, has not synced, in words; "" if all have."""
        return self.unlisted_reason() or self.handlers.unsynced_reason()

    @abstractmethod
    def unsynced_errors(self) -> Mapping[str, BaseException | None]:
        """Return the last error of each resource that the first sync waits for, or None."""

    @abstractmethod
    def health(self) -> InformerHealth:
        """Return how well it follows what it is made of."""

    # --- what it is made of -----------------------------------------------------------------------

    @property
    @abstractmethod
    def sink(self) -> Metrics | None:
        """The metrics sink of it, or of the first informer behind it that has one."""

    @abstractmethod
    def roots(self, member: str = "") -> list[Any]:
        """Return the cores of the informers that its objects come from, each once.

        Args:
            member: Of unions by name, only those behind the member of this name; "" is all.
        """

    @property
    def resync_period(self) -> float:
        """Seconds between two resyncs of handlers and streams that set none; 0 is off."""
        return 0.0

    @property
    def has_work(self) -> bool:
        """True if it is computed, and something that has changed below is not in its values yet."""
        return False

    async def settled(self) -> None:
        """Wait until `has_work` is False, or it has ended."""
