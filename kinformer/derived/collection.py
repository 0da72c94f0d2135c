"""The derived collection: its public reads, handlers and state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

from kinformer.cache.lister import Lister
from kinformer.derived.engine import Engine
from kinformer.derived.entries import ValuesByKey, ValueView, value_of
from kinformer.derived.metrics import DerivedStatistics
from kinformer.derived.values import ValueIndexers, over_values
from kinformer.informer.collection import CollectionFace
from kinformer.informer.freshness.confirm import confirming
from kinformer.objects.types import ObjectT

__all__ = ["DerivedCollection"]


class DerivedCollection(CollectionFace[ObjectT], Generic[ObjectT]):
    """A collection that is computed from others and follows them. Created by `derive` and its short forms.

    ``async with`` starts and stops it. Entering returns at once, and `wait_synced` waits until all collections that it
    reads are complete and every value has been computed. Until then, readers see nothing. The collections that it reads
    must be entered by their owner, before or after it, and exited after it. If one exits earlier that some value still
    depends on, this collection stops changing. If the cluster of one leaves a fleet, the values are computed without
    its objects.

    Guarantees: at rest, it equals its function applied to all existing objects. A value is computed from one state of
    everything that it reads, and no other value is ever visible. The cache has a change before a handler is called for
    it, and handlers are called only if the value differs from the previous one (`==`, and `KubeObject`s by their JSON).
    It works in slices of 1 ms.

    Attributes:
        name: The name in the log, errors and metrics.
        indexer: The cache by key and by index.
        lister: The cache by name, namespace and selector.
        by_key: The cache as a mapping.
    """

    _core: Engine

    def __init__(self, engine: Engine, *, indexers: ValueIndexers | None = None) -> None:
        self._core = engine
        self.name = engine.name
        if indexers:
            engine.values.add_indexers(indexers)
        self.indexer: ValueView[ObjectT] = ValueView(engine.values.indexer)
        self.lister: Lister[ObjectT] = Lister(self.indexer)
        self.by_key: Mapping[str, ObjectT] = ValuesByKey(self.indexer)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the collections that its values depend on at present."""
        return tuple(tap.source.name for tap in self._core.taps)

    def statistics(self) -> DerivedStatistics:
        """Return counts of changes, calls and pending work."""
        return self._core.statistics()

    async def confirm(self, *, timeout: float | None = 10) -> list[ObjectT]:
        """Return the values, computed from a state that is at least as new as the server was at the call.

        The caches of all informers that it reads are proved to be current, as by `SharedInformer.confirm`.

        Raises:
            TimeoutError: `timeout` seconds have passed. The message says what is missing.
            APIError, ConnectError, WatchError: As for `SharedInformer.confirm`.
            TypeError: It reads a collection of the program's own without `confirm`.
        """
        self._core.life.require_running("confirm")
        async with confirming(self._core, timeout):
            await self._core.sync.unless_refused(None)
            await self._core.prove()
        return list(self.by_key.values())

    def _filter(self, only: Any) -> Any:
        return None if only is None else lambda entry: only(value_of(entry))

    def add_indexers(self, indexers: ValueIndexers) -> None:
        """Add indexes over the values, before or after the start. See `SharedInformer.add_indexers`."""
        self._core.life.require_loop("add_indexers")
        self._core.values.add_indexers(indexers)

    async def build_indexers(self, indexers: ValueIndexers) -> None:
        """Add indexes like `add_indexers`, but in slices that do not block the event loop. They are ready on return."""
        self._core.life.require_loop("build_indexers")
        await self._core.values.indexer.build_indexers(over_values(indexers))

    def __repr__(self) -> str:
        return f"<DerivedCollection {self.name}: {len(self.lister)} values>"
