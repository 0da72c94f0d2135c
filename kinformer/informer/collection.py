"""The collection: what an informer and a derived collection have in common, for those that read and listen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from kinformer.cache.lister import Selector
from kinformer.cache.store import Objects
from kinformer.processor.event_stream import EventStream
from kinformer.processor.handler import HandlerRegistration
from kinformer.processor.publisher import Readable
from kinformer.reflector.health import InformerHealth

__all__ = ["CacheReads", "Collection", "CollectionReads", "ComputedCollection", "FactoryPart", "FleetPart"]

T = TypeVar("T")
V = TypeVar("V")


class Collection(Protocol[T]):
    """Objects or values by key, which change while one reads them: a `SharedInformer`, or what `derive` makes.

    Reads return snapshots and may come from any thread. The cache has a change before a handler hears of it.

    Attributes:
        name: For the log, errors and metrics.
        by_key: The objects as a mapping.
    """

    name: str
    by_key: Mapping[str, T]
    _readable: Readable

    def get_by_key(self, key: str) -> T | None:
        """Return the object of a key, or None."""
        ...

    def by_index(self, index: str, value: str) -> Objects[T]:
        """Return the objects that have a value in an index."""
        ...

    def list(self, label_selector: Selector | None = None, *, namespace: str | None = None) -> Objects[T]:
        """Return the objects that match, in no order."""
        ...

    def __iter__(self) -> Iterator[T]: ...
    def __len__(self) -> int: ...

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
        """Have callbacks called for what is there, as adds, and for every change."""
        ...

    async def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Call a handler no more."""
        ...

    def events(
        self,
        *,
        queue_size: int | None = 1024,
        filter: Any = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream[Any]:
        """The changes to iterate over."""
        ...

    @property
    def has_synced(self) -> bool:
        """True once it is complete."""
        ...

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until `has_synced`."""
        ...

    def health(self) -> InformerHealth:
        """How well it follows what it is made of."""
        ...


class ComputedCollection(Collection[T], Protocol[T]):
    """A collection that is computed from others, as `derive` makes it: ``async with`` starts and stops it."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the collections that it reads."""
        ...

    def statistics(self) -> Any:
        """What has gone through, and what waits: a `DerivedStatistics`."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
    def filter(self, predicate: Callable[[T], object], *, name: str | None = None) -> ComputedCollection[T]:
        """Derive the collection of the objects for which `predicate` is true."""
        ...

    def map(self, function: Callable[[T], V | None], *, name: str | None = None) -> ComputedCollection[V]:
        """Derive the collection of what `function` returns for each object."""
        ...

    def add_indexers(self, indexers: Any, /) -> None:
        """Add indexes over the values."""
        ...

    def _start_tasks(self) -> None: ...
    async def _leave(self, deadline: float, /) -> None: ...
    def _refuse_leaving(self) -> None: ...


@runtime_checkable
class FactoryPart(Protocol):
    """What a factory or a `Manager` enters and leaves beside its informers: a derived collection, or a `Fleet`."""

    name: str

    @property
    def has_synced(self) -> bool:
        """True once it is complete."""
        ...

    def _start_tasks(self) -> None: ...
    async def _leave(self, deadline: float, /) -> None: ...
    def _refuse_leaving(self) -> None: ...


@runtime_checkable
class FleetPart(FactoryPart, Protocol):
    """A part that is a `Fleet`."""

    @property
    def source_error(self) -> BaseException | None:
        """Why it cannot be told which clusters there are."""
        ...

    def health(self) -> Mapping[str, Any]:
        """The `ClusterHealth` of each cluster, by name."""
        ...

    def statistics(self) -> Any:
        """What has come and gone: a `FleetStatistics`."""
        ...


class CacheReads(Generic[T]):
    """The reads of a cache by its `indexer` and `lister`, which may come from any thread."""

    indexer: Any
    lister: Any

    def get_by_key(self, key: str) -> T | None:
        """Return the object of a key, `"namespace/name"` or `"name"`, or None."""
        found: T | None = self.indexer.get_by_key(key)
        return found

    def by_index(self, index: str, value: str) -> Objects[T]:
        """Return the objects that have a value in an index, in no order.

        Raises:
            IndexNotFoundError: There is no such index.
        """
        found: Objects[T] = self.indexer.by_index(index, value)
        return found

    def list(self, label_selector: Selector | None = None, *, namespace: str | None = None) -> Objects[T]:
        """Return the objects that match, in no order; see `Lister.list`."""
        found: Objects[T] = self.lister.list(label_selector, namespace=namespace)
        return found

    def __iter__(self) -> Iterator[T]:
        """Iterate over a snapshot."""
        return iter(self.indexer.list())

    def __len__(self) -> int:
        return len(self.indexer)

    def __bool__(self) -> bool:
        return True  # an empty collection is a collection


class CollectionReads(CacheReads[T], Collection[T]):
    """The reads of a collection, and the short forms of what is derived from it."""

    def filter(self, predicate: Callable[[T], object], *, name: str | None = None) -> ComputedCollection[T]:
        """Derive the collection of the objects for which `predicate` is true, under their keys; see `derive`."""
        derived: ComputedCollection[T] = _derived().filtered(self, predicate, name=name)
        return derived

    def map(self, function: Callable[[T], V | None], *, name: str | None = None) -> ComputedCollection[V]:
        """Derive the collection of what `function` returns for each object, without those of None; see `derive`."""
        derived: ComputedCollection[V] = _derived().mapped(self, function, name=name)
        return derived


def _derived() -> Any:
    # The package is above this one: a program that derives nothing does not import it.
    return import_module("kinformer.derived.short_forms")
