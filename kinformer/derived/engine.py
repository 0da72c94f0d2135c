"""The engine of a derived collection: takes changes from its sources, computes values, and delivers their changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.derived.entries import EntryChange
from kinformer.derived.metrics import DerivedMetrics, DerivedStatistics
from kinformer.derived.mirror import MirrorCore
from kinformer.derived.propagation import Propagation
from kinformer.derived.tap import ComputedCore, Source, Tap
from kinformer.derived.values import Values
from kinformer.exceptions import ConfigError, StoppedError, describe
from kinformer.informer.collection import Collection, core_of
from kinformer.metrics import Metrics
from kinformer.reflector.health import InformerHealth, combine_health, nothing_followed

__all__ = ["Engine"]

log = get_logger("kinformer.derived")

_LOOK = 16  # changes between two checks of the clock, because each may run an index function of the program


class Engine(ComputedCore):
    """The core of a derived collection: computes its values, when a `Propagation` gives it a turn.

    Args:
        name: The name of the collection.
        collections: The collections that it reads from the beginning.

    Attributes:
        values: The collection's cache.
        height: One more than the height of the highest collection that it reads.
        taps: One tap per collection that it reads, in the order in which reading began.
        circle: The error raised when it was about to read itself, directly or indirectly, which ends it.
    """

    def __init__(self, name: str, collections: tuple[Collection, ...]) -> None:
        self.values = Values()
        self.values.wake = self.wake
        super().__init__(
            "derived collection",
            name,
            publisher=self.values,
            schedule=self.values.schedule,
            metrics=DerivedMetrics(name, lambda: self.sink, self.health, self.statistics),
            log=log,
        )
        self.height = 1
        self.taps: list[Tap] = []
        self.circle: ConfigError | None = None
        self._numbers = 0
        self._above: list[ComputedCore] = []  # the collections that read this one
        self._mirrors: dict[int, MirrorCore] = {}  # of the program's own collections, by their id
        self._propagation: Propagation | None = None
        self._sources = tuple(map(self.source_of, collections))

    # --- life -------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start following the sources, in the event loop that they run in."""
        self._propagation = Propagation.current()
        for source in self._sources:
            self._tap(source, with_state=True)  # raises if the source has ended, before any task is started
        self.wake()
        self.metrics.start()
        self.tasks.start(self.values.schedule.run(), f"kinformer resync of {self.name}")
        self.handlers.start()

    async def _finish(self, deadline: float) -> None:
        """Stop computing, then let the handlers finish."""
        try:
            self._stop(StoppedError(f"derived collection {self.name} was exited"))
            await self.handlers.finish(deadline)
        finally:
            await self.tasks.cancel()
            self.metrics.close()
            for mirror in self._mirrors.values():
                if mirror.life.has_begun:
                    await mirror.life.leave(deadline)

    def _stop(self, error: BaseException) -> None:
        """Stop following the sources, and raise `error` in everything that waits for the values."""
        if self._propagation is not None:
            self._propagation.forget(self)
        for tap in self.taps:
            tap.detach()
            if tap.source.computed is not None:
                tap.source.computed.left_by(self)
        self.values.fail(error)
        self.handlers.end_streams(self.life.crash)

    def _end(self, error: BaseException) -> None:
        """End with an error, before the collection is exited."""
        self.life.error = error
        self._stop(error)

    def crashed(self, task: str, error: BaseException) -> None:
        """End with an error of its own, or of a task."""
        if not self.life.has_ended:
            message = "derived collection %s ended with %s"
            log.error(message, self.name, describe(error), exc_info=error, resource=self.name, reason=error)
            self._end(error)

    def wake(self) -> None:
        """Schedule work."""
        if self._propagation is not None and not self.life.has_ended:
            self._propagation.wake(self)

    # --- sources ----------------------------------------------------------------------------------

    def source_of(self, collection: Collection) -> Source:
        """Return the source for a collection. The program's own collections are mirrored."""
        core = core_of(collection)
        if core is None:
            core = self._mirrors.get(id(collection))
            if core is None:
                core = self._mirrors[id(collection)] = MirrorCore(collection)
        return Source(collection, core)

    def _tap(self, source: Source, *, with_state: bool) -> Tap:
        if isinstance(source.core, MirrorCore) and not source.core.life.has_begun:
            source.core.life.begin()
        source.core.life.require_running(f"derived collection {self.name}")
        if source.computed is not None:
            way = source.computed.way_to(self)
            if way is not None:
                names = " reads ".join([self.name, *way])
                self.circle = ConfigError(f"derived collection {self.name} would read itself: {names}")
                raise self.circle
            source.computed.read_by(self)
            self.rise(source.computed.height + 1)
        self._numbers += 1

        def ended(error: BaseException) -> None:
            self._input_ended(source, error)

        tap = Tap(source, self._numbers, wake=self.wake, ended=ended, with_state=with_state)
        self.taps.append(tap)
        tap.attach()
        self.metrics.start()  # the first member of a union may have the sink
        return tap

    def way_to(self, core: ComputedCore) -> list[str] | None:
        """Return the names on the path to a collection that it reads, directly or indirectly, or None if not read."""
        if core is self:
            return [self.name]
        for source in self._inputs():
            way = source.computed.way_to(core) if source.computed is not None else None
            if way is not None:
                return [self.name, *way]
        return None

    def read_by(self, core: ComputedCore) -> None:
        """Record that another collection reads this one, so that its height follows."""
        self._above.append(core)

    def left_by(self, core: ComputedCore) -> None:
        """Record that another collection no longer reads this one."""
        if core in self._above:
            self._above.remove(core)

    def rise(self, height: int) -> None:
        """Raise the height to at least `height`, and the heights of the collections that read this one above it."""
        if height > self.height:
            self.height = height
            for core in self._above:
                core.rise(height + 1)

    def _input_ended(self, source: Source, error: BaseException) -> None:
        if not self.life.has_ended:
            log.warning(
                "derived collection %s no longer changes, because %s ended: %s",
                self.name,
                source.name,
                describe(error),
                reason=error,
            )
            if isinstance(error, StoppedError):
                error = StoppedError(f"derived collection {self.name} has ended, because {source.name} was exited")
            self._end(error)

    def _inputs(self) -> Sequence[Source]:
        """Return the current sources, or the first ones before it has been entered."""
        return [tap.source for tap in self.taps] or self._sources

    def roots(self, member: str = "") -> list[Any]:
        """Return the cores of the informers behind this collection, or behind one member of a union by name."""
        return list(dict.fromkeys(root for source in self._inputs_in(member) for root in source.core.roots(member)))

    def _inputs_in(self, member: str) -> Sequence[Source]:
        """Return the sources in which `roots` looks for informers."""
        return self._inputs()

    @property
    def sink(self) -> Metrics | None:
        """The sink of the first informer behind it that has one."""
        return next((sink for root in self.roots() if (sink := root.sink) is not None), None)

    # --- state ------------------------------------------------------------------------------------

    def unlisted_reason(self) -> str:
        """Return the reason why the values are not complete, or "" if they are."""
        if not self.life.has_begun:
            return "it has not been entered; use `async with` on it"
        return "" if self.values.synced.is_open else self._missing_reason()

    def _missing_reason(self) -> str:
        missing = [tap.source for tap in self.taps if not tap.is_synced]
        reasons = [f"{source.name}: {source.core.unlisted_reason()}" for source in missing]
        return "; ".join(reasons) or "its values are being computed"

    def unsynced_errors(self) -> dict[str, BaseException | None]:
        """Return the last error of each source that it is waiting for, by name."""
        return {tap.source.name: tap.source.core.health().last_error for tap in self.taps if not tap.is_synced}

    def health(self) -> InformerHealth:
        """Return the health of the worst source, but `synced` of the collection itself."""
        parts = self._health_of_inputs()
        if not parts:  # it has not been entered, or is a union without a member
            parts = [nothing_followed(running=self.life.has_begun)]
        synced, stopped = self.values.synced.is_open, self.life.has_ended
        return combine_health(parts, synced=synced, stopped=stopped, error=self.life.crash)

    def _health_of_inputs(self) -> list[InformerHealth]:
        return [tap.source.core.health() for tap in self.taps]

    def statistics(self) -> DerivedStatistics:
        """Return counts of changes, calls and pending work."""
        mailboxes = self.handlers.mailboxes
        return DerivedStatistics(
            objects=len(self.values.indexer),
            reads=tuple(tap.source.name for tap in self.taps),
            events=dict(self.values.events),
            pending={mailbox.name: len(mailbox) for mailbox in mailboxes},
            coalesced=sum(mailbox.coalesced for mailbox in mailboxes),
            handler_errors=self.handlers.errors,
            index_errors=self.values.indexer.index_errors,
            **self._figures(),
        )

    def _figures(self) -> dict[str, int]:
        """Return the figures of this kind of engine, by their names in `DerivedStatistics`."""
        return {}

    # --- work -------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """True while a cache that it reads, directly or indirectly, is ahead of its receivers."""
        return any(tap.is_held for tap in self.taps)

    @property
    def has_work(self) -> bool:
        """True if some changes of the sources are not in the values yet."""
        return (
            self._is_behind
            or any(not tap.is_empty for tap in self.taps)
            or any(tap.source.core.has_work for tap in self.taps)
        )

    async def settled(self) -> None:
        """Wait until the changes of the sources are in the values, or the collection has ended."""
        while self._propagation is not None and not self.life.has_ended and self.has_work:
            await self._propagation.turn()

    def work(self, budget: YieldBudget) -> bool:
        """Take changes, compute the values that they affect, and deliver the results. Return True if work is left."""
        for tap in self.taps:
            tap.begin_turn()
        try:
            return self._work(budget)
        finally:
            self.values.hand_out()

    def _work(self, budget: YieldBudget) -> bool:
        if self.values.is_publishing and not self.values.publish(budget):
            return True
        for tap in tuple(self.taps):
            while changes := tap.take(_LOOK):
                for change in changes:
                    self._absorb(tap, change)
                if budget.exhausted():
                    return True
        if not self._compute(budget):
            return True
        if not self.values.is_live:
            return self._is_complete and not self.values.publish(budget)
        return not self.values.replay(budget)

    @property
    def _is_complete(self) -> bool:
        """True if the values reflect a complete state of all sources."""
        return not self._is_waiting and not self._is_behind and all(tap.is_synced for tap in self.taps)

    @property
    def _is_waiting(self) -> bool:
        """True if a source is not complete, so that some value cannot be computed."""
        return False

    @property
    @abstractmethod
    def _is_behind(self) -> bool:
        """True if some of the changes taken are not in the values yet."""

    @abstractmethod
    def _absorb(self, tap: Tap, change: EntryChange) -> None:
        """Mark the values that a change affects."""

    @abstractmethod
    def _compute(self, budget: YieldBudget) -> bool:
        """Compute the marked values. Return False if some are left."""
