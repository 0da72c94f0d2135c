"""The typed informer: an informer whose objects have a model.

It is the same informer, looked at with a model: one cache, one watch and one life, whatever number of models it is read
as, and whoever asks for none pays nothing. What a typed reader pays is a view more for each object that it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from kinformer.cache.lister import IndexView, Lister
from kinformer.informer.informer import SharedInformer
from kinformer.objects.object import KubeObject
from kinformer.objects.typed import Model
from kinformer.objects.types import M
from kinformer.processor.event_stream import EventStream, InformerEvent
from kinformer.processor.handler import Handler, HandlerRegistration
from kinformer.processor.mailbox import Mailbox

__all__ = ["ModelInformer", "with_model"]


def with_model(informer: SharedInformer[Any], model: type[M]) -> SharedInformer[M]:
    """The same informer, whose objects have ``.model``, an instance of `model`; what `for_resource(model=...)` gives.

    For an informer that is used without a factory. The result equals the informer, and entering, leaving or releasing
    either is doing so with both.

    Raises:
        ConfigError: `model` is nothing that an object can be decoded as.
    """
    return ModelInformer(informer, model)


class ModelInformer(SharedInformer[M]):
    """See `with_model`."""

    # What differs from the informer has a slot here; all else is its own state, in its own dict.
    __slots__ = ("_informer", "_reads_as", "indexer", "lister")

    def __init__(self, informer: SharedInformer[Any], model: type[M]) -> None:
        informer = informer._informer if isinstance(informer, ModelInformer) else informer
        self.__dict__ = informer.__dict__
        self._informer: SharedInformer[Any] = informer
        self._reads_as: Model[M] = Model(model, informer.name)
        self.indexer = _ModelIndexView(informer._indexer, self._reads_as)
        self.lister = Lister(self.indexer, default_namespace=informer.lister.default_namespace)

    def add_event_handler(
        self,
        handler: Any = None,
        *,
        on_add: Any = None,
        on_update: Any = None,
        on_delete: Any = None,
        resync_period: float | None = None,
        filter: Callable[[Any], Any] | None = None,  # noqa: A002 - the contract's name
        queue_size: int = 1024,
        name: str | None = None,
    ) -> HandlerRegistration:
        """See `SharedInformer.add_event_handler`; callbacks and filter get objects with the model."""
        target = _ModelHandler(self._reads_as, handler, on_add=on_add, on_update=on_update, on_delete=on_delete)
        period = self._resync_period if resync_period is None else resync_period
        only = None if filter is None else self._reads_as.reading(filter)
        return self._handlers.add(target, name=name, queue_size=queue_size, only=only, resync_period=period)

    def events(
        self,
        *,
        queue_size: int = 1024,
        filter: Callable[[Any], Any] | None = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream[M]:
        """See `SharedInformer.events`; the events' objects have the model."""
        only = None if filter is None else self._reads_as.reading(filter)
        return self._handlers.stream(
            name or "events",
            queue_size=queue_size,
            only=only,
            resync_period=self._resync_period,
            make=partial(_ModelStream, self._reads_as),
        )

    def add_indexers(self, indexers: Mapping[str, Any]) -> None:
        """See `SharedInformer.add_indexers`; the functions get objects with the model."""
        super().add_indexers(self._reading(indexers))

    async def build_indexers(self, indexers: Mapping[str, Any]) -> None:
        """See `SharedInformer.build_indexers`; the functions get objects with the model."""
        await super().build_indexers(self._reading(indexers))

    def _reading(self, indexers: Mapping[str, Any]) -> dict[str, Any]:
        reading = self._reads_as.reading
        return {name: reading(func) if callable(func) else func for name, func in indexers.items()}

    def __eq__(self, other: object) -> bool:
        mine = other._informer if isinstance(other, ModelInformer) else other
        return self._informer is mine

    def __hash__(self) -> int:
        return hash(self._informer)


class _ModelHandler(Handler):
    """Callbacks that get objects with the model; what they return is returned, so nothing is awaited in between."""

    def __init__(self, model: Model[Any], handler: Any, **callbacks: Any) -> None:
        super().__init__(handler, **callbacks)
        read = model.read
        self._on_add, self._on_delete = _of_one(read, self._on_add), _of_one(read, self._on_delete)
        self.on_update = _of_two(read, self.on_update)


def _of_one(read: Callable[[Any], Any], callback: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if callback is None:
        return None

    @wraps(callback)
    def of_one(obj: KubeObject, **flag: bool) -> Any:
        return callback(read(obj), **flag)

    return of_one


def _of_two(read: Callable[[Any], Any], callback: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if callback is None:
        return None

    @wraps(callback)
    def of_two(old: KubeObject, new: KubeObject) -> Any:
        seen = read(new)
        return callback(seen if old is new else read(old), seen)  # a resync: one object, twice

    return of_two


class _ModelStream(EventStream[M]):
    """A stream whose objects have the model."""

    def __init__(self, model: Model[M], mailbox: Mailbox, **ends: Any) -> None:
        super().__init__(mailbox, **ends)
        self._read = model.read

    async def __anext__(self) -> InformerEvent[M]:
        event = await super().__anext__()
        obj, old = event.object, event.old
        seen = self._read(obj)
        return InformerEvent(
            event.type,
            seen,
            seen if old is obj else None if old is None else self._read(old),
            is_in_initial_list=event.is_in_initial_list,
            final_state_unknown=event.final_state_unknown,
        )


class _ModelIndexView(IndexView[KubeObject[M]]):
    """The reads of a cache, each of which gives objects with the model: new ones, so that nobody shares a model."""

    __slots__ = ()

    def __init__(self, indexer: Any, model: Model[M]) -> None:
        super().__init__(indexer)
        read = model.read

        def one(get: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(get)
            def typed(*args: Any) -> Any:
                found = get(*args)
                return None if found is None else read(found)

            return typed

        def several(find: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
            @wraps(find)
            def typed(*args: Any) -> list[Any]:
                return [read(found) for found in find(*args)]

            return typed

        self.get, self.get_by_key = one(indexer.get), one(indexer.get_by_key)
        self.list, self.in_namespace = several(indexer.list), several(indexer.in_namespace)
        self.index, self.by_index, self.select = map(several, (indexer.index, indexer.by_index, indexer.select))
