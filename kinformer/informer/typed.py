"""The typed informer: an informer whose objects have a model.

It is a view of the same informer: there is one cache, one watch and one lifetime for any number of models, and a reader
without a model pays nothing. A typed reader pays for one more view of each object that it gets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, Unpack

from kinformer.cache.indexer import Indexer, Indexers
from kinformer.cache.lister import IndexView
from kinformer.informer.collection import core_of
from kinformer.informer.informer import SharedInformer
from kinformer.objects.models.typed import Model
from kinformer.objects.object import KubeObject
from kinformer.objects.types import M
from kinformer.processor.callbacks import EventHandler, OnAdd, OnDelete, OnUpdate
from kinformer.processor.event_stream import EventStream, InformerEvent, StreamParts
from kinformer.processor.handler import Handler
from kinformer.processor.mailbox import Mailbox, Notification

__all__ = ["ModelInformer"]

P = ParamSpec("P")
R = TypeVar("R")
_M = TypeVar("_M")


class ModelInformer(SharedInformer[M]):
    """An informer with objects that have ``.model``.

    It equals the informer. Entering, exiting or releasing one of them does so with both.

    Raises:
        ConfigError: No object can be decoded as `model`.
    """

    def __init__(self, informer: SharedInformer, model: type[M]) -> None:
        core = core_of(informer)
        self._reads_as: Model[M] = Model(model, core.name)
        self._show(core, _ModelIndexView(core.parts.indexer, self._reads_as))

    def _handler(self, handler: Any, **callbacks: Any) -> Handler:
        return _ModelHandler(self._reads_as, handler, **callbacks)

    def _filter(self, only: Any) -> Any:
        return None if only is None else self._reads_as.reading(only)

    def _stream(self) -> Callable[..., EventStream]:
        return partial(_ModelStream, self._reads_as)

    def add_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes whose functions get objects with the model. See `SharedInformer.add_indexers`."""
        super().add_indexers(self._reading(indexers))

    async def build_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes whose functions get objects with the model. See `SharedInformer.build_indexers`."""
        await super().build_indexers(self._reading(indexers))

    def _reading(self, indexers: Indexers[KubeObject[M]]) -> Indexers[KubeObject]:
        reading = self._reads_as.reading
        return {name: reading(func) if callable(func) else func for name, func in indexers.items()}


class _ModelHandler(Handler):
    """Callbacks that get objects with the model. Their results are returned, so nothing is awaited in between."""

    def __init__(
        self,
        model: Model[M],
        handler: EventHandler[M] | None,
        *,
        on_add: OnAdd[M] | None,
        on_update: OnUpdate[M] | None,
        on_delete: OnDelete[M] | None,
        owner: str,
    ) -> None:
        super().__init__(handler, on_add=on_add, on_update=on_update, on_delete=on_delete, owner=owner)
        for kind, (callback, keywords) in self.callbacks.items():
            self.callbacks[kind] = callback and _reading(model, callback), keywords


def _reading(model: Model[_M], callback: Callable[..., R]) -> Callable[..., R]:
    read = model.read

    @wraps(callback)
    def with_model(*objects: KubeObject, **flags: bool | str) -> R:
        *before, new = objects
        seen = read(new)
        # In a resync `old` is `new`, and is read once.
        return callback(*(seen if old is new else read(old) for old in before), seen, **flags)

    return with_model


class _ModelStream(EventStream[M]):
    """A stream whose objects have the model."""

    def __init__(self, model: Model[M], mailbox: Mailbox, **parts: Unpack[StreamParts]) -> None:
        super().__init__(mailbox, **parts)
        self._read = model.read

    def _event(self, call: Notification) -> InformerEvent[M]:
        event = super()._event(call)
        obj, old = event.object, event.old
        seen = self._read(obj)
        return InformerEvent(
            event.type,
            seen,
            seen if old is obj else None if old is None else self._read(old),
            is_in_initial_list=event.is_in_initial_list,
            final_state_unknown=event.final_state_unknown,
            key=event.key,
        )


class _ModelIndexView(IndexView[KubeObject[M]]):
    """The reads of a cache, returning objects with the model. Each read creates views, so no readers share a model."""

    __slots__ = ()

    def __init__(self, indexer: Indexer, model: Model[M]) -> None:
        super().__init__(indexer)
        self.view = read = model.read

        def one(get: Callable[P, KubeObject | None]) -> Callable[P, KubeObject[M] | None]:
            @wraps(get)
            def typed(*args: P.args, **kwargs: P.kwargs) -> KubeObject[M] | None:
                obj = get(*args, **kwargs)
                return None if obj is None else read(obj)

            return typed

        def several(find: Callable[P, list[KubeObject]]) -> Callable[P, list[KubeObject[M]]]:
            @wraps(find)
            def typed(*args: P.args, **kwargs: P.kwargs) -> list[KubeObject[M]]:
                return [read(obj) for obj in find(*args, **kwargs)]

            return typed

        self.get, self.get_by_key = one(indexer.get), one(indexer.get_by_key)
        self.list, self.in_namespace = several(indexer.list), several(indexer.in_namespace)
        self.index, self.by_index, self.select = (
            several(indexer.index),
            several(indexer.by_index),
            several(indexer.select),
        )
