"""The engine of a derived collection: takes changes from its sources, computes values, and delivers their changes."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import get_logger, logged_for
from kinformer._runtime.tasks import all_of
from kinformer.connection.refusals import Refusals
from kinformer.derived.entries import EntryChange
from kinformer.derived.metrics import DerivedMetrics, DerivedStatistics
from kinformer.derived.mirror import MirrorCore
from kinformer.derived.propagation import Propagation
from kinformer.derived.tap import Behind, CollectionSource, ComputedCore, Tap
from kinformer.derived.values import Values
from kinformer.exceptions import ConfigError, StoppedError, describe
from kinformer.informer.collection import Collection, core_of
from kinformer.informer.core import CollectionCore, leave_parts
from kinformer.metrics import Metrics
from kinformer.processor.publisher import Publisher
from kinformer.reflector.health import InformerHealth, combine_health, nothing_followed

__all__ = ["Engine"]

log = get_logger("kinformer.derived")


class Engine(ComputedCore):
    """The core of a derived collection: computes its values, when a `Propagation` gives it a turn.

    Values change only in its turns. Taps also change between them, when a source leaves or a union gets a member.

    Args:
        name: The name of the collection.
        collections: The collections that it reads from the beginning.

    Attributes:
        values: The collection's cache.
        circle: The error raised when it was about to read itself, directly or indirectly, which ends it, or None.
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
        self.taps = []
        self.circle: ConfigError | None = None
        self.readers = []
        self.behind = Behind(-1, [])
        self._numbers = 0  # the number of the last tap
        self._mirrors: dict[int, MirrorCore] = {}  # of the program's own collections, by their id
        self._ending: set[asyncio.Task[None]] = set()  # tasks that end the mirrors of collections no longer read
        self._propagation: Propagation | None = None
        self._sources: tuple[CollectionSource, ...] = tuple(map(self.source_of, collections))

    # --- life -------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start following the sources, in the event loop that they run in."""
        self._propagation = Propagation.current()
        try:
            for source in self._sources:
                self._tap(source, with_state=True)  # raises if the source has ended, before any task is started
        except BaseException:
            for tap in tuple(self.taps):
                self._untap(tap)
            raise
        self._sources = ()  # a source that it ceases to read later may be freed
        self.wake()
        self.metrics.start()
        self.tasks.start(self.values.schedule.run(), f"kinformer resync of {self.name}", vital=True)
        self.handlers.start()

    async def _finish(self, deadline: float) -> None:
        """Stop computing, then let the handlers finish."""
        try:
            self._stop(StoppedError(f"derived collection {self.name} was exited"))
            await self.handlers.finish(deadline)
        finally:
            self.metrics.close()
            try:
                await self.tasks.finish(self._ending, deadline)
                await leave_parts(self._mirrors.values(), deadline=deadline)
            finally:
                await self.tasks.cancel()

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
            with logged_for(self.cluster):
                log.error(message, self.name, describe(error), exc_info=error, resource=self.name, reason=error)
            self._end(error)

    def wake(self) -> None:
        """Schedule work."""
        if self._propagation is not None and not self.life.has_ended:
            self._propagation.wake(self)

    # --- sources ----------------------------------------------------------------------------------

    def source_of(self, collection: Collection) -> CollectionSource:
        """Return the source for a collection. The program's own collections are mirrored."""
        core = core_of(collection)
        if core is None:
            core = self._mirrors.get(id(collection))
            if core is None:
                core = self._mirrors[id(collection)] = MirrorCore(collection)
        return CollectionSource(collection, core)

    def _tap(self, source: CollectionSource, *, with_state: bool) -> Tap:
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
        tap = Tap(source, self._numbers, wake=self.wake, ended=self._tap_ended, with_state=with_state)
        self.taps.append(tap)
        tap.attach()
        self._links_changed()
        self.metrics.start()  # the first member of a union may have the sink
        return tap

    def _untap(self, tap: Tap) -> None:
        """Cease to read a collection."""
        tap.detach()
        self.taps.remove(tap)
        if tap.source.computed is not None:
            tap.source.computed.left_by(self)
        self._links_changed()
        mirror = tap.source.core
        if isinstance(mirror, MirrorCore) and all(other.source.core is not mirror for other in self.taps):
            del self._mirrors[id(mirror.collection)]
            ending = self.tasks.start(mirror.life.leave_in_time(), f"kinformer end of the mirror of {mirror.name}")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _links_changed(self) -> None:
        if self._propagation is not None:
            self._propagation.links += 1

    def _tap_ended(self, tap: Tap, error: BaseException) -> None:
        if not self.life.has_ended and not self.has_departed:  # with its cluster, which ends this collection next
            tap.error = error
            with logged_for(self.cluster):
                self._input_ended(tap, error)

    def _input_ended(self, tap: Tap, error: BaseException) -> None:
        """End, because a collection that it reads has ended."""
        source = tap.source
        message = "derived collection %s no longer changes, because %s ended: %s"
        log.warning(message, self.name, source.name, describe(error), resource=self.name, reason=error)
        if isinstance(error, StoppedError):
            error = StoppedError(f"derived collection {self.name} has ended, because {source.name} was exited")
        self.has_departed = source.core.has_departed
        self._end(error)

    def inputs(self, member: str = "") -> Sequence[CollectionSource]:
        """Return the current sources, or the first ones before it has been entered."""
        return [tap.source for tap in self.taps] if self._propagation is not None else self._sources

    def roots(self, member: str = "") -> list[Any]:
        """Return the cores of the informers behind this collection, or behind one member of a union by name."""
        cores = self.walk(lambda core: core.inputs(member))
        return [root for core in cores if not isinstance(core, ComputedCore) for root in core.roots(member)]

    async def prove(self) -> None:
        """Return once the values are computed from the state that the server had at the call, or from a later one."""
        await self.values.synced.wait()
        await all_of(core.prove() for core in self.walk(_tapped) if not isinstance(core, ComputedCore))
        await self.settled()

    @property
    def sink(self) -> Metrics | None:
        """The sink of the first informer behind it that has one."""
        return next((sink for root in self.roots() if (sink := root.sink) is not None), None)

    # --- state ------------------------------------------------------------------------------------

    def unlisted_reason(self) -> str:
        """Return the reason why the values are not complete, or "" if they are. Each source is named once."""
        reasons: list[str] = []
        seen: set[CollectionCore] = {self}
        waiting: list[tuple[str, CollectionCore]] = [("", self)]
        while waiting:
            path, core = waiting.pop()
            if not isinstance(core, ComputedCore):
                reasons.append(path + core.unlisted_reason())
                continue
            own, missing = core.waits_for()
            reasons.extend(path + reason for reason in own)
            fresh = [(f"{path}{name}: ", source) for name, source in missing if source not in seen]
            seen.update(source for _, source in fresh)
            waiting.extend(reversed(fresh))
        return "; ".join(reasons)

    def waits_for(self) -> tuple[list[str], list[tuple[str, CollectionCore]]]:
        """Return why its values are not complete: its own reasons, and the names and cores of incomplete sources."""
        if not self.life.has_begun:
            return ["it has not been entered; use `async with` on it"], []
        if self.values.synced.is_open:
            return [], []
        missing = self._missing()
        return [] if missing else ["its values are being computed"], missing

    def refusals(self, strict: bool) -> list[Refusals]:
        """Return the refusals of the informers behind it that its first sync waits for."""
        refusals: dict[Refusals, None] = {}
        seen: set[CollectionCore] = {self}
        waiting: list[CollectionCore] = [self]
        while waiting:
            core = waiting.pop()
            if not isinstance(core, ComputedCore):
                refusals.update(dict.fromkeys(core.refusals(strict)))
                continue
            fresh = [source for source in core.blocked_by(strict) if source not in seen]
            seen.update(fresh)
            waiting.extend(reversed(fresh))
        return list(refusals)

    def blocked_by(self, strict: bool) -> list[CollectionCore]:
        """Return the sources that its first sync waits for."""
        return [] if self.values.synced.is_open else [source for _, source in self._missing()]

    def _missing(self) -> list[tuple[str, CollectionCore]]:
        return [(tap.source.name, tap.source.core) for tap in self.taps if not tap.is_synced]

    def unsynced_errors(self) -> dict[str, BaseException | None]:
        """Return the last error of each source that it is waiting for, by name."""
        return {tap.source.name: tap.source.core.health().last_error for tap in self.taps if not tap.is_synced}

    def health(self) -> InformerHealth:
        """Return the health of the worst source, but `synced` of the collection itself.

        Lists and streams are counted once, however many paths lead to their informer.
        """
        healths: dict[CollectionCore, InformerHealth] = {}
        followed: list[InformerHealth] = []
        for core in self.walk(_tapped):
            if isinstance(core, ComputedCore):
                healths[core] = core.health_from(healths)
            else:
                healths[core] = core.health()
                followed.append(healths[core])
        relists, watches = sum(health.relists for health in followed), sum(health.watches for health in followed)
        return replace(healths[self], relists=relists, watches=watches)

    def health_from(self, healths: Mapping[CollectionCore, InformerHealth]) -> InformerHealth:
        """Return the health, given that of the sources."""
        parts = self._health_of_inputs(healths)
        if not parts:  # it has not been entered, or is a union without a member
            parts = [nothing_followed(running=self.life.has_begun)]
        synced, stopped = self.values.synced.is_open, self.life.has_ended
        return combine_health(parts, synced=synced, stopped=stopped, error=self.life.crash)

    def _health_of_inputs(self, healths: Mapping[CollectionCore, InformerHealth]) -> list[InformerHealth]:
        return [health for tap in list(self.taps) if (health := healths.get(tap.source.core)) is not None]

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
        if self._propagation is not None and self.behind.links != self._propagation.links:
            self._find_behind(self._propagation.links)
        return any(publisher.is_settling for publisher in self.behind.publishers)

    def _find_behind(self, links: int) -> None:
        for core in self.walk(lambda core: [] if core.behind.links == links else _tapped(core)):
            if isinstance(core, ComputedCore) and core.behind.links != links:
                core.behind = Behind(links, list(dict.fromkeys(chain.from_iterable(map(_behind, _tapped(core))))))

    @property
    def has_work(self) -> bool:
        """True if some changes of the sources are not in the values yet."""
        if self._propagation is None or not self._propagation.is_busy:
            return False
        return any(isinstance(core, ComputedCore) and core.has_own_work for core in self.walk(_tapped))

    @property
    def has_own_work(self) -> bool:
        """True if some changes that its sources have delivered are not in its values yet."""
        return not self.life.has_ended and (self._is_behind or any(not tap.is_empty for tap in self.taps))

    async def settled(self) -> None:
        """Wait until the changes of the sources are in the values, or the collection has ended."""
        while self._propagation is not None and not self.life.has_ended and self.has_work:
            await self._propagation.turn()

    def work(self, budget: YieldBudget) -> bool:
        """Take changes, compute the values that they affect, and deliver the results. Return True if work is left."""
        for tap in self.taps:
            tap.begin_turn()
        try:
            if not self.cluster:  # a turn has no context of a cluster
                return self._work(budget)
            with logged_for(self.cluster):
                return self._work(budget)
        finally:
            self.values.hand_out()

    def _work(self, budget: YieldBudget) -> bool:
        if self.values.is_publishing and not self.values.publish(budget):
            return True
        for tap in tuple(self.taps):
            while (change := tap.take()) is not None:
                self._absorb(tap, change)
                if budget.exhausted():
                    return True
        if not self._compute(budget):
            return True
        if self.life.has_ended:
            return False
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


def _behind(source: CollectionSource) -> list[Publisher]:
    return [source.publisher] if source.computed is None else source.computed.behind.publishers


def _tapped(core: ComputedCore) -> list[CollectionSource]:
    return [tap.source for tap in list(core.taps)]
