"""The engine of a derived collection: takes the changes of what it reads, computes, and hands out what has changed."""

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

_LOOK = 16  # changes between two looks at the clock: each may run an index function of the program


class Engine(ComputedCore):
    """The core of a derived collection: computes it, in turns that a `Propagation` gives.

    Args:
        name: Of the collection.
        collections: What it reads from the beginning.

    Attributes:
        values: The collection's cache.
        height: One more than that of the highest collection that it reads.
        taps: One for each collection that it reads, in the order in which it began to.
        circle: Raised when it was about to read itself, directly or not; it ends by that.
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
        self._above: list[ComputedCore] = []  # those that read this
        self._mirrors: dict[int, MirrorCore] = {}  # of collections of the program's own, by their id
        self._propagation: Propagation | None = None
        self._sources = tuple(map(self.source_of, collections))

    # --- life -------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Begin to follow the sources, in the event loop that they run in."""
        self._propagation = Propagation.current()
        for source in self._sources:
            self._tap(source, with_state=True)  # raises if it has ended: then there is no task to end
        self.wake()
        self.metrics.start()
        self.tasks.start(self.values.schedule.run(), f"kinformer resync of {self.name}")
        self.handlers.start()

    async def _finish(self, deadline: float) -> None:
        """Compute no more, then let the handlers finish."""
        try:
            self._stop(StoppedError(f"derived collection {self.name} has been left"))
            await self.handlers.finish(deadline)
        finally:
            await self.tasks.cancel()
            self.metrics.close()
            for mirror in self._mirrors.values():
                if mirror.life.has_begun:
                    await mirror.life.leave(deadline)

    def _stop(self, error: BaseException) -> None:
        """Follow nothing more; `error` is raised in whatever waits for the values."""
        if self._propagation is not None:
            self._propagation.forget(self)
        for tap in self.taps:
            tap.detach()
            if tap.source.computed is not None:
                tap.source.computed.left_by(self)
        self.values.fail(error)
        self.handlers.end_streams(self.life.crash)

    def _end(self, error: BaseException) -> None:
        """End by an error, before the collection is left."""
        self.life.error = error
        self._stop(error)

    def crashed(self, task: str, error: BaseException) -> None:
        """End by an error of its own, or of a task."""
        if not self.life.has_ended:
            text = "derived collection %s ended by %s"
            log.error(text, self.name, describe(error), exc_info=error, resource=self.name, reason=error)
            self._end(error)

    def wake(self) -> None:
        """Work soon."""
        if self._propagation is not None and not self.life.has_ended:
            self._propagation.wake(self)

    # --- what it reads ----------------------------------------------------------------------------

    def source_of(self, collection: Collection) -> Source:
        """Return a collection as this reads it; one of the program's own is mirrored."""
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
                self.circle = ConfigError(f"derived collection {self.name} would be made of itself: {names}")
                raise self.circle
            source.computed.read_by(self)
            self.rise(source.computed.height + 1)
        self._numbers += 1

        def ended(error: BaseException) -> None:
            self._input_ended(source, error)

        tap = Tap(source, self._numbers, wake=self.wake, ended=ended, with_state=with_state)
        self.taps.append(tap)
        tap.attach()
        self.metrics.start()  # the first member of a union may bring the sink
        return tap

    def way_to(self, core: ComputedCore) -> list[str] | None:
        """Return the names from this collection to another that it reads, directly or not; None if it does not."""
        if core is self:
            return [self.name]
        for source in self._inputs():
            way = source.computed.way_to(core) if source.computed is not None else None
            if way is not None:
                return [self.name, *way]
        return None

    def read_by(self, core: ComputedCore) -> None:
        """Note that another collection reads this one, so that its height follows."""
        self._above.append(core)

    def left_by(self, core: ComputedCore) -> None:
        """Note that another collection reads this one no more."""
        if core in self._above:
            self._above.remove(core)

    def rise(self, height: int) -> None:
        """Have at least this height, and those that read this one a greater one."""
        if height > self.height:
            self.height = height
            for core in self._above:
                core.rise(height + 1)

    def _input_ended(self, source: Source, error: BaseException) -> None:
        if not self.life.has_ended:
            log.warning(
                "derived collection %s changes no more, because %s ended: %s",
                self.name,
                source.name,
                describe(error),
                reason=error,
            )
            if isinstance(error, StoppedError):
                error = StoppedError(f"derived collection {self.name} has ended, because {source.name} was left")
            self._end(error)

    def _inputs(self) -> Sequence[Source]:
        """Return what it reads now; what it will read at first, before it has been entered."""
        return [tap.source for tap in self.taps] or self._sources

    def roots(self, member: str = "") -> list[Any]:
        """Return the cores of the informers behind this collection; of a union by name those behind one member."""
        return list(dict.fromkeys(root for source in self._inputs_in(member) for root in source.core.roots(member)))

    def _inputs_in(self, member: str) -> Sequence[Source]:
        """Return the collections in which the informers behind this one are looked for."""
        return self._inputs()

    @property
    def sink(self) -> Metrics | None:
        """The sink of the first informer behind it that has one."""
        return next((sink for root in self.roots() if (sink := root.sink) is not None), None)

    # --- state ------------------------------------------------------------------------------------

    def unlisted_reason(self) -> str:
        """Return why the values are not complete, in words; "" if they are."""
        if not self.life.has_begun:
            return "it has not been entered; use `async with` on it"
        return "" if self.values.synced.is_open else self._missing_reason()

    def _missing_reason(self) -> str:
        missing = [tap.source for tap in self.taps if not tap.is_synced]
        reasons = [f"{source.name}: {source.core.unlisted_reason()}" for source in missing]
        return "; ".join(reasons) or "its values are being computed"

    def unsynced_errors(self) -> dict[str, BaseException | None]:
        """Return the last error of each collection that it reads and waits for, by name."""
        return {tap.source.name: tap.source.core.health().last_error for tap in self.taps if not tap.is_synced}

    def health(self) -> InformerHealth:
        """Return the health of the worst of what it reads; synced if it is itself."""
        parts = self._health_of_inputs()
        if not parts:  # it has not been entered, or is a union without a member
            parts = [nothing_followed(running=self.life.has_begun)]
        synced, stopped = self.values.synced.is_open, self.life.has_ended
        return combine_health(parts, synced=synced, stopped=stopped, error=self.life.crash)

    def _health_of_inputs(self) -> list[InformerHealth]:
        return [tap.source.core.health() for tap in self.taps]

    def statistics(self) -> DerivedStatistics:
        """Return what has gone through, and what waits."""
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
        """The figures of this kind of engine, by their names in `DerivedStatistics`."""
        return {}

    # --- work -------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """True while a cache that it reads, directly or not, is ahead of what its receivers have got."""
        return any(tap.is_held for tap in self.taps)

    @property
    def has_work(self) -> bool:
        """True if something of what has changed below is not in the values yet."""
        return (
            self._is_behind
            or any(not tap.is_empty for tap in self.taps)
            or any(tap.source.core.has_work for tap in self.taps)
        )

    async def settled(self) -> None:
        """Wait until what has changed below is in the values, or this has ended."""
        while self._propagation is not None and not self.life.has_ended and self.has_work:
            await self._propagation.turn()

    def work(self, budget: YieldBudget) -> bool:
        """Take what has changed, compute what it concerns, and hand out what comes of it; True if something is left."""
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
        """True if the values are those of a complete state of everything that they were made of."""
        return not self._is_waiting and not self._is_behind and all(tap.is_synced for tap in self.taps)

    @property
    def _is_waiting(self) -> bool:
        """True if something of what it reads is not complete, so that some value cannot be computed."""
        return False

    @property
    @abstractmethod
    def _is_behind(self) -> bool:
        """True if changes have been taken that are not in the values yet."""

    @abstractmethod
    def _absorb(self, tap: Tap, change: EntryChange) -> None:
        """Note what a change concerns."""

    @abstractmethod
    def _compute(self, budget: YieldBudget) -> bool:
        """Compute what was noted; return False if the budget ended it."""
