"""The informer for threads: a blocking interface to a `SharedInformer` on the event loop of another thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, overload

from kinformer.blocking.event_stream import EventStream
from kinformer.blocking.loop_thread import Awaited, LoopThread
from kinformer.cache.indexer import Indexers
from kinformer.cache.lister import IndexView, Lister
from kinformer.informer.informer import SharedInformer
from kinformer.informer.metrics import InformerStatistics
from kinformer.informer.object_wait import wait_for
from kinformer.objects.conditions import Narrowing
from kinformer.objects.object import KubeObject
from kinformer.objects.types import M
from kinformer.processor.callbacks import EventHandler, Filter, OnAdd, OnDelete, OnUpdate
from kinformer.processor.handler import HandlerRegistration as AsyncHandlerRegistration
from kinformer.reflector.health import InformerHealth

__all__ = ["HandlerRegistration", "Informer"]


class HandlerRegistration:
    """The handle of an added handler. Created by `Informer.add_event_handler`."""

    def __init__(self, loop_thread: LoopThread, registration: AsyncHandlerRegistration) -> None:
        self._loop_thread = loop_thread
        self._registration = registration

    @property
    def name(self) -> str:
        """The handler's name, as in `statistics().pending` and the log."""
        return self._registration.name

    @property
    def has_synced(self) -> bool:
        """True if the handler has finished its initial adds."""
        return self._registration.has_synced

    def wait_synced(self, timeout: float | None = None, *, fail_fast: bool | None = None) -> None:
        """Wait until `has_synced`. Raises the same errors as `kinformer.HandlerRegistration.wait_synced`."""
        self._registration._refuse_inside("wait_synced")
        self._loop_thread.call("wait_synced", partial(self._registration.wait_synced, timeout, fail_fast=fail_fast))

    def __repr__(self) -> str:
        return repr(self._registration)


class Informer(Generic[M]):
    """A live, indexed copy of one resource, for threads. Created by `Informers.for_resource`.

    It has the members of `SharedInformer`, and all may be called from any thread. Coroutine methods block here, with
    the same arguments and errors. Reads, `health()` and `statistics()` wait for no other thread.

    Attributes:
        indexer: The cache by key and by index. The same object as the `SharedInformer`'s.
        lister: The cache by name, namespace and selector. The same object as the `SharedInformer`'s.
        by_key: The cache as a mapping. The same object as the `SharedInformer`'s.
    """

    def __init__(self, loop_thread: LoopThread, informer: SharedInformer[M]) -> None:
        self._loop_thread = loop_thread
        self._informer = informer
        self.indexer: IndexView[KubeObject[M]] = informer.indexer
        self.lister: Lister[KubeObject[M]] = informer.lister
        self.by_key: Mapping[str, KubeObject[M]] = informer.by_key

    @property
    def name(self) -> str:
        """The name in the log, `health()` and errors."""
        return self._informer.name

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces that it follows, or None for all."""
        return self._informer.namespaces

    @property
    def has_synced(self) -> bool:
        """True if the first full list is in the cache."""
        return self._informer.has_synced

    @property
    def last_sync_resource_version(self) -> str:
        """The version of the cache (with several namespaces, the lowest one), or "" before the first list."""
        return self._informer.last_sync_resource_version

    wait_synced = Awaited(SharedInformer.wait_synced, of="_informer")
    """Wait until `has_synced`: `SharedInformer.wait_synced`."""

    wait_for_resource_version = Awaited(SharedInformer.wait_for_resource_version, of="_informer")
    """Read your own writes: `SharedInformer.wait_for_resource_version`."""

    page = Awaited(SharedInformer.page, of="_informer")
    """Return a sorted page of the cache: `SharedInformer.page`."""

    confirm = Awaited(SharedInformer.confirm, of="_informer")
    """Return objects at least as new as the server was at the call: `SharedInformer.confirm`."""

    def health(self) -> InformerHealth:
        """Return how well the cache currently follows the server."""
        return self._informer.health()

    def statistics(self) -> InformerStatistics:
        """Return counts of everything received and delivered, and of pending calls."""
        return self._informer.statistics()

    @overload
    def wait_for(self, key: str, condition: Narrowing, timeout: float | None = None) -> KubeObject[M]: ...
    @overload
    def wait_for(
        self, key: str, condition: Callable[[KubeObject[M] | None], object], timeout: float | None = None
    ) -> KubeObject[M] | None: ...
    def wait_for(
        self, key: str, condition: Callable[[KubeObject[M] | None], object], timeout: float | None = None
    ) -> KubeObject[M] | None:
        """Wait until a condition is true for the cached object with this key. See `kinformer.wait_for`.

        Args:
            key: `"namespace/name"` or `"name"`.
            condition: A function of the object, or of None while there is none. It runs on the loop's thread.
            timeout: Seconds, or None to wait forever.

        Returns:
            The object for which it was true, or None if it was true for the object's absence.

        Raises:
            TimeoutError: `timeout` seconds have passed. The message describes the object's current state.
            StoppedError: The informer was exited. If it has crashed, its error is raised instead.
        """
        return self._loop_thread.call("wait_for", partial(wait_for, self._informer, key, condition, timeout))

    # --- handlers and streams -------------------------------------------------------------------------

    def add_event_handler(
        self,
        handler: EventHandler[M] | None = None,
        *,
        on_add: OnAdd[M] | None = None,
        on_update: OnUpdate[M] | None = None,
        on_delete: OnDelete[M] | None = None,
        resync_period: float | None = None,
        filter: Filter[M] | None = None,  # noqa: A002 - the contract's name
        queue_size: int | None = 1024,
        name: str | None = None,
    ) -> HandlerRegistration:
        """Add plain functions that are called for the cached objects, as adds, and for every change.

        They run in a worker thread, in order and one at a time, and may block. Handlers do not wait for each other. The
        arguments and errors are the same as for `SharedInformer.add_event_handler`. A filter runs on the loop's thread.

        Raises:
            ConfigError: A callback is a coroutine function, in addition to the reasons there.
        """
        add = partial(
            self._informer.add_event_handler,
            handler,
            on_add=on_add,
            on_update=on_update,
            on_delete=on_delete,
            resync_period=resync_period,
            filter=filter,
            queue_size=queue_size,
            name=name,
            thread=True,
        )
        registration: AsyncHandlerRegistration = self._loop_thread.call("add_event_handler", add)
        return HandlerRegistration(self._loop_thread, registration)

    def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Stop calling a handler. Idempotent. See `SharedInformer.remove_event_handler`.

        Raises:
            RuntimeError: Called with `drain` from inside the handler itself.
        """
        inner = registration._registration
        if drain:
            inner._refuse_inside("remove_event_handler(drain=True)")
        self._loop_thread.call("remove_event_handler", partial(self._informer.remove_event_handler, inner, drain=drain))

    def events(
        self,
        *,
        queue_size: int | None = 1024,
        filter: Filter[M] | None = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream[M]:
        """Return a stream of changes to iterate over: ``with informer.events() as events: for event in events``.

        The arguments are the same as for `SharedInformer.events`. A filter runs on the loop's thread.
        """
        make = partial(self._informer.events, queue_size=queue_size, filter=filter, name=name)
        return EventStream(self._loop_thread, make)

    # --- indexes --------------------------------------------------------------------------------------

    def add_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes, which are ready on return. They are built in slices, as in `SharedInformer.build_indexers`.

        Raises:
            ValueError: One of the names already has another function. Then no index is added.
        """
        self._loop_thread.call("add_indexers", partial(self._informer.build_indexers, indexers))

    def __repr__(self) -> str:
        return repr(self._informer).replace("SharedInformer", "blocking.Informer", 1)
