"""The engine of a derived collection: takes the changes of what it reads, computes, and hands out what has changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.derived.propagation import Propagation
from kinformer.derived.tap import Change, Tap
from kinformer.derived.values import Values
from kinformer.exceptions import ConfigError, StoppedError, describe
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.publisher import Readable
from kinformer.reflector.health import InformerHealth

__all__ = ["DerivedStatistics", "Engine"]

log = get_logger("kinformer.derived")

_LOOK = 16  # changes between two looks at the clock: each may run an index function of the program


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedStatistics:
    """Counts since the collection was entered, but for those that are said to be of this moment.

    Attributes:
        objects: The values, at this moment.
        reads: The names of the collections that it reads, at this moment.
        runs: The calls of its function.
        failures: Those of them that raised.
        dependencies: Pairs of a value and something that it was computed from, at this moment.
        waiting: The objects whose values have to be computed anew, at this moment.
        events: The changes of values, by type.
        pending: The calls that wait, by the name of the handler, at this moment.
        coalesced: The calls that were folded into another because a handler was too slow for its `queue_size`.
        handler_errors: The calls of handlers and filters that raised.
        index_errors: The values left out of an index because its function raised.
    """

    objects: int = 0
    reads: tuple[str, ...] = ()
    runs: int = 0
    failures: int = 0
    dependencies: int = 0
    waiting: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    coalesced: int = 0
    handler_errors: int = 0
    index_errors: int = 0


class Engine(ABC):
    """What computes one derived collection. It works in turns that a `Propagation` gives it.

    Args:
        name: Of the collection.
        sources: What it reads from the beginning.

    Attributes:
        values: The collection's cache.
        has_members: True of a union by name, whose keys begin with the name of a member.
        height: One more than that of the highest collection that it reads.
        error: What it has ended by; None while it runs.
        taps: One for each collection that it reads, in the order in which it began to.
        on_end: Called when it has ended.
        on_tap: Called when it has begun to read a collection.
        circle: Raised when it was about to read itself, directly or not; it ends by that.
    """

    def __init__(self, name: str, sources: tuple[Readable, ...]) -> None:
        self.name = name
        self.values = Values()
        self.values.wake = self.wake
        self.height = 1
        self.has_members = False
        self.error: BaseException | None = None
        self.taps: list[Tap] = []
        self.on_end: Callable[[], None] | None = None
        self.on_tap: Callable[[], None] | None = None
        self.circle: ConfigError | None = None
        self._sources = sources
        self._numbers = 0
        self._above: list[Engine] = []  # those that read this
        self._propagation: Propagation | None = None

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow the sources; in the event loop that they run in."""
        self._propagation = Propagation.current()
        for source in self._sources:
            self._tap(source, with_state=True)
        self.wake()

    def stop(self, error: BaseException) -> None:
        """Follow nothing more; `error` is raised in whatever waits for the values."""
        if self.error is None:
            self.error = error
        if self._propagation is not None:
            self._propagation.forget(self)
        for tap in self.taps:
            tap.detach()
            if tap.source.engine is not None:
                tap.source.engine.left_by(self)
        self.values.fail(self.error)
        if self.on_end is not None:
            self.on_end()

    def crashed(self, error: BaseException) -> None:
        """End by an error of its own."""
        if self.error is None:
            text = "derived collection %s ended by %s"
            log.error(text, self.name, describe(error), exc_info=error, resource=self.name, reason=error)
            self.stop(error)

    def wake(self) -> None:
        """Work soon."""
        if self._propagation is not None and self.error is None:
            self._propagation.wake(self)

    # --- what it reads ----------------------------------------------------------------------------

    def _tap(self, source: Readable, *, with_state: bool) -> Tap:
        source.usable(f"derived collection {self.name}")
        if source.engine is not None:
            way = source.engine.way_to(self)
            if way is not None:
                names = " reads ".join([self.name, *way])
                self.circle = ConfigError(f"derived collection {self.name} would be made of itself: {names}")
                raise self.circle
            source.engine.read_by(self)
            self._rise(source.engine.height + 1)
        self._numbers += 1

        def ended(error: BaseException) -> None:
            self._input_ended(source, error)

        tap = Tap(source, self._numbers, wake=self.wake, ended=ended, with_state=with_state)
        self.taps.append(tap)
        tap.attach()
        if self.on_tap is not None:
            self.on_tap()
        return tap

    def way_to(self, engine: Engine) -> list[str] | None:
        """Return the names from this collection to another that it reads, directly or not; None if it does not."""
        if engine is self:
            return [self.name]
        for source in [tap.source for tap in self.taps] or self._sources:
            way = source.engine.way_to(engine) if source.engine is not None else None
            if way is not None:
                return [self.name, *way]
        return None

    def read_by(self, engine: Engine) -> None:
        """Note that another collection reads this one, so that its height follows."""
        self._above.append(engine)

    def left_by(self, engine: Engine) -> None:
        """Note that another collection reads this one no more."""
        if engine in self._above:
            self._above.remove(engine)

    def _rise(self, height: int) -> None:
        if height > self.height:
            self.height = height
            for engine in self._above:
                engine._rise(height + 1)

    def _input_ended(self, source: Readable, error: BaseException) -> None:
        if self.error is None:
            log.warning(
                "derived collection %s changes no more, because %s ended: %s",
                self.name,
                source.name,
                describe(error),
                reason=error,
            )
            if isinstance(error, StoppedError):
                error = StoppedError(f"derived collection {self.name} has ended, because {source.name} was left")
            self.stop(error)

    def roots(self, member: str = "") -> list[Any]:
        """Return the informers behind this collection, each once; of unions by name those behind one member, or all."""
        return list(dict.fromkeys(root for source in self._roots_in(member) for root in source.roots(member)))

    def _roots_in(self, member: str) -> Sequence[Readable]:
        """The collections in which the informers behind this one are looked for."""
        return [tap.source for tap in self.taps] or self._sources

    def health_of_inputs(self) -> list[InformerHealth]:
        """The health of each collection that it reads."""
        return [tap.source.health() for tap in self.taps]

    def missing(self) -> dict[str, BaseException | None]:
        """The names of what it reads and waits for, each with its last error."""
        return {tap.source.name: tap.source.health().last_error for tap in self.taps if not tap.is_synced}

    def unsynced_reason(self) -> str:
        """Return why the values are not complete."""
        reasons = [f"{tap.source.name}: {tap.source.unsynced_reason()}" for tap in self.taps if not tap.is_synced]
        return "; ".join(reasons) or "its values are being computed"

    def statistics(self, handlers: HandlerSet) -> DerivedStatistics:
        """Gather what has gone through, and what waits."""
        return DerivedStatistics(
            objects=len(self.values.indexer),
            reads=tuple(tap.source.name for tap in self.taps),
            events=dict(self.values.events),
            pending={mailbox.name: len(mailbox) for mailbox in handlers.mailboxes},
            coalesced=sum(mailbox.coalesced for mailbox in handlers.mailboxes),
            handler_errors=handlers.errors,
            index_errors=self.values.indexer.index_errors,
            **self._figures(),
        )

    def _figures(self) -> dict[str, int]:
        """The figures of this kind of engine, by their names in `DerivedStatistics`."""
        return {}

    # --- work -------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """True while a cache that it reads, directly or not, is ahead of what it has told."""
        return any(tap.is_held for tap in self.taps)

    @property
    def has_work(self) -> bool:
        """True if something of what has changed below is not in the values yet."""
        return (
            self._is_behind
            or any(not tap.is_empty for tap in self.taps)
            or any(tap.source.engine is not None and tap.source.engine.has_work for tap in self.taps)
        )

    async def settled(self) -> None:
        """Wait until what has changed below is in the values, or this has ended."""
        while self._propagation is not None and self.error is None and self.has_work:
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
    def _absorb(self, tap: Tap, change: Change) -> None:
        """Note what a change concerns."""

    @abstractmethod
    def _compute(self, budget: YieldBudget) -> bool:
        """Compute what was noted; return False if the budget ended it."""
